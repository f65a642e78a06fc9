"""A run's summary for the terminal.

print_table(summary, Console())
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.reporting.measured import MAX_NAME_CHARS, title
from eval.reporting.notes import floor, interval, is_incomplete, notes, percent, shown_ks
from eval.reporting.shown_text import one_line


def print_table(summary: Mapping[str, Any], console: Console) -> None:
    """Print accuracy with its interval, by level and by epochs too, then errors, tokens, cost and time.

    Of a run that is not complete: accuracy as a floor, without interval, and how many answers are to come. Null shows
    as "n/a". Names from data (levels, error classes) are printed as they are: rich's markup in them has no effect.
    """
    if summary["notice"]:
        console.print(Text(summary["notice"], style="bold yellow"))
    console.print(Text(title(summary), style="bold"))
    console.print(_accuracy_table(summary))
    if summary["by_epochs"]:
        console.print(_epochs_table(summary["by_epochs"]))
    for name, value in notes(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def _accuracy_table(summary: Mapping[str, Any]) -> Table:
    table, incomplete = Table(""), is_incomplete(summary)
    for heading in ("accuracy", *(("right", "not asked") if incomplete else ("95% interval", "right")), "errors"):
        table.add_column(heading, justify="right")
    table.add_row(*_row("all", summary, incomplete), end_section=bool(summary["by_level"]))
    for level, counts in summary["by_level"].items():
        table.add_row(*_row(f"level {level}", counts, incomplete))
    return table


def _row(name: str, counts: Mapping[str, Any], incomplete: bool) -> Iterator[Text]:
    right, n_not_run = f"{counts['n_correct']}/{counts['n_scored']}", counts.get("n_not_run", 0)
    yield Text(one_line(name, MAX_NAME_CHARS))
    yield Text(floor(counts["accuracy"], incomplete))
    yield from map(Text, (right, str(n_not_run)) if incomplete else (interval(counts["accuracy_ci95"]), right))
    yield Text(str(counts["n_error"] - n_not_run))


def _epochs_table(by_epochs: Mapping[str, Any]) -> Table:
    table = Table(caption="pass@k: one of k answers right; pass^k: all k right", caption_justify="left")
    for heading in ("k", "pass@k", "95% interval", "pass^k", "95% interval"):
        table.add_column(heading, justify="right")
    for k in shown_ks(by_epochs):
        at, hat = by_epochs["pass_at"][k], by_epochs["pass_hat"][k]
        table.add_row(k, percent(at["value"]), interval(at["ci95"]), percent(hat["value"]), interval(hat["ci95"]))
    return table
