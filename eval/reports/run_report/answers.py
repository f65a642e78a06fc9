"""Rows of the report: each question with its answers; what is long is compressed while the records pass by."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from eval.analysis.attribution.broken_link import BrokenLink, find_broken_link
from eval.analysis.summary.summary import name_link
from eval.benchmarks.dataset import EXPECTED, classify_attachment
from eval.reports.html.page import BlockWriter
from eval.reports.rare_notes import describe_verdict
from eval.reports.step_tree import build_calls, build_steps, cut_text, format_cost, mark_answer
from eval.runs.record import PlannedQuestion, Record
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

MAX_BLOCK_BYTES = 6_500_000  # of steps and prompts of all answers, as they are written
MAX_LINE_CHARS = 240  # of a question, an answer or an explanation in the table; all of it is one click away
RIGHT = "right"
STEPS, PROMPTS = "steps", "prompts"  # names of blocks

Links = Mapping[tuple[str, int], BrokenLink]  # by sample id and epoch
Row = dict[str, Any]  # a question with its answers by epoch, or an answer, as the scripts of a page draw it


def gather_answers(
    writer: BlockWriter,
    records: Iterable[Record],
    plan: Sequence[PlannedQuestion],
    links: Links | None = None,
    kept_first: Collection[str] = (),
) -> list[Row]:
    """Return the questions of a run with their answers.

    Args:
        writer: gets what opens in them.
        records: last attempts, with their steps.
        plan: the dataset's order, and the tags of its samples.
        links: first broken links by sample id and epoch; others are found from the record.
        kept_first: ids of questions whose blocks are kept like those of wrong answers.
    """
    places = {planned.id: place for place, planned in enumerate(plan)}
    tags = {planned.id: {k: v for k, v in planned.tags.items() if k != EXPECTED} for planned in plan}
    rows: dict[str, Row] = {}
    for record in records:
        key, sample_id = next(writer.keys), record.sample_id
        link = (links or {}).get((sample_id, record.epoch)) or find_broken_link(record)
        answer = _build_answer(record, key, link)
        rows.setdefault(sample_id, _build_question(record, tags.get(sample_id, {})))["answers"].append(answer)
        rank = 0 if answer["mark"] != RIGHT or sample_id in kept_first else 2
        writer.add(STEPS, key, _list_details(record, answer, link), rank)
        if calls := build_calls(record.trajectory):
            writer.add(PROMPTS, key, calls, rank + 1)
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
        "tags": tags,
        "answers": [],  # by epoch
    }


def _build_answer(record: Record, key: int, link: BrokenLink | None) -> Row:
    usage = record.usage
    return {
        "key": key,  # of its blocks
        "epoch": record.epoch,
        "attempt": record.attempt,
        "mark": mark_answer(record),
        "value": record.value if record.error is None else 0.0,
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
        "people": "\n".join(map(describe_verdict, record.human)),
        "extra": [
            (f"scorer {name}", cut_text(f"{value}: {each.error or each.explanation}"))
            for name, each in record.extra_scores.items()
            for value in ("not scored" if each.value is None else f"{each.value:.2f}",)
        ],
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


def _describe_error(record: Record) -> str:
    return f"{record.error_class or 'unknown'}: {record.error}" if record.error is not None else ""


def _describe_score(record: Record) -> str:
    return f"{record.value:.2f}: {record.explanation}" if 0 < record.value < 1 else record.explanation
