"""How a tuning run may end: by its verdict, or without one."""

from collections.abc import Mapping
from typing import Any, Literal

from eval.command import FAILURES, FINISHED, STOPPED

FinishReason = Literal[
    "improved",  # published
    "not_significant",
    "no_accepted_candidate",
    "budget",
    "leak_blocked",
    "too_long",
    "format_loss",
    "metric_errors",
    "reflection_unparsable",
]

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # over, and no prompts were judged


def exit_code(verdict: Mapping[str, Any]) -> int:
    """Of a run that has this verdict (`eval.command`): an honest no is 0, and nothing else may be taken for one."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


class EndedError(Exception):
    """The run has come to its end in the middle of a phase, for a reason that is a result."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class HaltedError(Exception):
    """It stopped and can go on: the message says why."""

    def __init__(self, why: str, *options: str) -> None:
        """`options`: without which it cannot go on, such as `name=ANOTHER_NAME`."""
        super().__init__(why)
        self.options = options
