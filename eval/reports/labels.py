"""Labels of a run: a sentence, the table of all labels, the confusion matrix; loaded where the targets are labels.

describe_labels(summary.labels, summary.incomplete)      # "macro F1 71.2% (60.1% to 80.3%) over 4 labels; lowest: …"
"""

from eval.analysis.summary.summary import NO_ANSWER, OTHER, LabelSummary, Summary
from eval.reports.formats import MAX_NAME_CHARS, format_estimate, format_interval, format_percent
from eval.reports.tables import Table
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

_INTERVAL = "95% interval"


def describe_labels(labels: LabelSummary, incomplete: bool) -> str:
    """Return the macro F1, the label with the lowest F1, and the answers that are no label.

    While answers are missing, the macro F1 is no bound: wrong answers that still come make it fall.
    """
    targets = {name: each for name, each in labels.by_label.items() if each.recall.n}
    if labels.macro_f1.value is None or not targets:
        return "no answer has one of the labels as its target"
    name, lowest = min(targets.items(), key=lambda item: item[1].f1.value or 0.0)
    parts = [
        f"macro F1 {format_estimate(labels.macro_f1)}{' so far' if incomplete else ''} over "
        f"{format_count(len(targets), 'label')}",
        f"lowest: {shorten_line(name, MAX_NAME_CHARS)}, F1 {format_percent(lowest.f1.value)} "
        f"(precision {format_percent(lowest.precision.value)}, recall {format_percent(lowest.recall.value)})",
    ]
    if labels.n_other:
        parts.append(f"{format_count(labels.n_other, 'answer')} {'is' if labels.n_other == 1 else 'are'} no label")
    if labels.n_no_answer:
        parts.append(f"{format_count(labels.n_no_answer, 'sample')} without a scored answer, counted as missed")
    return "; ".join(parts)


def build_labels(summary: Summary, labels: LabelSummary) -> Table:
    """Return a row for each label; without intervals if answers are missing: what comes may be of another kind."""
    headings = ("label", "precision", _INTERVAL, "recall", _INTERVAL, "F1", _INTERVAL, "targets", "answers")
    rows = []
    for name, each in labels.by_label.items():
        shares = (each.precision, each.recall, each.f1)
        cells = [text for share in shares for text in (format_percent(share.value), format_interval(share.ci95))]
        rows.append([name, *cells, str(each.recall.n), str(each.precision.n)])
    table = Table(headings, rows)
    return table.drop(_INTERVAL) if summary.incomplete else table


def build_confusion(labels: LabelSummary) -> Table:
    """Return targets and answers."""
    answers = [*labels.by_label, OTHER, NO_ANSWER]
    confusion = labels.confusion.items()
    rows = [[target, *(str(row.get(answer) or "·") for answer in answers)] for target, row in confusion]
    return Table(["target ↓ answer →", *answers], rows)
