"""The publishing gate: decides from the answers of the sealed test whether a set is published.

    comparison = compare_answers(*map(build_answers, (parent_records, winner_records)))
    judge(settings, comparison, Look.only(level=0.03))["published"]
    decide_look(settings, comparison, Look(plan_looks(4, level=0.03), 2))    # "success", "hopeless", "continue"

A set is published if the gain's interval, at the level of the sealed test (`optimize.gate.sealed_log`), lies above
`min_gain`, p is at most the level, and there are no new format losses: answers that could not be read, of which the
winner has more than the parent beyond chance (docs/explanation/decisions.md 29a). A test with several looks
(docs/explanation/sequential-test.md) is hopeless if the last one is a success with a probability below 5 %, predicted
from the answers so far (Spiegelhalter, Freedman and Blackburn, Controlled Clinical Trials 7, 1986). The interval is a
repeated confidence interval (Jennison and Turnbull, J. Royal Statistical Society B 51, 1989).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, TypedDict

from eval.analysis.comparison.comparison import Comparison
from eval.analysis.statistics.paired_tests import (
    ALPHA,
    PairedResult,
    compute_paired_statistic,
    compute_smallest_difference,
)
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.config.evaluation import require
from eval.execution.failure import is_server_failure
from eval.runs.record import Record
from mas.runtime.text import format_count
from optimize.gate.looks import LookPlan, plan_looks
from optimize.gate.sealed_log import FIRST_LEVEL

MAX_LOOKS = 10  # more save next to nothing
Decision = Literal["success", "hopeless", "continue"]
SUCCESS: Decision = "success"
HOPELESS: Decision = "hopeless"
CONTINUE: Decision = "continue"
MIN_PREDICTED = 0.05  # probability of a success, below which a test is hopeless

COUNTED_AS_RIGHT = "(failed by the model's server, counted as right)"  # in place of the answer
# Share of both sides' answers. Failures of one side reduce the gain: a tenth can cost twenty points, and with more
# hardly any gain could be shown. The scorer may fail as many.
MAX_FAILED_SHARE = 0.1


@dataclass
class GateSettings:
    """The `gate` section of the configuration."""

    min_gain: float = 0.0  # the gain's interval must lie above it
    epochs: int = 5  # answers to each sealed question, of the parent and of the winner
    looks: int = 4  # at equal shares of the sealed questions; the test may stop at each of them. 1: only at the end

    def check(self) -> None:
        """Check the settings; raise UserError if one is out of range."""
        share = "a share from 0 to below 1, such as 0.05 for 5 points"
        require(0 <= self.min_gain < 1, "gate.min_gain", self.min_gain, share)
        require(self.epochs >= 1, "gate.epochs", self.epochs, "at least 1")
        require(1 <= self.looks <= MAX_LOOKS, "gate.looks", self.looks, f"1 to {MAX_LOOKS}")


# The verdict, as the run's store and `verdict.json` hold it; `optimize.reports.outcome` has its sentences.

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

    # The sealed test; of one that was begun and not judged only some of it (docs/reference/tuning.md). Not said there:
    # `questions_opened_before` by earlier tests; `known_to_parent`: questions that the parent was tuned on;
    # `smallest_difference` that all sealed questions would show in 80 of 100 cases
    sealed: JsonObject


def compute_exit_code(verdict: Verdict) -> int:
    """Return the exit code of a run with this verdict: rejected by the gate is 0, as published (`eval.cli.command`)."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


# The decision


@dataclass(frozen=True)
class Look:
    """One of the looks of a plan."""

    plan: LookPlan
    number: int  # from 1

    @classmethod
    def only(cls, level: float) -> "Look":
        """Return the look at a test that has no other."""
        return cls(plan_looks(1, level), 1)

    @property
    def level(self) -> float:
        """The two-sided level of this look: the largest p that passes."""
        return self.plan.levels[self.number - 1]

    @property
    def is_last(self) -> bool:
        return self.number == self.plan.n_looks

    def compute_level(self, level: float) -> float:
        """Return the level at this look of intervals that hold with `level` at all looks together."""
        return plan_looks(self.plan.n_looks, level).levels[self.number - 1]


class LookLine(TypedDict):
    """A look that was taken, as the run's result `looks` has it: it is not taken again."""

    look: int  # from 1
    n_questions: int  # answered by then
    gain: float
    p: float
    level: float  # the largest p that passes
    decision: Decision


def judge(settings: GateSettings, comparison: Comparison, look: Look | None = None) -> Verdict:
    """Judge the winner by all answers so far, and return this part of the verdict; without a look as a first test."""
    look = look or Look.only(FIRST_LEVEL)
    sealed = comparison.score
    checks = [("not_significant", *each) for each in _check_gain(settings, comparison, look)]
    if sentence := _find_format_losses(comparison):
        checks.append(("format_loss", False, sentence))
    failures = [(reason, sentence) for reason, holds, sentence in checks if not holds]
    return {
        "published": not failures,
        "finish_reason": failures[0][0] if failures else "improved",  # type: ignore[typeddict-item]
        "reasons": [sentence for _, sentence in failures] or [sentence for *_, sentence in checks],
        "metric": comparison.metric,
        "gain": sealed.difference,
        "gain_ci95": sealed.compute_interval(look.compute_level(ALPHA)),
        "p": sealed.p,
        "sealed": {
            "look": look.number,
            "looks": look.plan.n_looks,
            "look_level": look.level,
            "level": look.plan.level,
            "gain_interval": sealed.compute_interval(look.level),
            "smallest_difference": _find_smallest_difference(sealed, look),
            **{name: getattr(sealed, name) for name in ("n_questions", "wins", "losses", "ties", "test")},
        },
        "gate": {
            "settings": asdict(settings),
            "checks": [f"{'passed' if holds else 'failed'}: {sentence}" for _, holds, sentence in checks],
        },
    }


def _find_smallest_difference(sealed: PairedResult, look: Look) -> float | None:
    """Return what the whole test would show, if the questions that it did not need differ as much."""
    if sealed.standard_error is None:
        return None
    share = look.number / look.plan.n_looks
    error, n_questions = sealed.standard_error * math.sqrt(share), round(sealed.n_questions / share)
    return compute_smallest_difference(error, n_questions, look.plan.levels[-1])


def decide_look(settings: GateSettings, comparison: Comparison, look: Look) -> Decision:
    """Return what follows from the answers so far.

    Success is what the gate would publish now. A test whose gain is large enough, but not its format, goes on: it is
    hopeless only if the gain is.
    """
    if judge(settings, comparison, look)["published"]:
        return SUCCESS
    if look.is_last:
        return HOPELESS
    predicted = look.plan.predict_success(look.number, _compute_statistic(comparison.score, settings.min_gain))
    return HOPELESS if predicted < MIN_PREDICTED else CONTINUE


def _check_gain(settings: GateSettings, comparison: Comparison, look: Look) -> list[tuple[bool, str]]:
    """Return the checks of gain and p: whether each holds, and a sentence."""
    sealed, limit = comparison.score, _points(settings.min_gain)
    ci95, interval = sealed.compute_interval(look.compute_level(ALPHA)), sealed.compute_interval(look.level)
    is_above, p_holds = bool(interval and interval[0] > settings.min_gain), sealed.p <= look.level
    adjusted, where = "", ""
    if look.plan.n_looks > 1:
        adjusted, where = ", adjusted for the looks", f" at look {look.number} of {look.plan.n_looks}"
    bounds = f"95% interval {_points(ci95[0])} to {_points(ci95[1])}{adjusted}" if ci95 else "no interval"
    basis = f"{format_count(sealed.n_questions, 'question')}, {format_count(sealed.epochs, 'answer')} each"
    above = f"there is no interval that could lie above {limit}"
    if interval is not None:
        lies = f"{_points(interval[0])} to {_points(interval[1])}, {'lies' if is_above else 'does not lie'}"
        above = f"the {100 * (1 - look.plan.level):.4g}% interval, {lies} above {limit}"
    gain = f"The gain in {comparison.metric} on the sealed questions is {_points(sealed.difference)} points"
    p = f"p is {sealed.p:.3g} ({sealed.test}), {'at most' if p_holds else 'above'} the required {look.level:.3g}"
    return [(is_above, f"{gain} ({bounds}; {basis}); {above}."), (p_holds, f"{p}{where}.")]


def _find_format_losses(comparison: Comparison) -> str | None:
    losses = comparison.unreadable
    if losses.ci95 is None or losses.ci95[0] <= 0:
        return None
    before, now = comparison.first.score, comparison.second.score
    return (
        f"More answers cannot be read: {losses.second:.1%} of the answers, {losses.first:.1%} with the "
        f"parent's prompts; that is beyond chance. Net {comparison.metric}, in which they count as wrong: "
        f"{before:.1%} before, {now:.1%} now ({_points(now - before)} points)."
    )


def _points(share: float) -> str:
    return f"{100 * share:+.1f}" if share else "0"


def _compute_statistic(result: PairedResult, min_gain: float) -> float:
    """Return the distance of the gain from the least one; from 0 it is that of the exact test."""
    if result.sums is None:
        return 0.0
    if min_gain:
        return compute_paired_statistic(min_gain, result.sums)
    return math.copysign(-NormalDist().inv_cdf(result.p / 2), result.difference) if 0 < result.p < 1 else 0.0


# Answers that the model's server fails each time count against the new prompts: the winner's as wrong, the parent's as
# right; failures of both sides on the same question are paired and count as wrong for both.


@dataclass(frozen=True)
class ImputedAnswers:
    """Answers of both sides with imputed scores, one per question and epoch, and counts of the failures."""

    parent: list[Record]
    winner: list[Record]
    n_failed: dict[str, int]  # "parent", "winner", "as_right" (the part of the parent's that counts as right)
    questions: list[str]  # ids of questions with a failed answer


def impute_failures(parent: Sequence[Record], winner: Sequence[Record]) -> ImputedAnswers:
    """Return both sides' answers with imputed scores; the store keeps the failures."""
    of_parent, of_winner = (
        Counter(record.sample_id for record in side if is_server_failure(record)) for side in (parent, winner)
    )
    as_right = of_parent - of_winner  # question → answers of the parent
    left = Counter(as_right)

    def impute(record: Record) -> Record:
        if not is_server_failure(record):
            return record
        record = replace(record, usage=replace(record.usage, cost_usd=None))  # it must not make prompts look cheaper
        if not left[record.sample_id]:
            return record
        left[record.sample_id] -= 1
        return replace(record, score=1.0, error=None, error_class=None, answer=COUNTED_AS_RIGHT)

    return ImputedAnswers(
        parent=[impute(record) for record in parent],
        winner=[impute(record) for record in winner],  # by now, nothing is left to count as right
        n_failed={"parent": of_parent.total(), "winner": of_winner.total(), "as_right": as_right.total()},
        questions=list(of_parent | of_winner),
    )


def exceeds_failure_limit(n_failed: int, n_answers: int) -> bool:
    """Return whether too many of both sides' answers failed for a verdict."""
    return n_failed > MAX_FAILED_SHARE * n_answers


def max_failing_questions(n_questions: int) -> int:
    """Return the number of questions that the server may fail each time, for one side only, below the limit."""
    return int(2 * MAX_FAILED_SHARE * n_questions)
