"""`report.html`: a run on one page that opens from the disk and loads nothing.

The page holds targets, and so is for the run's owner. Rows of 10,000 answers, and their steps and prompts as far as
there is room, are compressed and read when they are opened: 1,000 answers with all prompts are a few megabytes.

    write_report(folder / "report.html", summary, store.records(), store.read_plan())
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from eval.analysis.summary.summary import Summary
from eval.reports.formats import format_floor, format_interval
from eval.reports.html.charts import CHARTS
from eval.reports.html.rows import ROWS, STEPS, Column, Rows
from eval.reports.html.templates import load_scripts, write_page
from eval.reports.notes import format_title, list_notes
from eval.reports.run_report import overview
from eval.reports.run_report.answers import RIGHT, AnswerRow, Gathered, Links, QuestionRow, gather_answers
from eval.reports.step_tree import MAX_TEXT_CHARS
from eval.reports.summary_table import PASS_LEGEND, build_counts, build_epochs
from eval.reports.tables import Table
from eval.runs.record import PlannedQuestion, Record
from mas.runtime.text import format_count

MAX_ANSWERS = 10_000  # rows of (sample, epoch)
MAX_LEAKS = 200  # web results
MAX_ERROR_GROUPS = 5  # that are shown at the top; the others are folded
CAVEATS = (
    *("tuned on", "benchmark leaks", "the judge and people", "reviewed by people"),
    *("unscored", "left out", "skipped", "answers"),
)
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPT = _HERE / "report.html.jinja", _HERE / "report.js"


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
    write_page(path, _TEMPLATE, _build_page(summary, gathered, list(facts)))


def limit_questions(epochs: int) -> int:
    """Return the number of samples that the page has room for."""
    return max(MAX_ANSWERS // max(epochs, 1), 1)


def _write_banner(summary: Summary) -> str:
    if not summary.incomplete:
        return ""
    why = f": {summary.stopped}" if summary.stopped else ""
    all_answers = format_count(summary.n, "question" if summary.epochs <= 1 else "answer")
    n_answered, n_failed = summary.n - summary.n_error, summary.n_error - summary.n_not_run
    so_far = f"{n_answered:,} answered, {n_failed:,} in error, {summary.n_not_run:,} not run"
    return f"The run is not complete{why}. Of {all_answers}: {so_far}. What has no answer yet counts as wrong."


def _build_page(summary: Summary, gathered: Gathered, facts: list[tuple[str, str]]) -> dict[str, object]:
    notes, errors = dict(list_notes(summary)), overview.group_errors(gathered.answers)
    page: dict[str, object] = {
        "summary": summary,
        "title": format_title(summary),
        "about": [*facts, *notes.items()],
        "banner": _write_banner(summary),
        "tiles": list(overview.build_tiles(summary, gathered.answers)),
        "caveats": _list_caveats(summary, notes, facts),
        "errors": errors,
        "n_errors": MAX_ERROR_GROUPS,
        "all_failed": bool(errors) and summary.n_error == summary.n,
        "score_charts": list(overview.build_score_charts(summary)),
        "losses": overview.describe_losses(summary),
        "loss_charts": list(overview.build_loss_charts(summary, gathered)),
        "folds": list(_list_tables(summary)),
        "rows": Rows("questions", _list_columns(gathered.tags), gathered.questions),
        "n_shown": len(gathered.answers),
        "blocks": gathered.blocks,
        "n_left_out": summary.n_questions - len(gathered.questions),
        "max_chars": MAX_TEXT_CHARS,
        "scripts": load_scripts(*CHARTS, *ROWS, *STEPS, _SCRIPT),
    }
    if summary.critics:
        from eval.reports import critics

        page |= {"critics": critics.build_critics(summary), "critic_sentences": critics.describe_critics(summary)}
        page["critic_charts"] = list(critics.build_critic_charts(summary))
    if (labels := summary.labels) is not None:
        from eval.reports.labels import build_confusion, build_labels

        bounds = f" ({format_interval(labels.macro_f1_ci95)})" if labels.macro_f1_ci95 else ""
        page["macro_f1"] = f"{format_floor(labels.macro_f1, summary.incomplete)}{bounds}"
        page |= {"labels": build_labels(summary, labels), "confusion": build_confusion(labels)}
    return page


def _list_caveats(summary: Summary, notes: dict[str, str], facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what a reader must know before the number is believed."""
    overlap = summary.used_to_tune
    clean = overlap is not None and not overlap.n_questions and not overlap.edited
    shown = [(name, notes[name]) for name in CAVEATS if name in notes and not (name == "tuned on" and clean)]
    return shown + [(name, text) for name, text in facts if name in CAVEATS]


