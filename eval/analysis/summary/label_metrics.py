"""Precision, recall, F1 and confusion matrix of a run whose targets are labels.

An answer is the label that it equals without case and white space, or the target if the scorer accepts it. A failure is
no answer: it stays in the denominator of the recall, and in the matrix it has a column of its own.

Precision and recall are shares of answers and have Wilson's interval, clustered by sample
(`eval.analysis.statistics.intervals`). So is J, the right answers among all whose target or answer is the label, and F1
is 2J/(1+J), so that J's bounds give those of F1. The macro F1 is the mean over all labels that are a target.

    summarise_labels(records, LabelSet(("billing", "refund")), incomplete=False).by_label["refund"].f1
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from eval.analysis.summary.measures import Answer, group_by_sample, measure_values
from eval.analysis.summary.summary import NO_ANSWER, OTHER, OTHER_TARGET, Estimate, LabelNumbers, LabelSummary
from eval.scorers.labels import LabelSet

_Cell = tuple[str, str]  # target and answer
_Samples = Sequence[Sequence[_Cell]]  # the answers to each sample


def summarise_labels(final: Sequence[Answer], labels: LabelSet, incomplete: bool) -> LabelSummary | None:
    """Return the numbers of the labels, of a run to whose samples answers are missing without intervals.

    None without an answer to a sample that has a target.
    """
    grouped = group_by_sample(each for each in final if each.scored)
    samples = [[_read_cell(each, labels) for each in answers] for answers in grouped]
    if not samples:
        return None
    cells = Counter(cell for sample in samples for cell in sample)
    confusion = {
        target: {answer: n for answer in (*labels.names, OTHER, NO_ANSWER) if (n := cells[target, answer])}
        for target in (*labels.names, OTHER_TARGET)
    }
    by_label = {name: summarise_label(name, samples, incomplete) for name in labels.names}
    found = [each.f1.value or 0.0 for each in by_label.values() if each.recall.n]
    return LabelSummary(
        macro_f1=fmean(found) if found else None,
        n_other=sum(row.get(OTHER, 0) for row in confusion.values()),
        n_no_answer=sum(row.get(NO_ANSWER, 0) for row in confusion.values()),
        by_label=by_label,
        confusion={target: row for target, row in confusion.items() if row},
    )


def _read_cell(given: Answer, labels: LabelSet) -> _Cell:
    """Return the labels that the target and the answer are; an answer that the scorer accepts is the target."""
    target, answer = labels.find(given.target), given.answer or ""
    if not answer.strip():
        return target or OTHER_TARGET, NO_ANSWER
    return target or OTHER_TARGET, labels.find(answer) or (target if given.correct else None) or OTHER


def summarise_label(name: str, samples: _Samples, incomplete: bool) -> LabelNumbers:
    def measure(is_counted: Callable[[_Cell], bool]) -> Estimate:
        """Return the share of right answers among those that count."""
        rights = [[float(cell == (name, name)) for cell in sample if is_counted(cell)] for sample in samples]
        return measure_values(rights, incomplete)

    overlap = measure(lambda cell: name in cell)
    f1 = None if overlap.value is None else _convert_to_f1(overlap.value)
    bounds = overlap.ci95 and (_convert_to_f1(overlap.ci95[0]), _convert_to_f1(overlap.ci95[1]))
    precision, recall = measure(lambda cell: cell[1] == name), measure(lambda cell: cell[0] == name)
    return LabelNumbers(precision=precision, recall=recall, f1=Estimate(f1, bounds))


def _convert_to_f1(overlap: float) -> float:
    return 2 * overlap / (1 + overlap)
