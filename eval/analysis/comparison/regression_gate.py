"""Gate for a build: is a run worse than its baseline by more than a margin, in the metric of the runs?

    result = compare_read_runs([base, new])
    judge_new_run(result, GateSettings(margin=0.02)).verdict       # "pass", "fail" or "inconclusive"

Pass: the lower bound is above −margin, so the change is no worse than allowed (non-inferiority). Fail: the upper bound
is below −margin, and the difference is one that two runs of the same program would show in at most 1 of 100
comparisons. Anything else is inconclusive. Each bound is wrong with probability alpha at most.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from eval.analysis.comparison.compare_runs import ComparisonResult
from eval.analysis.statistics.intervals import Interval
from eval.analysis.statistics.paired_tests import PairedResult
from mas.runtime.errors import UserError
from mas.runtime.text import format_count

Verdict = Literal["pass", "fail", "inconclusive"]
PASS: Verdict = "pass"
FAIL: Verdict = "fail"
INCONCLUSIVE: Verdict = "inconclusive"
GATE_VERSION = 3  # of the JSON; increased whenever a field changes its name or its meaning
SAME_PROGRAM = 0.005  # level at which equal programs must differ to fail: half of 1 %, since intervals are approximate
MIN_QUESTIONS = 2  # below it there is no interval


@dataclass(frozen=True)
class GateSettings:
    """The loss that is allowed, and the probability of a wrong verdict."""

    margin: float = 0.02
    alpha: float = 0.05

    def check(self) -> None:
        """Raise UserError if the margin or alpha is not valid."""
        if not 0 <= self.margin < 1:
            points = f"; {self.margin:g} points are {self.margin / 100:g}" if 1 <= self.margin < 100 else ""
            raise UserError(
                f"--margin {self.margin:g} is not from 0 to below 1; expected a share such as --margin 0.02{points}."
            )
        if not 0 < self.alpha < 0.5:
            raise UserError(f"--alpha is {self.alpha:g}; expected a probability above 0 and below 0.5, such as 0.05.")


@dataclass(frozen=True)
class GateResult:
    """The verdict on a build; the difference is new − base."""

    verdict: Verdict
    margin: float
    alpha: float
    base: Mapping[str, object]  # what `ReadRun.to_dict` returns
    new: Mapping[str, object]
    metric: str  # what the scores are the mean of
    base_score: float
    new_score: float
    difference: float
    lower: float
    upper: float
    by_chance: bool  # worse than the margin, but equal programs would differ so much too often
    n_questions: int
    n_left_out: int  # questions that the prompts of a run were tuned on
    worse: tuple[str, ...]  # ids of questions on which the new run has a lower score, the largest difference first
    better: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return {"version": GATE_VERSION, **asdict(self)}


def judge_new_run(result: ComparisonResult, settings: GateSettings) -> GateResult:
    """Judge the second run against the first, on the questions that the prompts of neither were tuned on.

    Raise UserError if there are too few.
    """
    (base, new), (pair,) = result.runs, result.comparisons
    made = pair.comparison
    n_questions = 0 if pair.is_optimistic else len(made.differences)
    if n_questions < MIN_QUESTIONS:
        left_out = f" ({pair.n_tuned_on} were used to tune the prompts)" if pair.n_tuned_on else ""
        raise UserError(f"{format_count(n_questions, 'question')}{left_out} cannot decide; 2 are needed at least.")
    verdict, (lower, upper), by_chance = judge_difference(made.score, settings.margin, settings.alpha)
    return GateResult(
        verdict=verdict,
        margin=settings.margin,
        alpha=settings.alpha,
        base=base.to_dict(),
        new=new.to_dict(),
        metric=made.metric,
        base_score=made.first.score,
        new_score=made.second.score,
        difference=made.score.difference,
        lower=lower,
        upper=upper,
        by_chance=by_chance,
        n_questions=n_questions,
        n_left_out=pair.n_tuned_on,
        worse=tuple(id for id, difference in made.flips.items() if difference < 0),
        better=tuple(id for id, difference in made.flips.items() if difference > 0),
    )


def judge_difference(
    result: PairedResult, margin: float, level: float, same_program: float = SAME_PROGRAM
) -> tuple[Verdict, Interval, bool]:
    """Return the verdict, the bounds, and whether a loss beyond the margin is one that equal programs often show.

    Args:
        result: of two questions at least.
        margin: loss that is allowed.
        level: probability with which each bound may be wrong.
        same_program: share of the comparisons of a program with itself that may fail.
    """
    bounds = result.compute_interval(2 * level) or (-1.0, 1.0)
    is_below = bounds[1] < -margin
    strict = result.compute_interval(2 * min(level, same_program)) or (-1.0, 1.0)
    differs = is_below and strict[1] < 0
    verdict = PASS if bounds[0] > -margin else FAIL if differs else INCONCLUSIVE
    return verdict, bounds, is_below and not differs
