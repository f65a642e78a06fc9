"""Examples → records: questions side by side, each in its own trace, within its own limits.

A failing question becomes a row with its error and never ends the batch; every finished row is in the store before the
next one starts in its place. A question that is cancelled (`eval.execution.stop_controller`) leaves no row, nor does
one that met a
used-up quota: that says nothing about the question.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import dspy

from eval.benchmarks.dataset import Sample
from eval.contamination.web_results import count_blocked_hosts, find_web_leaks
from eval.execution.budget import usage_of
from eval.execution.failure import Failure, describe, out_of_time, refusal
from eval.execution.scoring import Scoring
from eval.execution.stop_controller import QUOTA_OR_KEY, Stop
from eval.execution.tool_counts import count_tool_calls
from eval.runs.record import Record, redact
from eval.scorers.score import Scorer
from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, SampleUsage, use_context
from mas.runtime.trace import Listener, Observer, Trace, recording, span
from mas.system import Answerer

Try = tuple[Sample, SampleKey]


@dataclass(frozen=True)
class Runner:
    """How one run's questions are run; the same for each of them."""

    run_id: str
    program: Answerer
    scorer: Scorer
    concurrency: int  # questions at once
    deadline_seconds: float  # wall time of one question
    listener: Callable[[str, SampleKey], Listener]  # thread id, sample → where the trace's log lines go
    redact: Callable[[str], str]  # takes secrets out of an error message
    finished: Callable[[Record], None]  # keeps the record; called on the runner's own loop
    question: Callable[[SampleKey], SampleContext] = SampleContext  # its limits, its call log
    stop: Stop = field(default_factory=Stop)
    observer: Observer | None = None  # shows the spans of every question as they open and end
    cost_without_calls: float | None = None  # 0.0 if every call that a question can cost money by is seen here

    async def run(self, tries: Sequence[Try]) -> None:
        """Run each once, in this order; fewer if `stop` says so.

        Raises:
            what `finished` raises: the run cannot go on without its store.
        """
        await side_by_side([(self, tries)], self.stop)

    def workers(self, tries: Sequence[Try]) -> list[asyncio.Task[None]]:
        """Tasks that share the tries among them; no more than `concurrency`."""
        waiting = iter(tries)
        return [asyncio.create_task(self._worker(waiting)) for _ in range(min(self.concurrency, len(tries)))]

    async def _worker(self, waiting: Iterator[Try]) -> None:
        while self.stop.reason is None and (next_try := next(waiting, None)):
            record = await self.record_of(*next_try)
            if _cancelled():  # and the program took no notice
                return
            if record.error_class != QUOTA_OR_KEY:
                self.finished(record)
            self.stop.heed(record)

    async def record_of(self, sample: Sample, sample_key: SampleKey) -> Record:
        """Answer and score one example; whatever goes wrong with it becomes part of its record."""
        thread_id = uuid.uuid4().hex
        trace = Trace(thread_id, self.listener(thread_id, sample_key), self.observer)
        record = blank_record(self.run_id, sample, sample_key, thread_id)
        question = replace(self.question(sample_key), deadline=time.monotonic() + self.deadline_seconds)
        with recording(trace), dspy.context(trace=[]):  # DSPy's own would keep the calls of all questions, up to 10,000
            with closing(question), use_context(question):
                await self._answer(sample, record, trace, question)
            record.wall_seconds, record.waited_seconds = trace.seconds, question.usage.waited_seconds
            with closing(self._judging(question)) as judging, use_context(judging):
                await Scoring(self.scorer, self.deadline_seconds, self.redact).score(record)
        refused = question.server_refusal or judging.server_refusal
        if refused and record.error_class != QUOTA_OR_KEY:  # an agent has swallowed it
            self._fail(record, refusal(refused, trace))
        self._complete(record, trace)
        return record

    def _judging(self, question: SampleContext) -> SampleContext:
        """For the scorer's own calls: what they take is no spending of the question, and has a deadline of its own."""
        over_at = time.monotonic() + self.deadline_seconds
        return replace(question, limits=SampleLimits(), deadline=over_at, usage=SampleUsage(), _working_timeout=None)

    async def _answer(self, sample: Sample, record: Record, trace: Trace, question: SampleContext) -> None:
        failure, deadline = None, asyncio.timeout(self.deadline_seconds)
        try:
            async with deadline, question.within_working_time():
                with span("question", sample.id) as current:
                    await self._ask(sample, record)
                    current.outputs = {"answer": record.answer}
        except Exception as error:  # noqa: BLE001  the boundary of one question: its failure becomes data
            failure = describe(error, trace)
        if deadline.expired():  # whatever a program that was told to stop has made of it
            failure = out_of_time(trace, self.deadline_seconds)
        record.limit = question.limit_reached  # an agent may have answered all the same: within its limits
        if failure is not None:
            self._fail(record, failure)
            if failure.kind == "limit" and trace.answer is not None:  # it is scored on what it had arrived at
                record.answer, record.error = self.redact(trace.answer), None
                record.error_class = record.error_component = None

    async def _ask(self, sample: Sample, record: Record) -> None:
        prediction = await self.program.acall(question=sample.question, file=sample.file)
        answer = prediction.get("final_answer")
        record.answer = None if answer is None else self.redact(str(answer))
        record.reasoning_trace = self.redact(str(prediction.get("final_reasoning_trace") or ""))

    def _complete(self, record: Record, trace: Trace) -> None:
        """What the trace says about the question: cost, times, state, steps, and what the web gave away."""
        judging = [each for each in trace.spans if trace.within(each, "scorer")]
        answering = [each for each in trace.spans if not trace.within(each, "scorer")]
        record.usage, record.scorer_usage = usage_of(answering), usage_of(judging)
        if not record.usage.lm_calls:
            record.usage.cost_usd = self.cost_without_calls
        for each in answering:
            if each.kind == "agent":
                record.seconds_by_agent[each.name] = record.seconds_by_agent.get(each.name, 0.0) + each.seconds
        record.limit = record.limit or trace.limit
        told = {"error": record.error, "error_component": record.error_component} if record.error else {}
        record.state = redact({**trace.state, **told}, self.redact)
        steps = [vars(each) for each in trace.spans]
        record.leaks = redact(find_web_leaks(record.question, record.target, steps), self.redact)
        record.blocked_pages = count_blocked_hosts(steps)
        record.trajectory = redact(steps, self.redact)
        record.calls_by_tool, record.tool_errors = count_tool_calls(record.trajectory)

    def _fail(self, record: Record, failure: Failure) -> None:
        record.answer, record.reasoning_trace, record.score = None, "", None
        record.error, record.error_class = self.redact(failure.message), failure.kind
        record.error_component, record.limit = failure.component, failure.limit or record.limit


async def side_by_side(work: Sequence[tuple[Runner, Sequence[Try]]], stop: Stop) -> None:
    """Several runners at once, each with its own tries; `stop` is that of all of them.

    Raises:
        what the `finished` of any of them raises.
    """
    with dspy.context(disable_history=True):
        workers = [worker for runner, tries in work for worker in runner.workers(tries)]
        if workers:
            await stop.until_over(workers)


def blank_record(run_id: str, sample: Sample, sample_key: SampleKey, thread_id: str) -> Record:
    """A question's record before anything is known of its answer."""
    return Record(
        run_id=run_id,
        sample_id=sample.id,
        epoch=sample_key.epoch,
        attempt=sample_key.attempt,
        thread_id=thread_id,
        question=sample.question,
        file=sample.file.name if sample.file else None,
        level=sample.level,
        target=sample.target,
        started_at=datetime.now(UTC).isoformat(),
    )


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
