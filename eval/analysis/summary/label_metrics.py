"""Precision, recall, F1 and confusion matrix of a run whose targets are labels.

An answer is the label that it equals without case and white space, or the target if the scorer accepts it. A failure is
no answer: it stays in the denominator of the recall, and in the matrix it has a column of its own.

Precision and recall are shares of answers and have Wilson's interval, clustered by sample
(`eval.analysis.statistics.intervals`). So is J, the right answers among all whose target or answer is the label, and F1
is 2J/(1+J), so that J's bounds give those of F1. The macro F1 is the mean over all labels that are a target; it has the
percentile interval of 2,000 bootstrap draws of samples, with a fixed seed (B. Efron and R. Tibshirani, "An Introduction
to the Bootstrap", 1993, chapter 13). Drawing the numbers of equal samples from a multinomial distribution is the same
as drawing the samples. Where all draws are equal, as with all answers right, it has the interval of the right answers.

    summarise_labels(rows, ("billing", "refund"), incomplete=False).by_label["refund"].f1
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from eval.analysis.statistics.intervals import CONFIDENCE, Interval, compute_clustered_interval
from eval.analysis.summary.epochs import group_by_sample
from eval.analysis.summary.rows import Row
from eval.analysis.summary.summary import LabelNumbers, LabelSummary

OTHER, NO_ANSWER = "(another answer)", "(no answer)"
OTHER_TARGET = "(another target)"
_DRAWS, _DRAWS_AT_ONCE = 2_000, 100
_SEED = 0

_Cell = tuple[str, str]  # target and answer
_Samples = Sequence[Sequence[_Cell]]  # the answers to each sample


def summarise_labels(final: Sequence[Row], names: Sequence[str], incomplete: bool) -> LabelSummary | None:
    """Return the numbers of the labels; None without labels, or without an answer that has a target.

    Args:
        final: the last attempt at each (sample, epoch).
        names: of the labels.
        incomplete: True if answers are missing: there are no intervals then.
    """
    samples = [list(map(_find_cell, rows)) for rows in group_by_sample(each for each in final if each.scored)]
    if not names or not samples:
        return None
    cells = Counter(cell for sample in samples for cell in sample)
    by_label = {name: _summarise_label(name, samples, incomplete) for name in names}
    found = [each.f1 or 0.0 for each in by_label.values() if each.n]
    return LabelSummary(
        macro_f1=sum(found) / len(found) if found else None,
        macro_f1_ci95=None if incomplete or not found else _compute_macro_interval(samples, names),
        n_other=sum(count for (_, answer), count in cells.items() if answer == OTHER),
        n_no_answer=sum(count for (_, answer), count in cells.items() if answer == NO_ANSWER),
        by_label=by_label,
        confusion=_count_confusion(cells, names),
    )


def _find_cell(row: Row) -> _Cell:
    answer = NO_ANSWER if row.error_class is not None or row.given_label == "" else row.given_label or OTHER
    return row.label or OTHER_TARGET, answer


def _count_confusion(cells: Counter[_Cell], names: Sequence[str]) -> dict[str, dict[str, int]]:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for target in (*names, OTHER_TARGET):
        for answer in (*names, OTHER, NO_ANSWER):
            if count := cells[target, answer]:
                found[target][answer] = count
    return dict(found)


def _summarise_label(name: str, samples: _Samples, incomplete: bool) -> LabelNumbers:
    precision, n_given, precision_ci95 = _compute_share(name, samples, lambda cell: cell[1] == name)
    recall, n, recall_ci95 = _compute_share(name, samples, lambda cell: cell[0] == name)
    overlap, _, overlap_ci95 = _compute_share(name, samples, lambda cell: name in cell)
    f1_ci95 = overlap_ci95 and (_convert_to_f1(overlap_ci95[0]), _convert_to_f1(overlap_ci95[1]))
    return LabelNumbers(
        n=n,
        n_given=n_given,
        precision=precision,
        precision_ci95=None if incomplete else precision_ci95,
        recall=recall,
        recall_ci95=None if incomplete else recall_ci95,
        f1=None if overlap is None else _convert_to_f1(overlap),
        f1_ci95=None if incomplete else f1_ci95,
    )


def _compute_share(
    name: str, samples: _Samples, is_counted: Callable[[_Cell], bool]
) -> tuple[float | None, int, Interval | None]:
    """Return the share of right answers among those that count, their number, and its interval."""
    counted = [[cell for cell in sample if is_counted(cell)] for sample in samples]
    tallies = [(cells.count((name, name)), len(cells)) for cells in counted if cells]
    n = sum(size for _, size in tallies)
    return sum(right for right, _ in tallies) / n if n else None, n, compute_clustered_interval(tallies)


def _convert_to_f1(overlap: float) -> float:
    return 2 * overlap / (1 + overlap)


def _compute_macro_interval(samples: _Samples, names: Sequence[str]) -> Interval | None:
    import numpy as np

    patterns = Counter(tuple(sorted(sample)) for sample in samples)
    place = {name: number for number, name in enumerate(names)}
    # Of each pattern and label: how often it is right, and how often it is the answer or the target.
    right, named = np.zeros((2, len(patterns), len(names)))
    for row, pattern in enumerate(patterns):
        for target, answer in pattern:
            right[row, place.get(target, 0)] += target == answer
            for label in (target, answer):
                if label in place:
                    named[row, place[label]] += 1
    is_target = [any(target == name for sample in samples for target, _ in sample) for name in names]
    shares = np.array(list(patterns.values())) / len(samples)
    random, means = np.random.default_rng(_SEED), []
    for _ in range(_DRAWS // _DRAWS_AT_ONCE):
        drawn = random.multinomial(len(samples), shares, size=_DRAWS_AT_ONCE).astype(float)
        with np.errstate(invalid="ignore"):
            f1 = np.nan_to_num(2 * (drawn @ right) / (drawn @ named))  # 0 where a draw has lost the label
        means.append(f1[:, is_target].mean(axis=1))
    low, high = np.quantile(np.concatenate(means), ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    if low == high:
        return compute_clustered_interval(
            [(sum(target == answer for target, answer in sample), len(sample)) for sample in samples]
        )
    return float(low), float(high)
