"""`report.html`: a run on one page that opens from the disk and loads nothing; its script only filters and sorts.

It shows gold answers, and so is for the run's owner. The page is written in pieces; of the answers only so many are
kept and shown that 10,000 questions need no more memory than 2,000.

    write_report(folder / "report.html", summary, store.records(), sample_ids)
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.cli.terminal_text import escape_controls
from eval.reports.files import load_script, load_template
from eval.reports.heading import format_title
from eval.reports.notes import (
    format_changes,
    format_floor,
    format_interval,
    format_percent,
    is_incomplete,
    list_notes,
    select_ks,
)
from eval.reports.question_rows import MAX_STEPS_BYTES, QuestionRows, build_question_rows
from eval.reports.step_tree import MAX_TEXT_CHARS, format_count
from eval.runs.folder import write_atomically
from eval.runs.record import Record

REPORT = "report.html"
MAX_ANSWERS = 2_000  # rows of (question, epoch)
MAX_GATE_LINES = 100
MAX_LEAKS = 200
_TEMPLATE = Path(__file__).with_name("report.html.jinja")
_SCRIPT = Path(__file__).with_name("report.js.jinja")
_PIECE = 64  # template events that are joined before they are written


def write_report(
    path: Path,
    summary: Mapping[str, Any],
    records: Iterable[Record],
    sample_ids: Sequence[str] = (),
    about: Iterable[tuple[str, str]] = (),
) -> None:
    """Write the page; a reader sees the old one or the whole new one.

    Args:
        path: of the page.
        summary: what `eval.analysis.summary.summary.summarise` returned.
        records: as given to it, with their steps if these are to be shown; states are not needed.
        sample_ids: the dataset's order; records of other ids follow in the given order.
        about: names and what is to be said of what the run measured.

    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    shown = build_question_rows(records, sample_ids, limit_questions(summary["epochs"]))
    page = load_template(_TEMPLATE, {"percent": format_percent, "interval": format_interval, "changes": format_changes})
    stream = page.stream(_page(summary, shown, list(about)))
    stream.enable_buffering(_PIECE)
    with write_atomically(path) as file:
        file.writelines(map(escape_controls, stream))


def limit_questions(epochs: int) -> int:
    """Questions."""
    return max(MAX_ANSWERS // max(epochs, 1), 1)


def _counts(counts: Mapping[str, Any], incomplete: bool) -> dict[str, Any]:
    """Of all questions or of one level, as the page shows them."""
    n_not_asked = counts["n_not_run"]
    return {
        **counts,
        "share": format_floor(counts["accuracy"], incomplete),
        "n_failed": counts["n_error"] - n_not_asked,
        "n_answered": counts["n"] - counts["n_error"],
        "n_not_asked": n_not_asked,
    }


def _banner(summary: Mapping[str, Any], counts: Mapping[str, Any], incomplete: bool) -> str:
    if not incomplete:
        return ""
    why = f": {summary['stopped']}" if summary["stopped"] else ""
    what = format_count(summary["n"], "question" if summary["epochs"] <= 1 else "answer")
    so_far = f"{counts['n_answered']:,} answered, {counts['n_failed']:,} in error, {counts['n_not_asked']:,} not asked"
    return f"The run is not complete{why}. Of {what}: {so_far}. What has no answer yet counts as wrong."


def _page(summary: Mapping[str, Any], shown: QuestionRows, about: list[tuple[str, str]]) -> dict[str, Any]:
    history, incomplete = summary["gate_history"], is_incomplete(summary)
    levels = {f"level {name}": counts for name, counts in summary["by_level"].items()}
    groups = {name: _counts(counts, incomplete) for name, counts in {"all": summary, **levels}.items()}
    script, script_hash = load_script(_SCRIPT)
    return {
        "summary": summary,
        "title": format_title(summary),
        "about": about,
        "incomplete": incomplete,
        "banner": _banner(summary, groups["all"], incomplete),
        "groups": groups,
        "ks": select_ks(summary["by_epochs"]) if summary["by_epochs"] else [],
        "notes": list(list_notes(summary)),
        "gate_lines": history[-MAX_GATE_LINES:],
        "leak_lines": summary["leaks"]["results"][:MAX_LEAKS],
        "shown": shown,
        "marks": sorted({mark for question in shown.questions for mark in question.marks.split()}),
        "n_left_out": summary["n_questions"] - len(shown.questions),
        "max_chars": MAX_TEXT_CHARS,
        "max_steps_megabytes": MAX_STEPS_BYTES // 1_000_000,
        "script": script,
        "script_hash": script_hash,
    }
