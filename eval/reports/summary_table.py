"""A run's summary in the terminal.

print_summary(summary, Console())
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.style import Style
from rich.text import Text

from eval.analysis.summary.summarise import GOING_ON
from eval.analysis.summary.summary import Counts, Summary
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.execution.console import Console
from eval.reports.formats import MAX_NAME_CHARS, Table, format_floor, format_interval
from eval.reports.notes import format_title, list_notes
from eval.runs.folder import REPORT, format_path, format_report_command, format_resume_hint
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
    console.print(build_counts(summary, summary.tags).drop("wrong", "not fully", "n").build())
    if summary.by_epochs:
        from eval.reports.rare_notes import PASS_LEGEND, build_epochs

        console.print(build_epochs(summary.by_epochs).build(caption=PASS_LEGEND))
    for name, value in list_notes(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def print_results(summary: Summary, folder: Path, console: Console) -> None:
    """Print the summary and the folder with the rest."""
    print_summary(summary, console)
    _print_line(f"results: {format_path(folder)}", console)


def print_last_lines(summary: Summary, folder: Path, console: Console) -> None:
    """Print where the run's page is, or how it is made, and the command that resumes a run that was stopped."""
    print_report_path(folder, console)
    if summary.stopped not in (None, GOING_ON):
        _print_line(format_resume_hint(folder), console)


def print_report_path(folder: Path, console: Console) -> None:
    """Print where the run's page is, in a terminal as a link; of an evaluation without one, the command for it."""
    path = (folder / REPORT).absolute()
    if path.is_file():
        console.print(Text.assemble("report: ", (str(path), Style(link=path.as_uri()))), soft_wrap=True)
    else:
        _print_line(f"report: {format_report_command(folder)}", console)


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


def build_counts(summary: Summary, tags: Iterable[str]) -> Table:
    """Return the counts of all answers, by level and by some tags; without intervals if answers are missing."""
    groups: dict[str, Counts] = {"all": summary}
    groups |= {f"level {level}": counts for level, counts in summary.by_level.items()}
    for tag in tags:
        groups |= {f"{tag} {value}": counts for value, counts in summary.by_tag.get(tag, {}).items()}
    rows = []
    for name, counts in groups.items():
        shares = (format_floor(counts.score, summary.incomplete), format_interval(counts.score_ci95))
        numbers = (counts.n_wrong, counts.n_not_run, counts.n_error - counts.n_not_run, counts.n)
        right = f"{counts.n_correct}/{counts.n_scored}"
        rows.append((shorten_line(name, MAX_NAME_CHARS), *shares, right, *map(str, numbers)))
    verdicts = ("right", "wrong") if summary.metric == ACCURACY else ("fully right", "not fully")
    table = Table(("part", summary.metric, "95% interval", *verdicts, "not run", "errors", "n"), rows)
    return table.drop("95% interval" if summary.incomplete else "not run")


def _print_line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
