"""The publishing gate: decides from the answers of the sealed test whether a set is published.

A set is published if the gain's interval, at the level of the sealed test (`optimize.gate.sealed_log`), lies above 0,
and p is at most the level. A test with several looks (docs/explanation/sequential-test.md) is hopeless if the last one
is a success with a probability below 5 %, predicted from the answers so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

from eval.analysis.comparison.comparison import Comparison
from eval.analysis.statistics.paired_tests import ALPHA, PairedResult, compute_smallest_difference
from eval.cli.command import FAILURES, FINISHED
from eval.config.evaluation import require
from eval.runs.record import Record
from eval.runs.store import RETRIED
from mas.runtime.text import format_count
from optimize.gate.sealed_log import FIRST_LEVEL

MAX_LOOKS = 10  # more save next to nothing
LookDecision = Literal["success", "hopeless", "continue"]
SUCCESS: LookDecision = "success"
HOPELESS: LookDecision = "hopeless"
CONTINUE: LookDecision = "continue"
MIN_PREDICTED = 0.05  # probability of a success, below which a test is hopeless

COUNTED_AS_RIGHT = "(failed by the model's server, counted as right)"  # in place of the answer
# Share of both sides' answers. Failures of one side reduce the gain: a tenth can cost twenty points, and with more
# hardly any gain could be shown. The scorer may fail as many.
MAX_FAILED_SHARE = 0.1

_STEP = 0.02  # of the grid, in standard errors of the whole test; bounds are then right to 0.001
_MOST = 30.0  # standard errors: no bound of at most ten looks is larger
_NORMAL = NormalDist()

# Assumptions about the answers
ASSUMED_ACCURACY = 0.4  # of the prompts that a search begins with: nothing is measured yet
CORRELATION = 0.5  # of answers to one question; published for GAIA: 0.30 to 0.77 (arXiv 2512.06710)
SHARED_DIFFICULTY = 0.8  # no measurement; prompts for the same model find mostly the same questions hard
_EXTRA_ANSWERS = 0.5  # as the interval of eval.analysis.statistics.paired_tests has them


@dataclass
class GateSettings:
    """The `gate` section of the configuration."""

    epochs: int = 5  # answers to each sealed question, of the parent and of the winner
    looks: int = 4  # at equal shares of the sealed questions; the test may stop at each of them. 1: only at the end

    def check(self) -> None:
        """Check the settings; raise UserError if one is out of range."""
        require(self.epochs >= 1, "gate.epochs", self.epochs, "at least 1")
        require(1 <= self.looks <= MAX_LOOKS, "gate.looks", self.looks, f"1 to {MAX_LOOKS}")


FinishReason = Literal[
    "improved",  # published
    "not_significant",
    "no_accepted_candidate",
    "leak_blocked",
    "metric_errors",
    "reflection_unparsable",
]
BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # the run could not judge any prompts
JsonObject = dict[str, Any]
Verdict = JsonObject  # as the store and `verdict.json` hold it: docs/reference/tuning.md


class EarlyVerdictError(Exception):
    """The run ends in the middle of a phase, for a reason that is its verdict."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


def compute_exit_code(verdict: Verdict) -> int:
    """Return the exit code of a run with this verdict: rejected by the gate is 0, as published (`eval.cli.command`)."""
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


# Looks: a test may stop at each of several equal shares of its questions. The level is spent over them by the function
# of Lan and DeMets that resembles the bounds of O'Brien and Fleming (docs/explanation/sequential-test.md); the bounds
# follow by integrating the density of the paths that were not stopped.


