"""Settings of the run, for the tools that are called in it.

    with use_tool_context(Resources(ToolSettings())):
        get_settings(ToolLimits).fail_fast      # False

Each tool asks for the settings of its own type, so that this module knows none of them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

_Settings = TypeVar("_Settings")


@dataclass
class ToolLimits:
    """Limits that hold for every tool."""

    fail_fast: bool = False  # true: the first tool failure ends the question, as the original design had it


@dataclass(frozen=True)
class Resources:
    """Settings of the tools, and the services that are open as long as the run."""

    settings: ToolLimits = field(default_factory=ToolLimits)
    services: Mapping[str, object] = field(default_factory=dict)  # by name, such as "browser"
    broken: tuple[str, ...] = ()  # a sentence for each tool that cannot work on this machine, with the remedy


_OUTSIDE_A_RUN = Resources()
_context: ContextVar[Resources] = ContextVar("tool_context", default=_OUTSIDE_A_RUN)


@contextmanager
def use_tool_context(resources: Resources) -> Iterator[None]:
    """Set the context of the tool calls made inside, also in tasks and threads started there."""
    token = _context.set(resources)
    try:
        yield
    finally:
        _context.reset(token)


def get_settings(kind: type[_Settings]) -> _Settings:
    """Return the run's settings of this type: all of them or the field of it; outside a run its defaults."""
    settings = _context.get().settings
    return next((part for part in (settings, *vars(settings).values()) if isinstance(part, kind)), None) or kind()
