"""Examples → records: questions side by side, each in its own trace and under its own deadline.

A failing question becomes a row with its error and never ends the batch; every finished row is in the store before the
next one starts in its place.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import dspy

from eval.benchmarks.example import Example
from eval.failure import Failure, describe, describe_scoring
from eval.record import Record, Usage
from eval.scorers.judging import without_gold
from eval.scorers.score import Score, Scorer
from eval.store import plain
from mas.tracing.trace import Listener, Observer, Span, Trace, recording, span

FIRST_EPOCH, FIRST_ATTEMPT = 1, 1


class StoppedError(Exception):
    """The run ended before all its questions did; what is finished is in the store."""


@dataclass(frozen=True)
class Runner:
    """How one run's questions are run; the same for each of them."""

    run_id: str
    program: Any  # dspy.Module
    scorer: Scorer
    concurrency: int  # questions at once
    deadline_seconds: float  # wall time of one question
    fail_fast: bool
    listener: Callable[[str, str], Listener]  # thread id, example id → where the trace's log lines go
    redact: Callable[[str], str]  # takes secrets out of an error message
    finished: Callable[[Record], None]  # keeps the record; called on the runner's own loop
    observer: Observer | None = None  # shows the spans of every question as they open and end

    async def run(self, examples: Sequence[Example]) -> None:
        """Run every example once.

        Raises:
            StoppedError: `fail_fast`, and a question failed by error.
        """
        waiting = iter(examples)
        with dspy.context(disable_history=True):
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.concurrency, len(examples))):
                        group.create_task(self._worker(waiting))
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None

    async def _worker(self, waiting: Any) -> None:
        for example in waiting:
            record = await self.record_of(example)
            self.finished(record)
            if self.fail_fast and record.error:
                raise StoppedError(f"question {example.id} failed ({record.error}) and run.fail_fast is on")

    async def record_of(self, example: Example) -> Record:
        """Answer and score one example; whatever goes wrong with it becomes part of its record."""
        thread_id = uuid.uuid4().hex
        trace = Trace(thread_id, self.listener(thread_id, example.id), self.observer)
        record = blank_record(self.run_id, example, thread_id)
        with recording(trace):
            try:
                async with asyncio.timeout(self.deadline_seconds):
                    with span("question", example.id) as current:
                        await self._answer(example, record)
                        current.outputs = {"answer": record.answer}
            except Exception as error:  # noqa: BLE001  the boundary of one question: its failure becomes data
                self._fail(record, describe(error, trace, self.deadline_seconds))
            record.wall_seconds = trace.seconds
            await self._score(example, record)
        _complete(record, trace)
        record.state, record.trajectory = self._clean(record.state), self._clean(record.trajectory)
        return record

    async def _answer(self, example: Example, record: Record) -> None:
        prediction = await self.program.acall(question=example.question, file=example.file)
        answer = prediction.get("final_answer")
        record.answer = None if answer is None else self.redact(str(answer))
        record.reasoning_trace = self.redact(str(prediction.get("final_reasoning_trace") or ""))

    async def _score(self, example: Example, record: Record) -> None:
        """Rows in error never reach a scorer: a gold answer of `inf` or `none` would call them right."""
        if record.error is not None or example.target is None:
            return None
        try:
            async with asyncio.timeout(self.deadline_seconds):
                score = await self._verdict(example.question, record.answer, example.target)
        except Exception as error:  # noqa: BLE001  the same boundary: a scorer may be the user's own
            failure = describe_scoring(error, self.deadline_seconds)  # a rule's own message may quote the gold answer
            return self._fail(record, replace(failure, message=without_gold(failure.message, example.target)))
        record.score, record.explanation, record.parts = score.value, score.explanation, dict(score.parts)
        return None

    async def _verdict(self, question: str, answer: str | None, target: str) -> Score:
        """A judge's calls and time stand in a span of their own, apart from the program's; a plain rule needs none."""
        score = self.scorer(question, answer, target)
        if isinstance(score, Score):
            return score
        with span("scorer", type(self.scorer).__name__) as current:
            score = await score
            current.outputs = {"value": score.value, "explanation": score.explanation}
            return score

    def _clean(self, value: Any) -> Any:
        """As the store will hold it, without secrets: a refusal may repeat the key, and the steps quote the refusal."""
        return _each_text(plain(value), self.redact)

    def _fail(self, record: Record, failure: Failure) -> None:
        record.error = self.redact(failure.message)
        record.error_class, record.error_component, record.limit = failure.kind, failure.component, failure.limit


def blank_record(run_id: str, example: Example, thread_id: str) -> Record:
    """A question's record before anything is known of its answer."""
    return Record(
        run_id=run_id,
        example_id=example.id,
        epoch=FIRST_EPOCH,
        attempt=FIRST_ATTEMPT,
        thread_id=thread_id,
        question=example.question,
        file=example.file.name if example.file else None,
        level=example.level,
        target=example.target,
        started_at=datetime.now(UTC).isoformat(),
    )


def not_run(run_id: str, example: Example) -> Record:
    """What a question counts as that the run stopped short of: never stored, and never left out of a denominator."""
    record = blank_record(run_id, example, thread_id="")
    record.error, record.error_class = "the run stopped before this question was answered", "not_run"
    record.error_component = "run"
    return record


def _complete(record: Record, trace: Trace) -> None:
    """What the trace says about the question: cost, times, state and steps."""
    judging = [each for each in trace.spans if trace.within(each, "scorer")]
    answering = [each for each in trace.spans if not trace.within(each, "scorer")]
    record.usage, record.scorer_usage = _usage(answering), _usage(judging)
    for each in answering:
        if each.kind == "agent":
            record.seconds_by_agent[each.name] = record.seconds_by_agent.get(each.name, 0.0) + each.seconds
    record.state, record.limit = trace.state, record.limit or trace.limit
    if record.error:
        record.state |= {"error": record.error, "error_component": record.error_component}
    record.trajectory = [vars(each) for each in trace.spans]


def _usage(spans: Sequence[Span]) -> Usage:
    calls = [each for each in spans if each.kind == "lm"]
    return Usage(
        lm_calls=len(calls),
        tool_calls=sum(each.kind == "tool" for each in spans),
        input_tokens=sum(each.attributes.get("input_tokens", 0) for each in calls),
        output_tokens=sum(each.attributes.get("output_tokens", 0) for each in calls),
    )


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with its texts changed, those used as keys left alone."""
    if isinstance(value, dict):
        return {key: _each_text(element, change) for key, element in value.items()}
    if isinstance(value, list):
        return [_each_text(element, change) for element in value]
    return change(value) if isinstance(value, str) else value
