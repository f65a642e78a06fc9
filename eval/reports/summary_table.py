"""A run's summary for the terminal.

print_table(summary, Console())
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.cli.paths import shown
from eval.cli.terminal_text import shorten_line
from eval.reports.from_store import GOING_ON
from eval.reports.heading import MAX_NAME_CHARS, format_title
from eval.reports.notes import format_floor, format_interval, format_percent, is_incomplete, list_notes, select_ks
from eval.runs.folder import format_resume_hint


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """Print accuracy with its interval, by level and by epochs too, then errors, tokens, cost and time.

    Of a run that is not complete: accuracy as a floor, without interval, and how many answers are to come. Null shows
    as "n/a". Names from data (levels, error classes) are printed as they are: rich's markup in them has no effect.
    """
    if summary["notice"]:
        console.print(Text(summary["notice"], style="bold yellow"))
    console.print(Text(format_title(summary), style="bold"))
    console.print(_accuracy_table(summary))
    if summary["by_epochs"]:
        console.print(_epochs_table(summary["by_epochs"]))
    for name, value in list_notes(summary):
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
    yield Text(shorten_line(name, MAX_NAME_CHARS))
    yield Text(format_floor(counts["accuracy"], incomplete))
    yield from map(Text, (right, str(n_not_run)) if incomplete else (format_interval(counts["accuracy_ci95"]), right))
    yield Text(str(counts["n_error"] - n_not_run))


def _epochs_table(by_epochs: Mapping[str, Any]) -> Table:
    table = Table(caption="pass@k: one of k answers right; pass^k: all k right", caption_justify="left")
    for heading in ("k", "pass@k", "95% interval", "pass^k", "95% interval"):
        table.add_column(heading, justify="right")
    for k in select_ks(by_epochs):
        at, hat = by_epochs["pass_at"][k], by_epochs["pass_hat"][k]
        table.add_row(
            k,
            format_percent(at["value"]),
            format_interval(at["ci95"]),
            format_percent(hat["value"]),
            format_interval(hat["ci95"]),
        )
    return table


def print_results(summary: Mapping[str, Any], folder: Path, console: Console) -> None:
    """The table, and where the rest is; for a run that was stopped the last line says how to go on."""
    print_summary(summary, console)
    _line(f"results: {shown(folder)}", console)
    if summary["stopped"] not in (None, GOING_ON):
        _line(format_resume_hint(folder), console)


def choose_exit_code(summary: Mapping[str, Any], fail_under: float | None, console: Console) -> int:
    if summary["stopped"]:
        return STOPPED
    accuracy = summary["accuracy"] or 0.0
    below = fail_under is not None and accuracy < fail_under
    if below:
        _line(f"accuracy {accuracy:.4g} is below run.fail_under={fail_under}", console)
    return FAILURES if below or summary["n_error"] else FINISHED


def _line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