@dataclass(frozen=True)
class Look:
    """One of the looks at a test, at equal shares of its questions; the last one is at all of them."""

    number: int  # from 1
    n_looks: int
    test_level: float  # two-sided, of all looks together
    bound: float  # in standard errors
    last_bound: float  # of the last look

    @property
    def level(self) -> float:
        """The two-sided level of this look: the largest p that passes."""
        return self.test_level if self.n_looks == 1 else 2 * _NORMAL.cdf(-self.bound)

    @property
    def is_last(self) -> bool:
        return self.number == self.n_looks

    def compute_level(self, level: float) -> float:
        """Return the level at this look of intervals that hold with `level` at all looks together."""
        return plan_looks(self.n_looks, level)[self.number - 1].level

    def count_questions(self, n: int) -> int:
        """Return how many of n questions are answered for this look."""
        return math.ceil(n * self.number / self.n_looks)

    def predict_success(self, statistic: float) -> float:
        """Return the probability that the last look is a success; `statistic`: the gain so far in standard errors."""
        share = self.number / self.n_looks
        return _NORMAL.cdf((statistic - self.last_bound * math.sqrt(share)) / math.sqrt(1 - share))


@cache
def plan_looks(n_looks: int, level: float) -> tuple[Look, ...]:
    """Return the looks at a test with this two-sided level."""
    import numpy as np
    from scipy.optimize import bisect
    from scipy.special import ndtr

    bounds: list[float] = []
    edge, paths, spent = np.zeros(1), np.ones(1), 0.0  # where a path is, in standard errors of the whole test
    step = math.sqrt(1 / n_looks)
    for number in range(1, n_looks + 1):
        reached = math.sqrt(number / n_looks)
        # SciPy's, since that of the standard library is 0 beyond 8.3 standard errors
        spent, before = float(4 * ndtr(_NORMAL.inv_cdf(level / 4) / reached)), spent

        def compute_excess(bound: float, reached: float = reached, wanted: float = spent - before) -> float:
            """Return the probability that a path first crosses a bound at this look, beyond the wanted one."""
            return float(2 * paths @ ndtr((edge - bound * reached) / step)) - wanted  # noqa: B023 - of this turn alone

        bound = bisect(compute_excess, 0.0, _MOST)
        bounds.append(bound)
        size = 2 * math.ceil(bound * reached / _STEP) + 1
        grid = np.linspace(-bound, bound, size) * reached
        weights = np.full(size, grid[1] - grid[0])
        weights[[0, -1]] /= 2
        density = np.exp(-(((grid[:, None] - edge) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
        edge, paths = grid, weights * (density @ paths)
    return tuple(Look(number, n_looks, level, bound, bounds[-1]) for number, bound in enumerate(bounds, start=1))


# The decision


def judge(comparison: Comparison, look: Look | None = None) -> Verdict:
    """Judge the winner by all answers so far, and return this part of the verdict; without a look as a first test."""
    look = look or plan_looks(1, FIRST_LEVEL)[0]
    sealed = comparison.score
    checks = _check_gain(comparison, look)
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
        "gate": {"checks": [f"{'passed' if holds else 'failed'}: {sentence}" for holds, sentence in checks]},
    }


def decide_look(comparison: Comparison, look: Look) -> LookDecision:
    """Return what follows from the answers so far. Success is what the gate would publish now."""
    if judge(comparison, look)["published"]:
        return SUCCESS
    if look.is_last:
        return HOPELESS
    predicted = look.predict_success(_compute_statistic(comparison.score))
    return HOPELESS if predicted < MIN_PREDICTED else CONTINUE


def _check_gain(comparison: Comparison, look: Look) -> list[tuple[bool, str]]:
    """Return the checks of gain and p: whether each holds, and a sentence."""
    sealed = comparison.score
    ci95, interval = sealed.compute_interval(look.compute_level(ALPHA)), sealed.compute_interval(look.level)
    is_above, p_holds = bool(interval and interval[0] > 0), sealed.p <= look.level
    adjusted, where = "", ""
    if look.n_looks > 1:
        adjusted, where = ", adjusted for the looks", f" at look {look.number} of {look.n_looks}"
    bounds = f"95% interval {_points(ci95[0])} to {_points(ci95[1])}{adjusted}" if ci95 else "no interval"
    basis = f"{format_count(sealed.n_questions, 'question')}, {format_count(sealed.epochs, 'answer')} each"
    above = "there is no interval that could lie above 0"
    if interval is not None:
        lies = f"{_points(interval[0])} to {_points(interval[1])}, {'lies' if is_above else 'does not lie'}"
        above = f"the {100 * (1 - look.test_level):.4g}% interval, {lies} above 0"
    gain = f"The gain in {comparison.metric} on the sealed questions is {_points(sealed.difference)} points"
    p = f"p is {sealed.p:.3g} ({sealed.test}), {'at most' if p_holds else 'above'} the required {look.level:.3g}"
    return [(is_above, f"{gain} ({bounds}; {basis}); {above}."), (p_holds, f"{p}{where}.")]


def _points(share: float) -> str:
    return f"{100 * share:+.1f}" if share else "0"


def _compute_statistic(result: PairedResult) -> float:
    """Return the distance of the gain from 0 in standard errors, by the exact test."""
    if result.sums is None:
        return 0.0
    return math.copysign(-NormalDist().inv_cdf(result.p / 2), result.difference) if 0 < result.p < 1 else 0.0


def impute_failures(parent: Sequence[Record]) -> list[Record]:
    """Return the parent's answers, of which those that the server failed are right; the winner's count as wrong.

    So no gain can come from failures. The store keeps them.
    """
    right = {"score": 1.0, "error": None, "error_class": None, "answer": COUNTED_AS_RIGHT}
    return [replace(each, **right) if is_server_failure(each) else each for each in parent]  # type: ignore[arg-type]


def exceeds_failure_limit(n_failed: int, n_answers: int) -> bool:
    """Return whether too many of both sides' answers failed for a verdict."""
    return n_failed > MAX_FAILED_SHARE * n_answers


def is_server_failure(record: Record) -> bool:
    return record.error_class in RETRIED


# The smallest gain that a test can show. With n questions, k answers per question and side, and accuracies p and q, the
# variance of a question's difference is
#
#     v = r·(p(1-p) + q(1-q) - 2·c·√(p(1-p)·q(1-q)))  +  (1-r)·(p(1-p) + q(1-q))/k
#
# r is the correlation between answers to one question, c that between the questions' difficulty for the one prompt set
# and for the other (E. Miller, arXiv 2411.00640, section 5). Half a step of the exact test is added: 1/(n·k).


def compute_smallest_gain(
    n_questions: int, epochs: int, correlation: float = CORRELATION, level: float = FIRST_LEVEL
) -> float | None:
    """Return the true gain, 0 to 1, that passes the gate in 80 of 100 cases; None if even an accuracy of 1 would not.

    `correlation` is that of answers to one question, `level` the two-sided one of the sealed test.
    """
    from scipy.optimize import bisect

    def compute_excess(gain: float) -> float:
        right = ASSUMED_ACCURACY + gain
        before, after = ASSUMED_ACCURACY * (1 - ASSUMED_ACCURACY), max(0.0, right * (1 - right))
        questions = before + after - 2 * SHARED_DIFFICULTY * math.sqrt(before * after)
        variance = correlation * questions + (1 - correlation) * (before + after) / epochs
        error = math.sqrt((variance + _EXTRA_ANSWERS / epochs / (n_questions - 1)) / n_questions)
        least = compute_smallest_difference(error, n_questions, level)
        return -1.0 if least is None else gain - least - 1 / (n_questions * epochs)

    most = 1 - ASSUMED_ACCURACY
    return float(bisect(compute_excess, 0.0, most)) if compute_excess(most) >= 0 else None


def describe_power(n_questions: int, epochs: int, level: float = FIRST_LEVEL) -> str:
    """Return a sentence about the smallest gain that the sealed set can show; arguments as above."""
    least = compute_smallest_gain(n_questions, epochs, level=level)
    asked = f"power: {format_count(n_questions, 'sealed question')}, {format_count(epochs, 'answer')} each"
    basis = f"assuming that {ASSUMED_ACCURACY:.0%} are right now"
    if least is None:
        return f"{asked}: too few to show any gain reliably ({basis}); seal more, or raise gate.epochs"
    return f"{asked}: a true gain of {round(100 * least)} points passes the gate in 80 of 100 cases ({basis})"
