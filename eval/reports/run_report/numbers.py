"""Tables of the report: critics, labels, and every number in full below the questions."""

from collections.abc import Iterator
from dataclasses import dataclass

from eval.analysis.summary.summary import NO_ANSWER, OTHER, LabelSummary, Summary
from eval.reports.notes import (
    format_duration,
    format_floor,
    format_interval,
    format_percent,
    format_usd,
)
from eval.reports.summary_table import PASS_LEGEND, build_counts, build_epochs
from eval.reports.tables import Table

MAX_LEAKS = 200
MAX_MATRIX_LABELS = 30
_INTERVAL = "95% interval"


@dataclass(frozen=True)
class Fold:
    """A table that opens on a click."""

    title: str
    table: Table
    remark: str = ""


def build_critics(summary: Summary) -> Table:
    """Return a row for each critic."""
    headings = ("critic", "of the work of", "reviews", "wrong work approved", "right work rejected")
    spending = ("right in the end after a rejection", "cost", "tokens", "time")
    rows = [
        (
            *(name, ", ".join(critic.judges), f"{critic.n_reviews:,}"),
            f"{critic.misses:,} of {critic.misses + critic.hits:,}",
            f"{critic.false_alarms:,} of {critic.false_alarms + critic.approved_right:,}",
            f"{critic.n_recovered:,} of {critic.n_rejecting:,} answers",
            *(format_usd(critic.cost_usd), f"{critic.input_tokens + critic.output_tokens:,}"),
            format_duration(critic.seconds),
        )
        for name, critic in summary.critics.items()
    ]
    return Table((*headings, *spending), rows, left=("of the work of",))


def build_labels(summary: Summary, labels: LabelSummary) -> Table:
    """Return a row for each label; intervals of a run that is not complete are left out."""
    headings = ("label", "precision", _INTERVAL, "recall", _INTERVAL, "F1", _INTERVAL, "targets", "answers")
    rows = []
    for name, each in labels.by_label.items():
        shares = ((each.precision, each.precision_ci95), (each.recall, each.recall_ci95), (each.f1, each.f1_ci95))
        cells = [text for share, bounds in shares for text in (format_percent(share), format_interval(bounds))]
        rows.append([name, *cells, str(each.n), str(each.n_given)])
    return _hide_intervals(Table(headings, rows), summary)


def _hide_intervals(table: Table, summary: Summary) -> Table:
    """Return the table without intervals if answers are missing: what comes later may be of another kind."""
    return table.drop(_INTERVAL) if summary.incomplete else table


def build_confusion(labels: LabelSummary) -> Table | None:
    """Return targets and answers; None if there are too many labels to read it."""
    if len(labels.by_label) > MAX_MATRIX_LABELS:
        return None
    answers = [*labels.by_label, OTHER, NO_ANSWER]
    confusion = labels.confusion.items()
    rows = [[target, *(str(row.get(answer) or "·") for answer in answers)] for target, row in confusion]
    return Table(["target ↓ answer →", *answers], rows)


def list_folds(summary: Summary) -> Iterator[Fold]:
    """Yield everything that is counted."""
    several = ", by level and tag" if len(summary.by_level) + len(summary.by_tag) else ""
    yield Fold(f"Counts of all answers{several}", build_counts(summary, summary.by_tag))
    if summary.extra_scorers:
        rows = []
        for name, extra in summary.extra_scorers.items():
            score = format_floor(extra.score, summary.incomplete)
            rows.append((name, extra.metric, score, format_interval(extra.score_ci95), str(extra.n_failed)))
        same = "Reported with the scorer that decides, over the same answers"
        remark = f"{same}: those in error, and those that a scorer failed on, count as 0."
        table = Table(("scorer", "metric", "value", _INTERVAL, "not scored"), rows, left=("metric",))
        yield Fold("Other scorers", _hide_intervals(table, summary), remark)
    if summary.by_epochs:
        title = f"Repeats: {summary.epochs} epochs of each question"
        yield Fold(title, build_epochs(summary.by_epochs), f"{PASS_LEGEND}.")
    yield from _list_leaks(summary)


def _list_leaks(summary: Summary) -> Iterator[Fold]:
    results = summary.leaks.results
    if not results:
        return
    rows = [(each.sample_id, str(each.epoch), each.tool, each.source) for each in results[:MAX_LEAKS]]
    remark = (
        "Web results that hold the gold answer and eight words in a row of the question. They count in every number "
        "above but the one without them."
    )
    if len(results) > MAX_LEAKS:
        remark += f" {len(results) - MAX_LEAKS:,} more are in summary.json."
    table = Table(("question", "epoch", "tool", "source"), rows, left=("tool", "source"))
    yield Fold("Pages that give the benchmark away", table if summary.epochs > 1 else table.drop("epoch"), remark)
