"""Precision, recall, F1 and confusion matrix of a run whose targets are labels.

An answer is the label that it equals without case and white space, or the target if the scorer accepts it. A failure is
no answer: it stays in the denominator of the recall, and in the matrix it has a column of its own.

Precision and recall are shares of answers and have Wilson's interval, clustered by sample
(`eval.analysis.statistics.intervals`). So is J, the right answers among all whose target or answer is the label, and F1
is 2J/(1+J), so that J's bounds give those of F1. The macro F1 is the mean over all labels that are a target.
Its interval is Wilson's for the number of right-or-wrong answers that would vary as much; its variance is that of the
linearised mean over samples (K. Takahashi et al., "Confidence interval for micro-averaged F1 and macro-averaged F1
scores", Applied Intelligence 52, 2022), with half an answer added, less one sample for each label.

    summarise_labels(rows, ("billing", "refund"), incomplete=False).by_label["refund"].f1
"""

from collections import Counter
from collections.abc import Callable, Sequence

from eval.analysis.statistics.intervals import (
    Interval,
    Tally,
    compute_clustered_interval,
    compute_share_interval,
)
from eval.analysis.summary.rows import Row, group_by_sample, measure_share
from eval.analysis.summary.summary import NO_ANSWER, OTHER, OTHER_TARGET, Estimate, LabelNumbers, LabelSummary

_EXTRA_ANSWERS = 0.5

_Cell = tuple[str, str]  # target and answer
_Samples = Sequence[Sequence[_Cell]]  # the answers to each sample


def summarise_labels(final: Sequence[Row], names: Sequence[str], incomplete: bool) -> LabelSummary | None:
    """Return the numbers of the labels; None without labels, or without an answer that has a target.

    Args:
        final: the last attempt at each (sample, epoch).
        names: of the labels.
        incomplete: True if answers are missing: there are no intervals then.
    """
    grouped = group_by_sample(each for each in final if each.scored)
    samples = [[(row.label or OTHER_TARGET, row.given_label) for row in rows] for rows in grouped]
    if not names or not samples:
        return None
    cells = Counter(cell for sample in samples for cell in sample)
    answers = (*names, OTHER, NO_ANSWER)
    confusion = {
        target: {answer: cells[target, answer] for answer in answers if cells[target, answer]}
        for target in (*names, OTHER_TARGET)
    }
    by_label = {name: summarise_label(name, samples, incomplete) for name in names}
    found = [each.f1.value or 0.0 for each in by_label.values() if each.recall.n]
    bounds = None if incomplete or not found else compute_macro_interval(samples, names)
    return LabelSummary(
        macro_f1=Estimate(sum(found) / len(found) if found else None, bounds),
        n_other=sum(count for (_, answer), count in cells.items() if answer == OTHER),
        n_no_answer=sum(count for (_, answer), count in cells.items() if answer == NO_ANSWER),
        by_label=by_label,
        confusion={target: row for target, row in confusion.items() if row},
    )


def summarise_label(name: str, samples: _Samples, incomplete: bool) -> LabelNumbers:
    given = _tally(name, samples, lambda cell: cell[1] == name)
    targets = _tally(name, samples, lambda cell: cell[0] == name)
    overlap = measure_share(_tally(name, samples, lambda cell: name in cell), incomplete)
    f1 = None if overlap.value is None else _convert_to_f1(overlap.value)
    bounds = overlap.ci95 and (_convert_to_f1(overlap.ci95[0]), _convert_to_f1(overlap.ci95[1]))
    return LabelNumbers(
        precision=measure_share(given, incomplete), recall=measure_share(targets, incomplete), f1=Estimate(f1, bounds)
    )


def _tally(name: str, samples: _Samples, is_counted: Callable[[_Cell], bool]) -> list[Tally]:
    """Return the right answers to each sample among those that count, and their number."""
    counted = [[cell for cell in sample if is_counted(cell)] for sample in samples]
    return [(cells.count((name, name)), len(cells)) for cells in counted if cells]


def _convert_to_f1(overlap: float) -> float:
    return 2 * overlap / (1 + overlap)


def compute_macro_interval(samples: Sequence[Sequence[_Cell]], names: Sequence[str]) -> Interval | None:
    """Return the bounds of the macro F1.

    Args:
        samples: target and answer of each answer to a sample.
        names: of all labels, of which one at least is a target.
    """
    import numpy as np

    n, place = len(samples), {name: number for number, name in enumerate(names)}
    # Of each sample and label: how often it is right, and how often it is the answer or the target.
    right, named = np.zeros((2, n, len(names)))
    for row, sample in enumerate(samples):
        for target, answer in sample:
            right[row, place.get(target, 0)] += target == answer
            for label in (target, answer):
                if label in place:
                    named[row, place[label]] += 1
    targets = {target for sample in samples for target, _ in sample}
    is_target = [name in targets for name in names]
    rights, all_named = right.sum(0)[is_target], named.sum(0)[is_target]
    found = float((2 * rights / all_named).mean())
    if n <= len(rights):
        return compute_clustered_interval(
            [(sum(target == answer for target, answer in sample), len(sample)) for sample in samples]
        )
    if found in (0, 1):
        return compute_share_interval(found, n - len(rights), n)
    slopes = 2 * (right[:, is_target] * all_named - rights * named[:, is_target]) / all_named**2
    variance = float((slopes.mean(1) ** 2).sum()) * n / (n - 1) + _EXTRA_ANSWERS / n**2
    effective = min(found * (1 - found) / variance, sum(map(len, samples)))
    return compute_share_interval(found, effective * (n - len(rights)) / n, n)
