"""`report.html`: a run on one page that opens from the disk and loads nothing.

The page holds targets, and so is for the run's owner. Rows of 10,000 answers, and their steps and prompts as far as
there is room, are compressed and read when they are opened: 1,000 answers with all prompts are a few megabytes.

    write_report(folder / "report.html", summary, store.records(), store.read_plan())
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from eval.analysis.summary.summary import NO_ANSWER, OTHER, Counts, Summary
from eval.reports.html.charts import CHARTS
from eval.reports.html.rows import ROWS, STEPS, Column, Rows
from eval.reports.html.templates import load_scripts, load_template
from eval.reports.notes import (
    format_changes,
    format_duration,
    format_floor,
    format_interval,
    format_percent,
    format_title,
    format_usd,
    list_notes,
    select_ks,
)
from eval.reports.run_report import answers as blocks
from eval.reports.run_report.answers import AnswerRow, Gathered, Links, QuestionRow, gather_answers
from eval.reports.run_report.overview import (
    build_critic_charts,
    build_loss_charts,
    build_score_charts,
    build_tiles,
    choose_words,
    describe_critics,
    describe_losses,
    group_errors,
)
from eval.reports.step_tree import MAX_TEXT_CHARS
from eval.runs.record import PlannedQuestion, Record
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls
from mas.runtime.text import format_count

MAX_ANSWERS = 10_000  # rows of (sample, epoch)
MAX_PACE_LINES = 100
MAX_LEAKS = 200
MAX_MATRIX_LABELS = 30
MAX_ERROR_GROUPS = 5  # that are shown at the top; the others are folded
CAVEATS = (
    *("tuned on", "benchmark leaks", "the judge and people", "reviewed by people"),
    *("unscored", "left out", "skipped", "answers"),
)
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPT = _HERE / "report.html.jinja", _HERE / "report.js"
_PIECE = 64  # template events that are joined before they are written


def write_report(
    path: Path,
    summary: Summary,
    records: Iterable[Record],
    plan: Sequence[PlannedQuestion] = (),
    facts: Iterable[tuple[str, str]] = (),
    links: Links | None = None,
) -> None:
    """Write the page; a reader sees the old one or the whole new one.

    Args:
        path: of the page.
        summary: of the run.
        records: last attempts, with their steps if these are to be shown; states are not needed.
        plan: the dataset's order, and the tags of its samples; records of other ids follow in the given order.
        facts: names and sentences about the run.
        links: first broken links by sample id and epoch; others are found from the record.

    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    gathered = gather_answers(records, plan, limit_questions(summary.epochs), links)
    filters: dict[str, Callable[..., str]] = {
        "percent": format_percent,
        "floor": format_floor,
        "interval": format_interval,
        "changes": format_changes,
        "usd": format_usd,
        "duration": format_duration,
    }
    stream = load_template(_TEMPLATE, filters).stream(_build_page(summary, gathered, list(facts)))
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


def _build_page(summary: Summary, gathered: Gathered, facts: list[tuple[str, str]]) -> dict[str, object]:
    groups: dict[str, Counts] = {
        "all": summary,
        **{f"level {level}": counts for level, counts in summary.by_level.items()},
        **{f"{tag} {value}": each for tag, values in summary.by_tag.items() for value, each in values.items()},
    }
    words = choose_words(summary.metric)
    notes = dict(list_notes(summary))
    errors = group_errors(gathered.answers)
    return {
        "summary": summary,
        "title": format_title(summary),
        "about": facts,
        "incomplete": summary.incomplete,
        "banner": _write_banner(summary),
        "tiles": list(build_tiles(summary, words, gathered.answers)),
        "caveats": _list_caveats(summary, notes, facts),
        "errors": errors,
        "max_error_groups": MAX_ERROR_GROUPS,
        "all_failed": bool(errors) and summary.n_error == summary.n,
        "score_charts": list(build_score_charts(summary, gathered)),
        "losses": describe_losses(summary),
        "loss_charts": list(build_loss_charts(summary, gathered)),
        "approximate": [name for name, critic in summary.critics.items() if not critic.is_exact],
        "critic_sentences": describe_critics(summary),
        "critic_charts": list(build_critic_charts(summary)),
        "groups": {name: _build_group(counts, summary.incomplete) for name, counts in groups.items()},
        "words": words,
        "answers": _list_answer_columns(summary),
        "ks": select_ks(summary.by_epochs) if summary.by_epochs else [],
        "notes": [*notes.items()],
        "pace_lines": summary.pace_history[-MAX_PACE_LINES:],
        "leak_lines": summary.leaks.results[:MAX_LEAKS],
        "rows": _build_rows(summary, gathered),
        "n_shown": len(gathered.answers),
        "blocks": gathered.blocks,
        "n_without_steps": gathered.blocks.left_out.get(blocks.STEPS, 0),
        "n_without_prompts": gathered.blocks.left_out.get(blocks.PROMPTS, 0),
        "n_left_out": summary.n_questions - len(gathered.questions),
        "max_chars": MAX_TEXT_CHARS,
        "scripts": load_scripts(*CHARTS, *ROWS, *STEPS, _SCRIPT),
    }


def _list_caveats(summary: Summary, notes: dict[str, str], facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what a reader must know before the number is believed."""
    overlap = summary.used_to_tune
    clean = overlap is not None and not overlap.n_questions and not overlap.edited
    shown = [(name, notes[name]) for name in CAVEATS if name in notes and not (name == "tuned on" and clean)]
    return shown + [(name, text) for name, text in facts if name in CAVEATS]


def _build_rows(summary: Summary, gathered: Gathered) -> Rows:
    tags = [Column(f"tag {tag}", tag, kind="hidden", menu=True) for tag in gathered.tags]
    columns = [
        Column("question", "question", width="46fr"),
        Column("target", "gold answer", width="18fr"),
        Column("answer", "answer", width="36fr"),
        Column("lost", "lost at", width="19fr", menu=True),
        Column("cost", "cost", kind="usd", width="74px"),
        Column("seconds", "time", kind="seconds", width="70px"),
        Column("mark", "verdict", kind="hidden", menu=True, find=False),
        Column("cause", "cause", kind="hidden", menu=True, find=False),
        Column("error", "error", kind="hidden", menu=True),
        Column("critic", "critic", kind="hidden", menu=True),
        Column("people", "people", kind="hidden", menu=True, find=False),
        Column("level", "level", kind="hidden", menu=True, find=False),
        Column("kind", "attachment", kind="hidden", menu=True, find=False),
        *tags,
        Column("file", "file", kind="hidden"),
        Column("why", "why", kind="hidden"),
        Column("tokens", "tokens", kind="hidden", find=False),
        Column("rest", "more text", kind="hidden", export=False),
        Column("answers", "answers", kind="hidden", find=False, export=False),
    ]
    return Rows("questions", columns, [dict(_build_row(each, gathered.tags)) for each in gathered.questions])


def _build_row(question: QuestionRow, tags: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Yield the values of a row; a list has one value for each answer that has it."""
    answers = question.in_order
    yield from (("id", question.id), ("question", question.line), ("target", question.target))
    yield "answer", [each.line for each in answers]
    yield "lost", _list_names(each.lost for each in answers)
    yield "cause", _list_names(each.link.kind if each.link else "" for each in answers)
    yield "cost", None if any(each.cost_usd is None for each in answers) else _add(each.cost_usd for each in answers)
    yield "seconds", _add(each.seconds for each in answers)
    marks = _list_names(each.mark for each in answers)
    yield "mark", [*marks, *(["not right"] if set(marks) - {blocks.RIGHT} else [])]
    yield "error", _list_names(each.error_class for each in answers)
    yield (
        "critic",
        _list_names(f"{each.approved_by} approved a wrong answer" if each.approved_by else "" for each in answers),
    )
    yield "people", _list_names(each.people for each in answers)
    yield from (("level", question.level), ("kind", question.kind))
    yield from ((f"tag {tag}", question.tags.get(tag, "")) for tag in tags)
    yield from (("file", question.file), ("why", _list_names(each.why for each in answers)))
    yield "tokens", sum(each.tokens for each in answers)
    yield "rest", question.rest
    yield "answers", [_build_answer(each) for each in answers]


def _build_answer(answer: AnswerRow) -> list[object]:
    """Return what `report.js` draws of an answer; its order is that of FIELDS there."""
    return [
        *(answer.key, answer.epoch, answer.attempt, answer.mark, answer.line, answer.why, answer.lost, answer.limit),
        *(answer.approved_by, answer.seconds, answer.tokens, answer.cost_usd, answer.people),
    ]


def _list_names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, names)))


def _add(values: Iterable[float | None]) -> float:
    return round(sum(each or 0.0 for each in values), 6)
