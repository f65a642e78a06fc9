"""A run's summary in the terminal.

print_summary(summary, Console())
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.style import Style
from rich.table import Table
from rich.text import Text

from eval.analysis.summary.from_store import GOING_ON
from eval.analysis.summary.summary import Counts, EpochNumbers, Summary
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.execution.console import Console
from eval.reports.notes import (
    MAX_NAME_CHARS,
    format_floor,
    format_interval,
    format_percent,
    format_title,
    list_notes,
    select_ks,
)
from eval.reports.run_report import REPORT
from eval.runs.folder import format_path, format_resume_hint
from eval.runs.record import Record
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import shorten_line

_ID_CHARS, _QUESTION_CHARS, _ANSWER_CHARS = 40, 60, 60  # of a wrong answer's line


def print_summary(summary: Summary, console: Console) -> None:
    """Print the metric with its interval, by level and by epochs too, then errors, tokens, cost and time.

    If the run is not complete, the metric is a floor without an interval, and the missing answers are counted.
    Names from data (levels, error classes) are printed as they are: rich's markup in them has no effect.
    """
    if summary.notice:
        console.print(Text(summary.notice, style="bold yellow"))
    console.print(Text(format_title(summary), style="bold"))
    console.print(_build_counts_table(summary))
    if summary.by_epochs:
        console.print(_build_epochs_table(summary.by_epochs))
    for name, value in list_notes(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def print_results(summary: Summary, folder: Path, console: Console) -> None:
    """Print the summary and the folder with the rest."""
    print_summary(summary, console)
    _print_line(f"results: {format_path(folder)}", console)


def print_last_lines(summary: Summary, folder: Path, console: Console) -> None:
    """Print where the run's page is and, if the run was stopped, the command that resumes it."""
    print_report_path(folder, console)
    if summary.stopped not in (None, GOING_ON):
        _print_line(format_resume_hint(folder), console)


def print_report_path(folder: Path, console: Console) -> None:
    """Print where the run's page is; in a terminal the path is a link."""
    path = (folder / REPORT).absolute()
    if path.is_file():
        console.print(Text.assemble("report: ", (str(path), Style(link=path.as_uri()))), soft_wrap=True)


def print_wrong_answers(records: Sequence[Record], console: Console) -> None:
    """Print wrong answers with the expected ones, one a line; they hold targets, and so are for the run's owner.

    Args:
        records: answered, and not right.
        console: where to.
    """
    if records:
        _print_line("wrong answers:" if len(records) > 1 else "a wrong answer:", console)
    for each in records:
        name, question = shorten_line(each.sample_id, _ID_CHARS), shorten_line(each.question, _QUESTION_CHARS)
        answer = "no answer" if each.answer is None else f'"{shorten_line(each.answer, _ANSWER_CHARS)}"'
        expected = shorten_line(each.target or "", _ANSWER_CHARS)
        _print_line(f'  {name}: {question} → {answer}, expected "{expected}"', console)


def choose_exit_code(summary: Summary, fail_under: float | None, console: Console) -> int:
    """Return the exit code of a command that ran or showed the run, and print why it is not 0."""
    if summary.stopped:
        return STOPPED
    score = summary.score or 0.0
    below = fail_under is not None and score < fail_under
    if below:
        _print_line(f"{summary.metric} {score:.4g} is below run.fail_under={fail_under}", console)
    return FAILURES if below or summary.n_error else FINISHED


def _build_counts_table(summary: Summary) -> Table:
    table, incomplete = Table(""), summary.incomplete
    right = "right" if summary.metric == ACCURACY else "fully right"
    for heading in (summary.metric, *((right, "not run") if incomplete else ("95% interval", right)), "errors"):
        table.add_column(heading, justify="right")
    tags = [(tag, summary.by_tag[tag]) for tag in summary.tags if tag in summary.by_tag]
    groups = [{f"level {level}": counts for level, counts in summary.by_level.items()}]
    groups += [{f"{tag} {value}": counts for value, counts in values.items()} for tag, values in tags]
    groups = list(filter(None, groups))
    table.add_row(*_build_row("all", summary, incomplete), end_section=bool(groups))
    for group in groups:
        for name, counts in group.items():
            table.add_row(*_build_row(name, counts, incomplete), end_section=name == list(group)[-1])
    return table


def _build_row(name: str, counts: Counts, incomplete: bool) -> Iterator[Text]:
    right = f"{counts.n_correct}/{counts.n_scored}"
    yield Text(shorten_line(name, MAX_NAME_CHARS))
    yield Text(format_floor(counts.score, incomplete))
    cells = (right, str(counts.n_not_run)) if incomplete else (format_interval(counts.score_ci95), right)
    yield from map(Text, cells)
    yield Text(str(counts.n_error - counts.n_not_run))


def _build_epochs_table(by_epochs: EpochNumbers) -> Table:
    table = Table(caption="pass@k: one of k answers right; pass^k: all k right", caption_justify="left")
    for heading in ("k", "pass@k", "95% interval", "pass^k", "95% interval"):
        table.add_column(heading, justify="right")
    for k in select_ks(by_epochs):
        estimates = (by_epochs.pass_at[k], by_epochs.pass_hat[k])
        cells = (cell for each in estimates for cell in (format_percent(each.value), format_interval(each.ci95)))
        table.add_row(k, *cells)
    return table


def _print_line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
