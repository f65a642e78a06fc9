"""What repeating each question says beyond the mean: at least one right, all right, and what the majority says.

Sources: pass@k, M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), and pass^k, S. Yao et al.,
"τ-bench" (2024): unbiased estimators, the share of all draws of k of a question's answers that hold a right one, or
only right ones. Majority: X. Wang et al., "Self-Consistency" (2022).

    pass_at(1, 4, 2)      # 0.5: 1 of 4 answers right; 3 of the 6 pairs hold it
    pass_hat(3, 4, 2)     # 0.5: 3 of the 6 pairs are right twice
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from eval.analysis.statistics.intervals import (
    Interval,
    Tally,
    compute_clustered_interval,
    compute_icc,
    compute_mean_interval,
)
from eval.analysis.summary.row import Row


def summarise_epochs(final: Iterable[Row], epochs: int) -> dict[str, Any] | None:
    """Return what repeats say; None for one epoch, or without any target.

    Args:
        final: the last attempt at each (question, epoch); what is missing of a question's epochs counts as wrong.
        epochs: those that were planned.
    """
    questions = [rows for rows in group_by_sample(final) if rows[0].scored]
    if epochs < 2 or not questions:
        return None
    tallies = [(correct, max(epochs, n)) for correct, n in map(count_correct, questions)]
    return {
        "n_questions": len(questions),
        "icc": round(compute_icc(tallies), 4),
        "pass_at": {str(k): _estimate(k, tallies, estimate_pass_at) for k in range(1, epochs + 1)},
        "pass_hat": {str(k): _estimate(k, tallies, estimate_pass_hat) for k in range(1, epochs + 1)},
        "majority": _majority([score_majority(rows) for rows in questions]),
    }


def group_by_sample(rows: Iterable[Row]) -> list[list[Row]]:
    questions: defaultdict[str, list[Row]] = defaultdict(list)
    for each in rows:
        questions[each.sample_id].append(each)
    return list(questions.values())


def count_correct(rows: Sequence[Row]) -> Tally:
    """How many of a question's answers are right, of how many."""
    return sum(each.correct for each in rows), len(rows)


def estimate_pass_at(correct: int, n: int, k: int) -> float:
    """Share of the draws of k of the n answers with at least one right answer."""
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def estimate_pass_hat(correct: int, n: int, k: int) -> float:
    """Share of the draws of k of the n answers with right answers only."""
    return math.comb(correct, k) / math.comb(n, k)


def score_majority(rows: Sequence[Row]) -> float:
    """How right the most frequent answer of one question is: 0 or 1; between, if answers tie or equal ones differ."""
    verdicts: defaultdict[int, list[bool]] = defaultdict(list)
    for each in rows:
        if each.vote is not None:
            verdicts[each.vote].append(each.correct)
    most = max(map(len, verdicts.values()), default=0)
    tied = [sum(each) / most for each in verdicts.values() if len(each) == most]
    return sum(tied) / len(tied) if tied else 0.0


def _estimate(k: int, tallies: Sequence[Tally], estimator: Any) -> dict[str, Any]:
    values = [estimator(correct, n, k) for correct, n in tallies]
    if k == 1:  # the accuracy itself
        return _shown(values, compute_clustered_interval(tallies))
    return _shown(values, compute_mean_interval(values, max_n=sum(n for _, n in tallies) / k))


def _majority(values: Sequence[float]) -> dict[str, Any]:
    return _shown(
        values, compute_mean_interval(values, max_n=len(values))
    )  # one verdict a question, however many epochs


def _shown(values: Sequence[float], interval: Interval | None) -> dict[str, Any]:
    return {"value": math.fsum(values) / len(values), "ci95": list(interval) if interval else None}


def measure_agreement(pairs: Sequence[tuple[bool, bool]]) -> dict[str, Any]:
    """`n`, the `share` of equal verdicts, and `kappa`, null where both always say the same one thing."""
    n = len(pairs)
    share = sum(first == second for first, second in pairs) / n
    right_first, right_second = (sum(pair[which] for pair in pairs) / n for which in (0, 1))
    by_chance = right_first * right_second + (1 - right_first) * (1 - right_second)
    kappa = None if by_chance == 1 else (share - by_chance) / (1 - by_chance)
    return {"n": n, "share": round(share, 4), "kappa": None if kappa is None else round(kappa, 4)}
