"""Numbers that repeating each sample adds to the mean: pass@k, pass^k and the majority vote.

Sources: pass@k, M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), and pass^k, S. Yao et al.,
"τ-bench" (2024): unbiased estimators, the share of all draws of k of a sample's answers that hold a right one, or only
right ones. Majority: X. Wang et al., "Self-Consistency" (2022).

    estimate_pass_at(1, 4, 2)      # 0.5: 1 of 4 answers is right; 3 of the 6 pairs hold it
    estimate_pass_hat(3, 4, 2)     # 0.5: 3 of the 6 pairs are right twice
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from eval.analysis.statistics.intervals import Tally, compute_clustered_interval, compute_icc, compute_mean_interval
from eval.analysis.summary.measures import Answer, group_by_sample
from eval.analysis.summary.summary import EpochNumbers, Estimate


def summarise_epochs(final: Iterable[Answer], epochs: int) -> EpochNumbers | None:
    """Return the numbers for each k; None for one epoch, or without any target. Missing epochs count as wrong."""
    samples = [answers for answers in group_by_sample(final) if answers[0].scored]
    if epochs < 2 or not samples:
        return None
    tallies = [(sum(each.correct for each in answers), max(epochs, len(answers))) for answers in samples]
    votes = [score_majority(answers) for answers in samples]
    return EpochNumbers(
        n_questions=len(samples),
        icc=round(compute_icc(tallies), 4),
        pass_at={str(k): _estimate(k, tallies, estimate_pass_at) for k in range(1, epochs + 1)},
        pass_hat={str(k): _estimate(k, tallies, estimate_pass_hat) for k in range(1, epochs + 1)},
        # One vote a sample, however many epochs.
        majority=Estimate(fmean(votes), compute_mean_interval(votes, max_n=len(votes))),
    )


def estimate_pass_at(correct: int, n: int, k: int) -> float:
    """Return the share of the draws of k of the n answers with at least one right answer."""
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def estimate_pass_hat(correct: int, n: int, k: int) -> float:
    """Return the share of the draws of k of the n answers with right answers only."""
    return math.comb(correct, k) / math.comb(n, k)


def score_majority(answers: Sequence[Answer]) -> float:
    """Return 1 if the most frequent answer to one sample is right, else 0; ties and unequal verdicts are averaged."""
    verdicts: defaultdict[str, list[bool]] = defaultdict(list)
    for each in answers:
        if each.vote:
            verdicts[each.vote].append(each.correct)
    most = max(map(len, verdicts.values()), default=0)
    tied = [sum(each) / most for each in verdicts.values() if len(each) == most]
    return fmean(tied) if tied else 0.0


def _estimate(k: int, tallies: Sequence[Tally], estimator: Callable[[int, int, int], float]) -> Estimate:
    values = [estimator(correct, n, k) for correct, n in tallies]
    if k == 1:  # the accuracy itself
        return Estimate(fmean(values), compute_clustered_interval(tallies))
    max_n = sum(n for _, n in tallies) / k
    return Estimate(fmean(values), compute_mean_interval(values, max_n=max_n))
