"""`report.html`: a run on one page that opens from the disk and loads nothing; its script only filters and sorts.

The page holds targets, and so is for the run's owner. It is written in pieces, and only so many answers are kept and
shown that 10,000 samples need no more memory than 2,000.

    write_report(folder / "report.html", summary, store.records(), sample_ids)
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from eval.analysis.summary.label_metrics import NO_ANSWER, OTHER
from eval.analysis.summary.summary import Counts, Summary
from eval.reports.html.templates import load_scripts, load_template
from eval.reports.notes import (
    format_changes,
    format_floor,
    format_interval,
    format_percent,
    format_title,
    list_notes,
    select_ks,
)
from eval.reports.question_rows import MAX_STEPS_BYTES, QuestionRows, build_question_rows
from eval.reports.step_tree import MAX_TEXT_CHARS, format_count
from eval.runs.record import Record
from eval.scorers.score import ACCURACY
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls

REPORT = "report.html"
MAX_ANSWERS = 2_000  # rows of (sample, epoch)
MAX_PACE_LINES = 100
MAX_LEAKS = 200
MAX_MATRIX_LABELS = 30
_TEMPLATE = Path(__file__).with_name("report.html.jinja")
_SCRIPT = Path(__file__).with_name("report.js.jinja")
_RIGHT_OR_WRONG = {"right": "right", "wrong": "wrong", "answered_wrong": "answered wrongly"}
_GRADED = {"right": "fully right", "wrong": "not fully", "answered_wrong": "answered, not fully right"}
_PIECE = 64  # template events that are joined before they are written


def write_report(
    path: Path,
    summary: Summary,
    records: Iterable[Record],
    sample_ids: Sequence[str] = (),
    facts: Iterable[tuple[str, str]] = (),
) -> None:
    """Write the page; a reader sees the old one or the whole new one.

    Args:
        path: of the page.
        summary: of the run.
        records: last attempts, with their steps if these are to be shown; states are not needed.
        sample_ids: the dataset's order; records of other ids follow in the given order.
        facts: names and sentences for the head of the page.

    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    rows = build_question_rows(records, sample_ids, limit_questions(summary.epochs))
    filters: dict[str, Callable[..., str]] = {
        "percent": format_percent,
        "floor": format_floor,
        "interval": format_interval,
        "changes": format_changes,
    }
    stream = load_template(_TEMPLATE, filters).stream(_build_page(summary, rows, list(facts)))
    stream.enable_buffering(_PIECE)
    with write_atomically(path) as file:
        file.writelines(map(escape_controls, stream))


def limit_questions(epochs: int) -> int:
    """Return the number of samples that the page has room for."""
    return max(MAX_ANSWERS // max(epochs, 1), 1)


def _build_group(counts: Counts, incomplete: bool) -> dict[str, object]:
    """Return the counts of all samples or of one level, as the page shows them."""
    return {
        **vars(counts),
        "share": format_floor(counts.score, incomplete),
        "n_failed": counts.n_error - counts.n_not_run,
        "n_answered": counts.n - counts.n_error,
    }


def _write_banner(summary: Summary) -> str:
    if not summary.incomplete:
        return ""
    why = f": {summary.stopped}" if summary.stopped else ""
    all_answers = format_count(summary.n, "question" if summary.epochs <= 1 else "answer")
    n_answered, n_failed = summary.n - summary.n_error, summary.n_error - summary.n_not_run
    so_far = f"{n_answered:,} answered, {n_failed:,} in error, {summary.n_not_run:,} not run"
    return f"The run is not complete{why}. Of {all_answers}: {so_far}. What has no answer yet counts as wrong."


def _list_answer_columns(summary: Summary) -> list[str]:
    """Return the columns of the confusion matrix; none if it is too large to be read."""
    labels = summary.labels
    if labels is None or len(labels.by_label) > MAX_MATRIX_LABELS:
        return []
    return [*labels.by_label, OTHER, NO_ANSWER]


def _build_page(summary: Summary, rows: QuestionRows, facts: list[tuple[str, str]]) -> dict[str, object]:
    groups: dict[str, Counts] = {
        "all": summary,
        **{f"level {level}": counts for level, counts in summary.by_level.items()},
    }
    return {
        "summary": summary,
        "title": format_title(summary),
        "about": facts,
        "incomplete": summary.incomplete,
        "banner": _write_banner(summary),
        "groups": {name: _build_group(counts, summary.incomplete) for name, counts in groups.items()},
        "words": _RIGHT_OR_WRONG if summary.metric == ACCURACY else _GRADED,
        "tags": {
            tag: {value: _build_group(counts, summary.incomplete) for value, counts in values.items()}
            for tag, values in summary.by_tag.items()
        },
        "answers": _list_answer_columns(summary),
        "ks": select_ks(summary.by_epochs) if summary.by_epochs else [],
        "notes": list(list_notes(summary)),
        "pace_lines": summary.pace_history[-MAX_PACE_LINES:],
        "leak_lines": summary.leaks.results[:MAX_LEAKS],
        "shown": rows,
        "marks": sorted({mark for question in rows.questions for mark in question.marks.split()}),
        "n_left_out": summary.n_questions - len(rows.questions),
        "max_chars": MAX_TEXT_CHARS,
        "max_steps_megabytes": MAX_STEPS_BYTES // 1_000_000,
        "scripts": load_scripts(_SCRIPT),
    }
