"""Tables of the report: critics, labels, and every number in full below the questions."""

from collections.abc import Iterator
from dataclasses import dataclass

from eval.analysis.summary.summary import Summary
from eval.reports.notes import (
    format_floor,
    format_interval,
)
from eval.reports.summary_table import PASS_LEGEND, build_counts, build_epochs
from eval.reports.tables import Table

MAX_LEAKS = 200
_INTERVAL = "95% interval"


@dataclass(frozen=True)
class Fold:
    """A table that opens on a click."""

    title: str
    table: Table
    remark: str = ""


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
        yield Fold("Other scorers", table.drop(_INTERVAL) if summary.incomplete else table, remark)
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
