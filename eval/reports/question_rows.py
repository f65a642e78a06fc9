"""Rows of the page: each question with its answers, texts cut, steps as far as the page has room.

shown = build_question_rows(records, ["q1", "q2"], max_questions=2_000)
shown.questions[0].in_order[0][1].mark      # "wrong"
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval.reports.html.templates import load_template
from eval.reports.step_tree import build_steps, cut_text, format_cost, format_count
from eval.runs.record import NOT_RUN, ExtraScore, Record
from mas.runtime.terminal import shorten_line

MAX_STEPS_BYTES = 12_000_000  # of the steps of all answers, as HTML
MAX_LINE_CHARS = 240  # of a question, an answer or an explanation in the table; all of it is one click away
_STEPS = Path(__file__).with_name("steps.html.jinja")


@dataclass(slots=True)
class AnswerRow:
    attempt: int
    mark: str  # right, partial, wrong, error, not run, unscored
    text: str
    explanation: str
    error: str
    error_at: str  # the agent, tool or part of the harness that failed, and where in the workflow
    stack: str  # of the exception
    limit: str
    reasoning: str
    thread_id: str
    seconds: float
    tokens: int
    cost_usd: float | None
    calls: str
    extra: list[tuple[str, str]] = field(default_factory=list)  # name and verdict of each extra scorer
    steps: str = ""  # HTML; empty: there are none, or no room for them
    n_spans: int = 0

    @property
    def why(self) -> str:
        return shorten_line(self.error or self.explanation, MAX_LINE_CHARS)

    @property
    def line(self) -> str:
        return shorten_line(self.text, MAX_LINE_CHARS)

    @property
    def asked(self) -> bool:
        return self.mark != "not run"

    @property
    def cost(self) -> str:
        return format_cost(self.cost_usd)


@dataclass(slots=True)
class QuestionRow:
    """One row of the page."""

    id: str
    level: str
    text: str
    file: str
    target: str | None
    answers: dict[int, AnswerRow] = field(default_factory=dict)  # by epoch

    @property
    def in_order(self) -> list[tuple[int, AnswerRow]]:
        return sorted(self.answers.items())

    @property
    def line(self) -> str:
        return shorten_line(self.text, MAX_LINE_CHARS)

    @property
    def marks(self) -> str:
        return " ".join(sorted({each.mark.replace(" ", "-") for each in self.answers.values()}))

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.answers.values())

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.answers.values())

    @property
    def cost_usd(self) -> float:
        return sum(each.cost_usd or 0.0 for each in self.answers.values())


class QuestionRows:
    """Rows as they are gathered. Where the steps of all would be too much, those of right answers go first."""

    def __init__(self) -> None:
        self.questions: Sequence[QuestionRow] = []
        self.only_wrong = False  # the steps of right answers were left out
        self.n_without = 0  # other answers whose steps were left out, too
        self._template = load_template(_STEPS)
        self._with_steps: list[AnswerRow] = []
        self._n_bytes = 0

    def add_steps(self, answer: AnswerRow, trajectory: Sequence[Mapping[str, object]]) -> None:
        answer.n_spans = len(trajectory)
        if not trajectory or (self.only_wrong and answer.mark == "right"):
            return
        steps = build_steps(trajectory)
        answer.steps = self._template.render(steps=steps) if steps else ""
        self._with_steps.append(answer)
        self._n_bytes += _bytes(answer)
        if self._n_bytes > MAX_STEPS_BYTES and not self.only_wrong:
            self.only_wrong = True
            for each in [each for each in self._with_steps if each.mark == "right"]:
                self.forget(each)
        if self._n_bytes > MAX_STEPS_BYTES and answer.steps:
            self.forget(answer)
            self.n_without += 1

    def forget(self, answer: AnswerRow) -> None:
        self._n_bytes -= _bytes(answer)
        answer.steps = ""


def _bytes(answer: AnswerRow) -> int:
    return len(answer.steps.encode("utf-8", "surrogatepass"))


def build_question_rows(records: Iterable[Record], sample_ids: Sequence[str], max_questions: int) -> QuestionRows:
    """The first questions in the dataset's order, with the last attempt at each epoch."""
    place = {sample_id: place for place, sample_id in enumerate(dict.fromkeys(sample_ids))}
    rows: dict[int, QuestionRow] = {}
    shown = QuestionRows()
    for record in records:
        at = place.setdefault(record.sample_id, len(place))
        if at < max_questions:
            question = rows.setdefault(at, _question(record))
            before = question.answers.get(record.epoch)
            if before is None or before.attempt < record.attempt:
                if before is not None:
                    shown.forget(before)
                question.answers[record.epoch] = answer = _answer(record)
                shown.add_steps(answer, record.trajectory)
    shown.questions = [rows[at] for at in sorted(rows)]
    return shown


def _question(record: Record) -> QuestionRow:
    target = None if record.target is None else cut_text(record.target)
    return QuestionRow(record.sample_id, record.level or "", cut_text(record.question), record.file or "", target)


def _answer(record: Record) -> AnswerRow:
    usage = record.usage
    return AnswerRow(
        attempt=record.attempt,
        mark=_mark(record),
        text="" if record.answer is None else cut_text(str(record.answer)),
        explanation=cut_text(
            f"{record.value:.2f}: {record.explanation}" if 0 < record.value < 1 else record.explanation
        ),
        error=cut_text(f"{record.error_class or 'unknown'}: {record.error}") if record.error is not None else "",
        error_at=_describe_place(record),
        stack=cut_text(record.error_details.stack) if record.error_details else "",
        limit=record.limit or "",
        reasoning=cut_text(record.reasoning_trace),
        thread_id=record.thread_id,
        seconds=record.wall_seconds,
        tokens=usage.input_tokens + usage.output_tokens,
        cost_usd=usage.cost_usd if usage.lm_calls else 0.0,
        extra=[(f"scorer {name}", cut_text(_describe_verdict(each))) for name, each in record.extra_scores.items()],
        calls=f"{format_count(usage.lm_calls, 'model call')}, {format_count(usage.tool_calls, 'tool call')}",
    )


def _describe_verdict(score: ExtraScore) -> str:
    if score.value is None:
        return f"not scored: {score.error}"
    return f"{score.value:.2f}: {score.explanation}"


def _describe_place(record: Record) -> str:
    parts = [record.error_component or ""]
    if details := record.error_details:
        parts += [f"step {details.step}"] if details.step else []
        rejections = [f"{agent} {count}" for agent, count in details.retry_counts.items() if count]
        parts += [f"rejections {', '.join(rejections)}"] if rejections else []
    return "; ".join(filter(None, parts))


def _mark(record: Record) -> str:
    if record.error is not None:
        return "not run" if record.error_class == NOT_RUN else "error"
    if not record.scored:
        return "unscored"
    return "right" if record.correct else "partial" if record.value else "wrong"
