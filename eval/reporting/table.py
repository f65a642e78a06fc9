"""A run's summary for the terminal.

print_table(summary, Console())
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.reporting.notes import interval, notes, percent, shown_ks


def print_table(summary: Mapping[str, Any], console: Console) -> None:
    """Print accuracy with its interval, by level and by epochs too, then errors, tokens, cost and time.

    Null shows as "n/a". Names from data (levels, error classes) are printed as they are: rich's markup in them has no
    effect.
    """
    if summary["notice"]:
        console.print(Text(summary["notice"], style="bold yellow"))
    console.print(_accuracy_table(summary))
    if summary["by_epochs"]:
        console.print(_epochs_table(summary["by_epochs"]))
    for name, value in notes(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def _accuracy_table(summary: Mapping[str, Any]) -> Table:
    table = Table(title=Text(str(summary["run_id"])))
    table.add_column("questions")
    for heading in ("accuracy", "95% interval", "correct", "scored", "n", "errors"):
        table.add_column(heading, justify="right")
    table.add_row(*_row("all", summary), end_section=bool(summary["by_level"]))
    for level, counts in summary["by_level"].items():
        table.add_row(*_row(f"level {level}", counts))
    return table


def _row(name: str, counts: Mapping[str, Any]) -> Iterator[Text]:
    yield Text(name)
    yield Text(percent(counts["accuracy"]))
    yield Text(interval(counts["accuracy_ci95"]))
    for key in ("n_correct", "n_scored", "n", "n_error"):
        yield Text(str(counts[key]))


def _epochs_table(by_epochs: Mapping[str, Any]) -> Table:
    table = Table(caption="pass@k: one of k answers right; pass^k: all k right", caption_justify="left")
    for heading in ("k", "pass@k", "95% interval", "pass^k", "95% interval"):
        table.add_column(heading, justify="right")
    for k in shown_ks(by_epochs):
        at, hat = by_epochs["pass_at"][k], by_epochs["pass_hat"][k]
        table.add_row(k, percent(at["value"]), interval(at["ci95"]), percent(hat["value"]), interval(hat["ci95"]))
    return table
