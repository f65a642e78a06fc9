"""The verdict on a tuning run, as `verdict.json` holds it, and its exit code."""

from collections.abc import Mapping
from typing import Any, TypedDict

from eval.cli.command import FAILURES, FINISHED, STOPPED
from optimize.gate.gate import FinishReason

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # the run could not judge any prompts


class EarlyVerdictError(Exception):
    """The run ends in the middle of a phase, for a reason that is its verdict."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class SideNumbers(TypedDict, total=False):
    """Results of the parent or of the winner in the sealed test."""

    candidate_id: str  # of the winner
    prompts_sha256: str  # of the winner: what was tested is what was published
    accuracy: float  # share of right answers
    ci95: list[float] | None
    score: float  # the metric; where all answers are right or wrong, the accuracy
    score_ci95: list[float] | None
    errors: dict[str, int]  # by error class


class SealedNumbers(TypedDict, total=False):
    """Counts of the sealed test."""

    n_questions: int  # that were asked; all, unless the test stopped early
    n_sealed: int  # questions of the sealed set
    n_answers: int  # of both sides
    n_answers_saved: int  # that the test did not need
    looks: int  # planned; 1: the test was judged once, at its end
    look: int  # at which the test stopped, from 1
    look_level: float  # two-sided: the largest p that passes at that look
    stopped: str  # what the look decided: success or hopeless (`optimize.gate.sequential`)
    epochs: int
    wins: int  # questions on which the winner was better
    losses: int
    ties: int
    test: str  # name of the significance test
    smallest_difference: float | None  # that the sealed set would show at `level` in 80 of 100 cases
    level: float  # two-sided, of all looks together; without looks: the largest p that passes
    level_left: float  # for later tests with these questions, of 0.05 for all of them
    gain_interval: list[float] | None  # at `level`, adjusted for the looks
    opened_before: int  # earlier sealed tests that used any of the questions
    questions_opened_before: int  # questions that were used in an earlier sealed test
    known_to_parent: int  # questions that the parent was tuned on
    failed_answers: dict[str, int]


class BestOnValidation(TypedDict):
    """The candidate that selection on validation alone would have published."""

    candidate_id: str
    val_gain: float


class Verdict(TypedDict, total=False):
    """The verdict on a run, with its reasons and numbers."""

    published: bool
    finish_reason: FinishReason
    reasons: list[str]
    resumable: bool  # a larger budget would continue the run
    simulated: bool
    spend: dict[str, float]
    best_val: BestOnValidation | None
    null_gain: float | None  # of an unchanged copy of the parent: the score of its new answers against the search's
    labels: list[str]  # known to the search; empty: the targets are answers
    metric: str  # name of what `gain` and `score` are: see `eval.scorers.score`
    gain: float | None  # in the metric, -1 to 1
    gain_ci95: list[float] | None  # adjusted for the looks
    gain_shrunken: float | None  # estimate of the true gain of a published set; None: not selected for its gain
    p: float | None
    baseline: SideNumbers
    winner: SideNumbers
    sealed: SealedNumbers
    failed_questions: list[str]  # that the server failed each time
    cost: dict[str, dict[str, float] | None]  # differences per answer
    gate: dict[str, object]
    set: str  # folder of the published or rejected set


def get_score(side: SideNumbers) -> float:
    """Return a side's result in the metric; verdicts of earlier versions hold the accuracy alone."""
    return side.get("score", side["accuracy"])


def list_checks(verdict: Mapping[str, Any]) -> list[str]:
    """Return the gate's checks, each with its result; the reasons, if the run did not come to the gate.

    Verdicts of earlier versions have no results; they have reasons alone.
    """
    return list((verdict.get("gate") or {}).get("checks") or verdict.get("reasons") or ())


def describe_null_control(null_gain: float) -> str:
    """Return a sentence about the "gain" of an unchanged copy of the parent (`Verdict.null_gain`)."""
    return (
        f"null control: an unchanged copy of the starting prompts gained {100 * null_gain:+.1f} points when the "
        "validation questions were answered again; that is chance alone, so a gain of this size there shows nothing"
    )


def compute_exit_code(verdict: Verdict) -> int:
    """Return the exit code of a run with this verdict: rejected by the gate is 0, as published (`eval.cli.command`)."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED
