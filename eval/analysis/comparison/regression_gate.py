"""Gate for a build: is a run worse than its baseline by more than a margin, in the metric of the runs?

    result = compare_read_runs([base, new])
    judge_new_run(result, margin=0.02, alpha=0.05).verdict       # "pass", "fail" or "inconclusive"

Pass: the lower bound is above −margin, so the change is no worse than allowed (non-inferiority). Fail: the upper bound
is below −margin, and the difference is one that two runs of the same program would show in at most 1 of 100
comparisons. Anything else is inconclusive. Each bound is wrong with probability alpha at most.
"""

from dataclasses import dataclass
from typing import Literal

from eval.analysis.comparison.compare_runs import ComparisonResult
from eval.analysis.statistics.paired_tests import PairedResult
from mas.runtime.errors import UserError
from mas.runtime.text import format_count

Verdict = Literal["pass", "fail", "inconclusive"]
PASS: Verdict = "pass"
FAIL: Verdict = "fail"
INCONCLUSIVE: Verdict = "inconclusive"
SAME_PROGRAM = 0.005  # level at which equal programs must differ to fail: half of 1 %, since intervals are approximate
MIN_QUESTIONS = 2  # below it there is no interval


@dataclass(frozen=True)
class GateResult:
    """The verdict on a build."""

    verdict: Verdict
    margin: float  # loss that is allowed
    alpha: float  # probability of a wrong verdict
    lower: float  # bounds of new − base
    upper: float
    by_chance: bool  # worse than the margin, but equal programs would differ so much too often


def judge_new_run(result: ComparisonResult, margin: float, alpha: float) -> GateResult:
    """Judge the second run against the first, on the questions that the prompts of neither were tuned on.

    Raise UserError if there are too few.
    """
    (pair,) = result.comparisons
    n_questions = 0 if pair.is_optimistic else len(pair.comparison.differences)
    if n_questions < MIN_QUESTIONS:
        left_out = f" ({pair.n_tuned_on} were used to tune the prompts)" if pair.n_tuned_on else ""
        raise UserError(f"{format_count(n_questions, 'question')}{left_out} cannot decide; 2 are needed at least.")
    return judge_difference(pair.comparison.score, margin, alpha)


def judge_difference(
    result: PairedResult, margin: float, alpha: float, same_program: float = SAME_PROGRAM
) -> GateResult:
    """Return the verdict on a difference of two questions at least.

    `same_program`: share of the comparisons of a program with itself that may fail.
    """
    lower, upper = result.compute_interval(2 * alpha) or (-1.0, 1.0)
    strict = result.compute_interval(2 * min(alpha, same_program)) or (-1.0, 1.0)
    is_below = upper < -margin
    differs = is_below and strict[1] < 0
    verdict = PASS if lower > -margin else FAIL if differs else INCONCLUSIVE
    return GateResult(verdict, margin, alpha, lower, upper, is_below and not differs)
