"""`report.html`: a run on one page that opens from the disk and loads nothing; it holds targets.

`eval/report.py` writes it, the viewer when it is opened there, and the exporter for MLflow.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from eval.analysis.attribution.broken_link import BrokenLink, attribute_run, find_broken_link, read_with_steps
from eval.analysis.summary.summarise import read_missing
from eval.analysis.summary.summary import Summary, name_link
from eval.benchmarks.dataset import EXPECTED, classify_attachment
from eval.execution.console import format_duration
from eval.reports.files import write_files
from eval.reports.formats import Table, format_floor, format_interval, format_usd
from eval.reports.html.page import ROWS, STEPS, Blocks, BlockWriter, Column, Rows, link, write_page
from eval.reports.rare_notes import build_confusion, build_labels, describe_critic
from eval.reports.step_tree import MAX_TEXT_CHARS, build_calls, build_steps, cut_text, format_cost, mark_answer
from eval.reports.summary_table import build_counts, format_loss, format_title, list_notes
from eval.runs.folder import REPORT
from eval.runs.record import NOT_RUN, ExtraScore, HumanVerdict, PlannedQuestion, Record
from eval.runs.run_info import NO_MEASUREMENT, RunInfo
from eval.runs.store import RunStore
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

MAX_CAUSES = 15
MAX_BLOCK_BYTES = 6_500_000  # of steps and prompts of all answers, as they are written
MAX_LINE_CHARS = 240  # of a question, an answer or an explanation in the table; all of it is one click away
# names of notes: what a reader must know before the number is believed
CAVEATS = ("tuned on", "benchmark leaks", "judged", "reviewed by people", "unscored", "skipped", "answers")
RIGHT = "right"
TAG = "tag "  # before the name of a tag: its key in a row
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPTS = _HERE / "report.html.jinja", (*ROWS, *STEPS, _HERE / "report.js")

Links = Mapping[tuple[str, int], BrokenLink]  # by sample id and epoch
Row = dict[str, Any]  # a question with its answers by epoch, or an answer, as the scripts of a page draw it


def write_reports(folder: Path, store: RunStore) -> Summary:
    """Write all files and the page, also while the run is going on, and return the summary; raise as `write_files`."""
    attribution = attribute_run(store)
    summary = write_files(folder, store, attribution)
    info, plan = store.read_info(), store.read_plan()
    known = {each.id for each in plan}
    last = read_with_steps(store, lambda key: key[0] in known and key[1] <= info.epochs)
    records = chain(last, read_missing(store))
    write_report(folder / REPORT, summary, records, plan, describe_run(info, summary), attribution.links)
    return summary


def write_report(
    path: Path,
    summary: Summary,
    records: Iterable[Record],
    plan: Sequence[PlannedQuestion] = (),
    facts: Mapping[str, str] | None = None,
    links: Links | None = None,
) -> None:
    """Write the page; if it cannot be written, one that is already there stays as it was.

    `records`, `plan` and `links` are those of `gather_answers`; `facts`: names and sentences about the run.
    """
    writer = BlockWriter(MAX_BLOCK_BYTES)
    questions = gather_answers(writer, records, plan, links)
    write_page(path, _TEMPLATE, _SCRIPTS, _build_page(summary, questions, writer.close(), facts or {}))


def describe_run(info: RunInfo, summary: Summary) -> dict[str, str]:
    """Return facts of a run that are not in its title; what it did not record is left out."""
    edited = ", edited since it was published" if info.prompts_edited else ""
    facts = {
        "run": f"{summary.folder} (id {summary.run_id})",
        "scorer": summary.scorer,
        "prompts": summary.prompts and f"{summary.prompts}{edited}",
        "answers": info.rescored_from and f"those of {info.rescored_from}, scored again",
        NO_MEASUREMENT: info.describe_gold(),
        "date": info.started_at and f"{datetime.fromisoformat(info.started_at):%Y-%m-%d %H:%M} UTC",
        "command": summary.command and f"python eval/run.py {shlex.join(summary.command)}",
    }
    return {name: str(text) for name, text in facts.items() if text}


def _build_page(
    summary: Summary, questions: Sequence[Row], blocks: Blocks, facts: Mapping[str, str]
) -> dict[str, object]:
    notes, lost = dict(list_notes(summary)), summary.attribution or ()
    about = [*facts.items(), *notes.items()]
    return {
        "summary": summary,
        "title": format_title(summary),
        "about": about,
        "banner": "; ".join(notes[name] for name in ("stopped", "incomplete") if name in notes),
        "tiles": list(_build_tiles(summary)),
        "caveats": [(name, text) for name, text in about if name in CAVEATS],
        "errors": {name: n for name, n in summary.errors_by_class.items() if name != NOT_RUN},
        "lost": lost[:MAX_CAUSES],
        "longest": max((each.points.ci95 or (0.0, each.points.value or 0.0))[1] for each in lost) if lost else 0.0,
        "format_loss": format_loss,
        "link": link,
        "critics": {name: describe_critic(each) for name, each in summary.critics.items()},
        "tables": list(_list_tables(summary)),
        "rows": _build_rows(questions),
        "blocks": blocks,
        "max_chars": MAX_TEXT_CHARS,
    }


def _list_tables(summary: Summary) -> Iterator[tuple[str, Table]]:
    if labels := summary.labels:
        yield "Precision, recall and F1 of each label, with 95% intervals", build_labels(labels)
        yield "Confusion matrix", build_confusion(labels)
    yield "Counts of all answers, by level and tag", build_counts(summary, summary.by_tag)


def _build_rows(questions: Sequence[Row]) -> Rows:
    """Return the questions; a list has one value for each answer that has it, each once."""
    menus = {"mark": "verdict", "error": "error", "people": "people", "level": "level"}
    tags = sorted({key for question in questions for key in question if key.startswith(TAG)})
    columns = [
        Column("question", "question", width="46fr"),
        Column("target", "gold answer", width="18fr"),
        Column("answer", "answer", width="36fr"),
        Column("lost", "lost at", width="19fr", menu=True),
        Column("cost", "cost", kind="usd", width="74px"),
        Column("seconds", "time", kind="seconds", width="70px"),
        *(Column(key, title, kind="hidden", menu=True) for key, title in menus.items()),
        *(Column(tag, tag.removeprefix(TAG), kind="hidden", menu=True) for tag in tags),
        Column("file", "file", kind="hidden"),
        Column("why", "why", kind="hidden"),
    ]
    return Rows("question", columns, list(map(_build_row, questions)))


def _build_row(question: Row) -> Row:
    answers = question["answers"]
    costs, marks = [each["cost_usd"] for each in answers], list_values(answers, "mark")
    return {
        **question,
        **{name: list_values(answers, name) for name in ("lost", "people", "why")},
        "error": list_values(answers, "error_class"),
        "mark": [*marks, "not right"] if set(marks) - {RIGHT} else marks,
        "answer": [each["line"] for each in answers],
        "cost": None if None in costs else round(sum(costs), 6),
        "seconds": round(sum(each["seconds"] for each in answers), 6),
    }


def _build_tiles(summary: Summary) -> Iterator[tuple[str, str, str]]:
    interval = f"95% interval {format_interval(summary.score_ci95)}"
    remark = "not complete: no interval" if summary.incomplete else interval
    yield format_floor(summary.score, summary.incomplete), summary.metric, remark
    over = f" over {summary.epochs} epochs" if summary.epochs > 1 else ""
    right, wrong = ("right", "wrong") if summary.metric == ACCURACY else ("fully right", "not fully")
    failures = f"{summary.n_wrong:,} {wrong}, {summary.n_error - summary.n_not_run:,} in error"
    not_run = f", {summary.n_not_run:,} not run" if summary.n_not_run else ""
    yield f"{summary.n_correct:,} of {summary.n_scored:,}", right + over, failures + not_run
    usage = summary.usage
    known = f"at least {format_usd(usage.known_cost_usd)}" if usage.known_cost_usd else format_usd(None)
    cost = known if usage.cost_usd is None else format_usd(usage.cost_usd)
    yield cost, "cost", "simulated model" if summary.simulated else ""
    n_in, n_out = usage.input_tokens, usage.output_tokens
    yield f"{n_in + n_out:,}", "tokens", f"{n_in:,} in, {n_out:,} out"
    yield format_duration(summary.wall_seconds), "time", ""


def gather_answers(
    writer: BlockWriter,
    records: Iterable[Record],
    plan: Sequence[PlannedQuestion],
    links: Links | None = None,
    kept_first: Collection[str] = (),
) -> list[Row]:
    """Return the questions of a run with their answers; the writer gets what opens in them.

    `records`: last attempts, with their steps; `plan`: order and tags; `links`: first broken links, of which others are
    found from the record; `kept_first`: ids of questions whose blocks are kept like those of wrong answers.
    """
    places = {planned.id: place for place, planned in enumerate(plan)}
    tags = {planned.id: planned.tags for planned in plan}
    rows: dict[str, Row] = {}
    for record in records:
        key, sample_id = next(writer.keys), record.sample_id
        link = (links or {}).get((sample_id, record.epoch)) or find_broken_link(record)
        answer = _build_answer(record, key, link)
        rows.setdefault(sample_id, _build_question(record, tags.get(sample_id, {})))["answers"].append(answer)
        rank = 0 if answer["mark"] != RIGHT or sample_id in kept_first else 2
        writer.add("steps", key, _list_details(record, answer, link), rank)
        if calls := build_calls(record.trajectory):
            writer.add("prompts", key, calls, rank + 1)
    for row in rows.values():
        row["answers"].sort(key=lambda answer: answer["epoch"])
    return sorted(rows.values(), key=lambda row: places.get(row["id"], len(places)))


def _build_question(record: Record, tags: Mapping[str, str]) -> Row:
    return {
        "id": record.sample_id,
        "question": shorten_line(record.question, MAX_LINE_CHARS),
        "target": None if record.target is None else shorten_line(record.target, MAX_LINE_CHARS),
        "level": record.level or "",
        "kind": classify_attachment(record.file or None),
        "file": record.file or "",
        **{f"{TAG}{name}": value for name, value in tags.items() if name != EXPECTED},
        "answers": [],  # by epoch
    }


def _build_answer(record: Record, key: int, link: BrokenLink | None) -> Row:
    usage = record.usage
    return {
        "key": key,  # of its blocks
        "epoch": record.epoch,
        "attempt": record.attempt,
        "mark": mark_answer(record),
        "line": "" if record.answer is None else shorten_line(str(record.answer), MAX_LINE_CHARS),
        "why": shorten_line(_describe_error(record) or _describe_score(record), MAX_LINE_CHARS),
        "lost": name_link(link.kind, link.name) if link else "",
        "error_class": (record.error_class or "unknown") if record.error is not None else "",
        "limit": record.limit or "",
        "seconds": round(record.wall_seconds, 3),
        "cost_usd": usage.cost_usd if usage.lm_calls else 0.0,
        "people": ", ".join(each.label.replace("_", " ") for each in record.human),
    }


def list_values(answers: Iterable[Row], name: str) -> list[str]:
    """Return what answers have, each once."""
    return list(dict.fromkeys(filter(None, (each[name] for each in answers))))


def _list_details(record: Record, answer: Row, link: BrokenLink | None) -> dict[str, object]:
    usage, failure = record.usage, record.error_details
    place = [record.error_component]
    if failure:
        rejected = ", ".join(f"{agent} {n}" for agent, n in failure.retry_counts.items() if n)
        place += [failure.step and f"step {failure.step}", rejected and f"rejections {rejected}"]
    calls = f"{format_count(usage.lm_calls, 'model call')}, {format_count(usage.tool_calls, 'tool call')}"
    spent = f"{calls}, {usage.input_tokens + usage.output_tokens:,} tokens, {format_cost(answer['cost_usd'])}"
    details: dict[str, object] = {
        "question": record.question,
        "target": record.target,
        "answer": None if record.answer is None else str(record.answer),
        "scorer": _describe_score(record),
        "people": "\n".join(map(_describe_verdict, record.human)),
        "extra": [(f"scorer {name}", _describe_extra(each)) for name, each in record.extra_scores.items()],
        "error": _describe_error(record),
        "failed in": "; ".join(filter(None, place)),
        "stack": failure.stack if failure else "",
        "ended by": record.limit,
        "evidence": link.evidence if link else "",
        "reasoning": record.reasoning_trace,
        "spent": f"{record.wall_seconds:.1f} s, {spent}" if usage.lm_calls else "",
        "thread id": record.thread_id,
        "broken": link.step if link else None,
        "steps": build_steps(record.trajectory),
    }
    cut = {name: cut_text(value) if isinstance(value, str) else value for name, value in details.items()}
    return {name: value for name, value in cut.items() if value not in ("", None, [])}


def _describe_extra(score: ExtraScore) -> str:
    said = f"not scored: {score.error}" if score.value is None else f"{score.value:.2f}: {score.explanation}"
    return cut_text(said)


def _describe_verdict(verdict: HumanVerdict) -> str:
    """Return what a person said of an answer or its question, who, when and where, and what it changed."""
    name = verdict.label.replace("_", " ")
    parts = [f"{name}: {verdict.who}, {verdict.when[:16].replace('T', ' ')} UTC, who saw it in {verdict.run}"]
    if verdict.target is not None:
        parts.append(f"gold answer {verdict.target_before!r} corrected to {verdict.target!r}")
    return "; ".join([*parts, *([f"note: {verdict.note}"] if verdict.note else [])])


def _describe_error(record: Record) -> str:
    return f"{record.error_class or 'unknown'}: {record.error}" if record.error is not None else ""


def _describe_score(record: Record) -> str:
    return f"{record.value:.2f}: {record.explanation}" if 0 < record.value < 1 else record.explanation
