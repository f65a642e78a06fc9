"""The ways in which a tuning run ends before its verdict, and its exit codes."""

from collections.abc import Mapping

from eval.cli.command import FAILURES, FINISHED, STOPPED
from optimize.gate.gate import FinishReason

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # the run could not judge any prompts


class EarlyVerdictError(Exception):
    """The run ends in the middle of a phase, for a reason that is its verdict."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


def compute_exit_code(verdict: Mapping[str, object]) -> int:
    """Return the exit code of a run with this verdict. A set that is rejected by the gate gives 0, as a published one.

    See `eval.cli.command` for the codes.
    """
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED
