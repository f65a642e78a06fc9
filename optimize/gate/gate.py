"""The publishing gate: decides from the answers of the sealed test whether a set is published.

    comparison = compare_answers(*map(build_answers, (parent_records, winner_records)))
    judge(settings, comparison)["published"]                                  # as a first test, judged once
    decide_look(settings, comparison, plan_looks(4, level=0.03)[1])          # "success", "hopeless", "continue"

A set is published if the gain's interval, at the level of the sealed test (`optimize.gate.sealed_log`), lies above
`min_gain`, and p is at most the level. A test with several looks (docs/explanation/sequential-test.md) is hopeless if
the last one is a success with a probability below 5 %, predicted from the answers so far.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, TypedDict

from eval.analysis.comparison.comparison import Comparison
from eval.analysis.statistics.paired_tests import ALPHA, PairedResult, compute_paired_statistic
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.config.evaluation import require
from eval.runs.record import Record
from mas.runtime.text import format_count
from optimize.gate.looks import Look, plan_looks
from optimize.gate.sealed_log import FIRST_LEVEL
from optimize.search.server_failures import is_server_failure

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


FinishReason = Literal[
    "improved",  # published
    "not_significant",
    "no_accepted_candidate",
    "budget",
    "leak_blocked",
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
    """The verdict on a run, as its store and `verdict.json` hold it."""

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
    metric: str  # name of what `gain` and `score` are
    gain: float | None  # in the metric, -1 to 1
    gain_ci95: Sequence[float] | None  # adjusted for the looks
    p: float | None
    baseline: JsonObject  # `accuracy`, `score` in the metric, their intervals, and `errors` by class
    winner: JsonObject  # the same, `candidate_id`, and `prompts_sha256`: what was tested is what was published
    failed_questions: list[str]  # that the server failed each time
    cost: dict[str, dict[str, float] | None]  # differences per answer
    gate: JsonObject  # `settings` and `checks`
    set: str  # folder of the published set
    sealed: JsonObject  # the sealed test (docs/reference/tuning.md); of one that was not judged only some of it


def compute_exit_code(verdict: Verdict) -> int:
    """Return the exit code of a run with this verdict: rejected by the gate is 0, as published (`eval.cli.command`)."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


# The decision


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
    look = look or plan_looks(1, FIRST_LEVEL)[0]
    sealed = comparison.score
    checks = _check_gain(settings, comparison, look)
    failures = [sentence for holds, sentence in checks if not holds]
    return {
        "published": not failures,
        "finish_reason": "not_significant" if failures else "improved",
        "reasons": failures or [sentence for _, sentence in checks],
        "metric": comparison.metric,
        "gain": sealed.difference,
        "gain_ci95": sealed.compute_interval(look.compute_level(ALPHA)),
        "p": sealed.p,
        "sealed": {
            "look": look.number,
            "looks": look.n_looks,
            "look_level": look.level,
            "level": look.test_level,
            "gain_interval": sealed.compute_interval(look.level),
            **{name: getattr(sealed, name) for name in ("n_questions", "wins", "losses", "ties", "test")},
        },
        "gate": {
            "settings": asdict(settings),
            "checks": [f"{'passed' if holds else 'failed'}: {sentence}" for holds, sentence in checks],
        },
    }


def decide_look(settings: GateSettings, comparison: Comparison, look: Look) -> Decision:
    """Return what follows from the answers so far. Success is what the gate would publish now."""
    if judge(settings, comparison, look)["published"]:
        return SUCCESS
    if look.is_last:
        return HOPELESS
    predicted = look.predict_success(_compute_statistic(comparison.score, settings.min_gain))
    return HOPELESS if predicted < MIN_PREDICTED else CONTINUE


def _check_gain(settings: GateSettings, comparison: Comparison, look: Look) -> list[tuple[bool, str]]:
    """Return the checks of gain and p: whether each holds, and a sentence."""
    sealed, limit = comparison.score, _points(settings.min_gain)
    ci95, interval = sealed.compute_interval(look.compute_level(ALPHA)), sealed.compute_interval(look.level)
    is_above, p_holds = bool(interval and interval[0] > settings.min_gain), sealed.p <= look.level
    adjusted, where = "", ""
    if look.n_looks > 1:
        adjusted, where = ", adjusted for the looks", f" at look {look.number} of {look.n_looks}"
    bounds = f"95% interval {_points(ci95[0])} to {_points(ci95[1])}{adjusted}" if ci95 else "no interval"
    basis = f"{format_count(sealed.n_questions, 'question')}, {format_count(sealed.epochs, 'answer')} each"
    above = f"there is no interval that could lie above {limit}"
    if interval is not None:
        lies = f"{_points(interval[0])} to {_points(interval[1])}, {'lies' if is_above else 'does not lie'}"
        above = f"the {100 * (1 - look.test_level):.4g}% interval, {lies} above {limit}"
    gain = f"The gain in {comparison.metric} on the sealed questions is {_points(sealed.difference)} points"
    p = f"p is {sealed.p:.3g} ({sealed.test}), {'at most' if p_holds else 'above'} the required {look.level:.3g}"
    return [(is_above, f"{gain} ({bounds}; {basis}); {above}."), (p_holds, f"{p}{where}.")]


def _points(share: float) -> str:
    return f"{100 * share:+.1f}" if share else "0"


def _compute_statistic(result: PairedResult, min_gain: float) -> float:
    """Return the distance of the gain from the least one; from 0 it is that of the exact test."""
    if result.sums is None:
        return 0.0
    if min_gain:
        return compute_paired_statistic(min_gain, result.sums)
    return math.copysign(-NormalDist().inv_cdf(result.p / 2), result.difference) if 0 < result.p < 1 else 0.0


def impute_failures(parent: Sequence[Record], winner: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return both sides' answers, of which those that the server failed are right for the parent, wrong for the winner.

    So no gain can come from failures. The store keeps them.
    """
    as_right = {"score": 1.0, "error": None, "error_class": None, "answer": COUNTED_AS_RIGHT}
    return [_impute(each, **as_right) for each in parent], [_impute(each) for each in winner]


def _impute(record: Record, **changes: object) -> Record:
    if not is_server_failure(record):
        return record
    usage = replace(record.usage, cost_usd=None)  # a failure must not make prompts look cheaper
    return replace(record, usage=usage, **changes)  # type: ignore[arg-type]


def exceeds_failure_limit(n_failed: int, n_answers: int) -> bool:
    """Return whether too many of both sides' answers failed for a verdict."""
    return n_failed > MAX_FAILED_SHARE * n_answers
