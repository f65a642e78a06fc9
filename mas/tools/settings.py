"""The limits that hold for every tool."""

from dataclasses import dataclass


@dataclass
class ToolSettings:
    """The `tools` part of the configuration."""

    fail_fast: bool = False  # true: the first tool failure ends the question, as the original design had it
    max_output_chars: int = 20_000  # of one observation; the rest is cut and the cut is said
