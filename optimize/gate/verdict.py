"""The verdict on a tuning run, as the run's store and `verdict.json` hold it, and its exit code.

`judge` (`optimize.gate.gate`) decides it, `optimize.reports.outcome` has its sentences.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from eval.cli.command import FAILURES, FINISHED, STOPPED

FinishReason = Literal[
    "improved",  # published
    "not_significant",
    "no_accepted_candidate",
    "budget",
    "leak_blocked",
    "format_loss",
    "metric_errors",
    "reflection_unparsable",
]
BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # the run could not judge any prompts

JsonObject = dict[str, Any]


class EarlyVerdictError(Exception):
    """The run ends in the middle of a phase, for a reason that is its verdict."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class Verdict(TypedDict, total=False):
    """The verdict on a run, with its reasons and numbers."""

    published: bool
    finish_reason: FinishReason
    reasons: list[str]
    resumable: bool  # a larger budget would continue the run
    simulated: bool
    spend: dict[str, float]
    best_val: JsonObject | None  # `candidate_id` that validation alone would have published, and its `val_gain` there
    null_gain: float | None  # of an unchanged copy of the parent: the score of its new answers against the search's
    labels: list[str]  # known to the search; empty: the targets are answers

    # Of a run that came to the gate:
    metric: str  # name of what `gain` and `score` are: see `eval.scorers.score`
    gain: float | None  # in the metric, -1 to 1
    gain_ci95: Sequence[float] | None  # adjusted for the looks
    p: float | None
    baseline: JsonObject  # `accuracy`, `score` in the metric, their intervals, and `errors` by class
    winner: JsonObject  # the same, `candidate_id`, and `prompts_sha256`: what was tested is what was published
    failed_questions: list[str]  # that the server failed each time
    cost: dict[str, dict[str, float] | None]  # differences per answer
    gate: JsonObject  # `settings` and `checks`
    set: str  # folder of the published or rejected set

    # The sealed test. Of a test that was begun and not judged only some of it.
    # `n_questions` that were asked, of `n_sealed`; `epochs`; `n_answers` of both sides, `n_answers_saved` that the test
    # did not need; questions as `wins`, `losses` and `ties` of the winner; `test`, the name of the significance test
    # `looks` that were planned, the `look` at which it stopped, what that decided (`stopped`), and the largest p that
    # passed there (`look_level`)
    # `level` of all looks together, `gain_interval` at that level, `smallest_difference` that all sealed questions
    # would show at it in 80 of 100 cases, `level_left` of 0.05 for later tests with these questions
    # `opened_before`: earlier tests that used any of the questions, which were `questions_opened_before`
    # `known_to_parent`: questions that the parent was tuned on; `failed_answers` of the server by side
    sealed: JsonObject


def compute_exit_code(verdict: Verdict) -> int:
    """Return the exit code of a run with this verdict: rejected by the gate is 0, as published (`eval.cli.command`)."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED
