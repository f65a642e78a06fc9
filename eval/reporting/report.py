"""`report.html`: a run on one page that opens from the disk, needs no script and loads nothing.

It shows gold answers, and so is for the run's owner. The page is written in pieces; of the answers only so many are
kept and shown that 10,000 questions need no more memory than 2,000.

    write_report(folder / "report.html", summary, store.records(), example_ids)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.record import Record
from eval.reporting.notes import changes, interval, notes, percent, shown_ks
from eval.reporting.page import template, whole_file
from eval.reporting.shown_text import visible

REPORT = "report.html"
MAX_ANSWERS = 2_000  # rows of (question, epoch)
MAX_TEXT_CHARS = 600  # of a question, an answer, an explanation, an error
MAX_GATE_LINES = 100
MAX_LEAKS = 200
_TEMPLATE = Path(__file__).with_name("report.html.jinja")
_PIECE = 64  # template events that are joined before they are written


@dataclass(slots=True)
class Answer:
    attempt: int
    mark: str  # right, wrong, error, not run, unscored
    text: str
    explanation: str
    error: str
    limit: str


@dataclass(slots=True)
class ShownQuestion:
    """One row of the page."""

    id: str
    level: str
    text: str
    target: str | None
    answers: dict[int, Answer] = field(default_factory=dict)  # by epoch

    @property
    def in_order(self) -> list[tuple[int, Answer]]:
        return sorted(self.answers.items())

    @property
    def all_right(self) -> bool:
        return all(answer.mark == "right" for answer in self.answers.values())


def write_report(
    path: Path, summary: Mapping[str, Any], records: Iterable[Record], example_ids: Sequence[str] = ()
) -> None:
    """Write the page; a reader sees the old one or the whole new one.

    Args:
        path: of the page.
        summary: what `eval.reporting.summary.summarise` returned.
        records: as given to it; their steps and states are not needed.
        example_ids: the dataset's order; records of other ids follow in the given order.

    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    questions = shown_questions(records, example_ids, max_questions=max(MAX_ANSWERS // max(summary["epochs"], 1), 1))
    page = template(_TEMPLATE, {"percent": percent, "interval": interval, "changes": changes})
    stream = page.stream(_page(summary, questions))
    stream.enable_buffering(_PIECE)
    with whole_file(path) as file:
        file.writelines(map(visible, stream))


def shown_questions(
    records: Iterable[Record], example_ids: Sequence[str], max_questions: int
) -> Sequence[ShownQuestion]:
    """The first questions in the dataset's order, with the last attempt at each epoch."""
    place = {example_id: place for place, example_id in enumerate(dict.fromkeys(example_ids))}
    shown: dict[int, ShownQuestion] = {}
    for record in records:
        at = place.setdefault(record.example_id, len(place))
        if at < max_questions:
            question = shown.setdefault(at, _question(record))
            before = question.answers.get(record.epoch)
            if before is None or before.attempt < record.attempt:
                question.answers[record.epoch] = _answer(record)
    return [shown[at] for at in sorted(shown)]


def _question(record: Record) -> ShownQuestion:
    target = None if record.target is None else _cut(record.target)
    return ShownQuestion(record.example_id, record.level or "", _cut(record.question), target)


def _answer(record: Record) -> Answer:
    return Answer(
        attempt=record.attempt,
        mark=_mark(record),
        text="" if record.answer is None else _cut(str(record.answer)),
        explanation=_cut(record.explanation),
        error=_cut(f"{record.error_class or 'unknown'}: {record.error}") if record.error is not None else "",
        limit=record.limit or "",
    )


def _mark(record: Record) -> str:
    if record.error is not None:
        return "not run" if record.error_class == "not_run" else "error"
    if not record.scored:
        return "unscored"
    return "right" if record.correct else "wrong"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}… ({len(text):,} characters)"


def _page(summary: Mapping[str, Any], questions: Sequence[ShownQuestion]) -> dict[str, Any]:
    groups = [("all", summary), *((f"level {name}", counts) for name, counts in summary["by_level"].items())]
    history = summary["gate_history"]
    return {
        "summary": summary,
        "groups": groups,
        "ks": shown_ks(summary["by_epochs"]) if summary["by_epochs"] else [],
        "notes": list(notes(summary)),
        "gate_lines": history[-MAX_GATE_LINES:],
        "leak_lines": summary["leaks"]["results"][:MAX_LEAKS],
        "questions": questions,
        "n_left_out": summary["n_questions"] - len(questions),
    }