def _list_tables(summary: Summary) -> Iterator[tuple[str, str, Table]]:
    """Yield title, remark and content of the tables below the questions."""
    several = ", by level and tag" if len(summary.by_level) + len(summary.by_tag) else ""
    yield f"Counts of all answers{several}", "", build_counts(summary, summary.by_tag)
    if summary.by_epochs:
        title = f"Repeats: {summary.epochs} epochs of each question"
        yield title, f"{PASS_LEGEND}.", build_epochs(summary.by_epochs)
    if results := summary.leaks.results:
        rows = [(each.sample_id, str(each.epoch), each.tool, each.source) for each in results[:MAX_LEAKS]]
        more = f" {len(results) - MAX_LEAKS:,} more are in summary.json." if len(results) > MAX_LEAKS else ""
        remark = "Web results that hold the gold answer and eight words in a row of the question. They count in every"
        table = Table(("question", "epoch", "tool", "source"), rows, left=("tool", "source"))
        shown = table if summary.epochs > 1 else table.drop("epoch")
        yield "Pages that give the benchmark away", f"{remark} number above but the one without them.{more}", shown


def _list_columns(tags: Sequence[str]) -> list[Column]:
    """Return the columns of a `QuestionRow`; a list has one value for each answer that has it."""
    return [
        Column("question", "question", width="46fr", read=lambda row: row.line),
        Column("target", "gold answer", width="18fr"),
        Column("answer", "answer", width="36fr", read=lambda row: [each.line for each in row.in_order]),
        Column("lost", "lost at", width="19fr", menu=True, read=_list_names(lambda answer: answer.lost)),
        Column("cost", "cost", kind="usd", width="74px", read=_add(lambda answer: answer.cost_usd)),
        Column("seconds", "time", kind="seconds", width="70px", read=_add(lambda answer: answer.seconds)),
        Column("mark", "verdict", kind="hidden", menu=True, find=False, read=_list_marks),
        Column("cause", "cause", "hidden", menu=True, find=False, read=_list_names(lambda each: each.lost_kind)),
        Column("error", "error", kind="hidden", menu=True, read=_list_names(lambda answer: answer.error_class)),
        Column("critic", "critic", kind="hidden", menu=True, read=_list_names(_describe_approval)),
        Column("people", "people", "hidden", menu=True, find=False, read=_list_names(lambda each: each.people)),
        Column("level", "level", kind="hidden", menu=True, find=False),
        Column("kind", "attachment", kind="hidden", menu=True, find=False),
        *(Column(f"tag {tag}", tag, kind="hidden", menu=True, read=_get_tag(tag)) for tag in tags),
        Column("file", "file", kind="hidden"),
        Column("why", "why", kind="hidden", read=_list_names(lambda answer: answer.why)),
        Column("tokens", "tokens", kind="hidden", find=False, read=_add(lambda answer: answer.tokens)),
        Column("answers", "answers", "hidden", find=False, export=False, read=lambda row: list_answers(row.in_order)),
    ]


def list_answers(answers: Iterable[AnswerRow]) -> list[dict[str, object]]:
    """Return what the page's script draws of answers."""
    return [each.to_dict() for each in answers]


def _get_tag(tag: str) -> Callable[[QuestionRow], str]:
    return lambda row: row.tags.get(tag, "")


def _list_names(read: Callable[[AnswerRow], str]) -> Callable[[QuestionRow], list[str]]:
    """Return a function that lists a name of all answers to a question, each once."""
    return lambda row: list(dict.fromkeys(filter(None, map(read, row.in_order))))


def _list_marks(row: QuestionRow) -> list[str]:
    marks = _list_names(lambda answer: answer.mark)(row)
    return [*marks, *(["not right"] if set(marks) - {RIGHT} else [])]


def _describe_approval(answer: AnswerRow) -> str:
    return f"{answer.approved_by} approved a wrong answer" if answer.approved_by else ""


def _add(read: Callable[[AnswerRow], float | None]) -> Callable[[QuestionRow], float | None]:
    """Return a function that adds up an amount of all answers; None if it is not known of one."""

    def add(row: QuestionRow) -> float | None:
        amounts = [read(each) for each in row.in_order]
        known = [each for each in amounts if each is not None]
        return round(sum(known), 6) if len(known) == len(amounts) else None

    return add
