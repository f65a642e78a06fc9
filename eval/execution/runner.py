"""One sample → one record: the program answers in a trace of its own and within its own limits, the scorer judges."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import dspy

from eval.benchmarks.dataset import Sample
from eval.execution.scoring import Scoring
from eval.execution.termination import QUOTA_OR_KEY
from eval.runs.record import PAID, Record, Usage, build_blank_record
from eval.scorers.labels import LabelSet
from eval.scorers.score import Scorer
from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, SampleUsage, use_context
from mas.runtime.security.redaction import redact_value
from mas.runtime.trace import MISSHAPEN, Listener, Observer, Span, Trace, record_trace, span
from mas.system import Answerer

if TYPE_CHECKING:
    from eval.execution.failure import Failure

MAX_NAME_CHARS = 60  # a model may call a tool that does not exist by any name
OpenListener = Callable[..., Listener]  # of the trace of a sample, by its thread id and its key
TracedCall = tuple[Any, Mapping[str, object], dspy.Prediction]  # of a predictor, with its inputs, as DSPy traces it


@dataclass(frozen=True)
class SampleRunner:
    """Answers and scores the samples of one run, one call each."""

    run_id: str
    program: Answerer
    scorer: Scorer
    deadline_seconds: float  # wall time of one sample
    redact: Callable[[str], str]  # takes secrets out of an error message
    open_context: Callable[[SampleKey], SampleContext] = SampleContext  # limits, budget, call log
    open_listener: OpenListener | None = None
    observer: Observer | None = None  # shows the spans of every sample as they open and end
    extra_scorers: Mapping[str, Scorer] = field(default_factory=dict)  # by name; they decide nothing
    cost_without_calls: float | None = None  # 0.0 if every call that can cost money is seen here
    labels: LabelSet = field(default_factory=LabelSet)  # that the targets are

    async def run_sample(self, sample: Sample, sample_key: SampleKey, calls: list[TracedCall] | None = None) -> Record:
        """Answer and score one sample; whatever goes wrong with it becomes part of its record.

        `calls` receives those of its predictors, also of an answer that failed: optimizers learn from them.
        """
        thread_id = uuid.uuid4().hex
        listener = self.open_listener(thread_id, sample_key) if self.open_listener else None
        trace = Trace(thread_id, listener, self.observer)
        record = build_blank_record(self.run_id, sample, sample_key, thread_id)
        context = replace(self.open_context(sample_key), deadline=time.monotonic() + self.deadline_seconds)
        traced = [] if calls is None else calls  # DSPy's own trace keeps the calls of all questions, up to 10,000
        with record_trace(trace), dspy.context(trace=traced):
            with closing(context), use_context(context):
                await self._answer(sample, record, trace, context)
            record.wall_seconds, record.waited_seconds = trace.seconds, context.usage.waited_seconds
            record.state = trace.state  # a scorer may read the program's outputs
            with closing(self._open_judging(context)) as judging, use_context(judging):
                await Scoring(self.scorer, self.deadline_seconds, self.redact).score(record, sample.tags)
            for name, scorer in self.extra_scorers.items():
                # In a context of its own: the refusal of an extra judge does not end the run.
                with closing(self._open_judging(context)) as extra, use_context(extra):
                    await Scoring(scorer, self.deadline_seconds, self.redact, name).score(record, sample.tags)
        refused = context.server_refusal or judging.server_refusal
        if refused and record.error_class != QUOTA_OR_KEY:  # an agent has swallowed it
            from eval.execution.failure import describe_refusal

            self._fail(record, describe_refusal(refused, trace))
        self._complete(record, trace)
        return record

    def _open_judging(self, context: SampleContext) -> SampleContext:
        """Return the context of the scorer's calls: without the limits of the sample, with a deadline of its own."""
        deadline = time.monotonic() + self.deadline_seconds
        return replace(context, limits=SampleLimits(), deadline=deadline, usage=SampleUsage())

    async def _answer(self, sample: Sample, record: Record, trace: Trace, context: SampleContext) -> None:
        raised, deadline = None, asyncio.timeout(self.deadline_seconds)
        try:
            async with deadline:
                with span("question", sample.id) as current:
                    await self._ask(sample, record)
                    current.outputs = {"answer": record.answer}
        except Exception as error:  # noqa: BLE001  the boundary of one sample: its failure becomes data
            raised = error
        record.limit = context.limit_reached  # an agent may have answered all the same: within its limits
        if raised is not None or deadline.expired() or trace.failure is not None:
            self._explain_failure(record, trace, raised, deadline.expired())

    def _explain_failure(self, record: Record, trace: Trace, error: Exception | None, is_late: bool) -> None:
        from eval.execution.failure import describe_failure, describe_timeout  # loaded for the first failure

        if is_late:  # whatever the cancelled program did
            failure = describe_timeout(trace, self.deadline_seconds)
        elif error is not None:
            failure = describe_failure(error, trace)
        else:  # the answer only reports it
            assert trace.failure is not None
            failure = describe_failure(trace.failure[0], trace, trace.failure[1])
        self._fail(record, failure)
        if failure.kind == "limit" and trace.answer is not None:  # it is scored on what it had arrived at
            record.answer, record.error = self.redact(trace.answer), None
            record.error_class = record.error_component = record.error_details = None

    async def _ask(self, sample: Sample, record: Record) -> None:
        prediction = await self.program.acall(question=sample.question, file=sample.file, inputs=sample.inputs or None)
        answer = prediction.get("final_answer")
        record.answer = None if answer is None else self.redact(str(answer))
        record.reasoning_trace = self.redact(str(prediction.get("final_reasoning_trace") or ""))

    def _complete(self, record: Record, trace: Trace) -> None:
        """Add what the trace tells: cost, times, state, steps, and web results that leak the answer."""
        judging = [each for each in trace.spans if trace.find_span(each, "scorer")]
        answering = [each for each in trace.spans if not trace.find_span(each, "scorer")]
        record.usage, record.scorer_usage = sum_usage(answering), sum_usage(judging)
        if not record.usage.lm_calls:
            record.usage.cost_usd = self.cost_without_calls
        for each in answering:
            if each.kind == "agent":
                record.seconds_by_agent[each.name] = record.seconds_by_agent.get(each.name, 0.0) + each.seconds
        record.limit = record.limit or trace.limit
        failed = {"error": record.error, "error_component": record.error_component} if record.error else {}
        record.state = redact_value({**trace.state, **failed}, self.redact)
        steps = [vars(each) for each in trace.spans]
        is_label = self.labels.find(record.target) is not None
        if record.usage.tool_calls:
            from eval.contamination.web_results import find_web_leaks

            record.leaks = redact_value(find_web_leaks(record.question, record.target, steps, is_label), self.redact)
        record.trajectory = redact_value(steps, self.redact)
        record.calls_by_tool, record.tool_errors, record.first_tool_errors = _count_tool_calls(record.trajectory)

    def _fail(self, record: Record, failure: "Failure") -> None:
        record.answer, record.reasoning_trace, record.score = None, "", None
        failure.write_to(record, self.redact)


def sum_usage(spans: Sequence[Span]) -> Usage:
    """Return the sums over the spans of kind "lm" and "tool"; their attributes are set by the model client."""
    calls = [each for each in spans if each.kind == "lm"]
    tools = [each for each in spans if each.kind == "tool"]
    # A failed call without a note cost nothing: see `mas/llm/engine.py` for those that may cost something.
    costs = [each.attributes.get("cost_usd", 0.0 if each.error else None) for each in calls]
    known = [cost for cost in costs if cost is not None]
    misshapen = sum(event["name"] in MISSHAPEN for each in spans for event in each.events)

    def count(attribute: str, among: Sequence[Span] = calls) -> int:
        return sum(bool(each.attributes.get(attribute)) for each in among)

    def total(attribute: str) -> int:
        return sum(each.attributes.get(attribute) or 0 for each in calls)

    return Usage(
        lm_calls=len(calls),
        retries=count("retry"),
        misshapen_replies=count("repaired_arguments") + misshapen,
        replayed_calls=count("replayed"),
        tool_calls=len(tools),
        replayed_tool_calls=count("replayed", tools),
        input_tokens=total("input_tokens"),
        cached_input_tokens=total("cached_input_tokens"),
        output_tokens=total("output_tokens"),
        cost_usd=sum(known) if calls and len(known) == len(costs) else None,
        known_cost_usd=sum(known),
        unknown_cost_calls=len(costs) - len(known),
    )


def add_unseen_usage(record: Record, paid: Usage) -> Usage:
    """Return the record's usage with what its sample was charged for, in all sessions, beyond its trajectory.

    That is what an earlier session paid for and nobody asked for again: the request was cut off, or is now another one.
    """
    notes = [each["attributes"] for each in record.trajectory if each["kind"] == "lm"]
    charged = [each for each in notes if "cost_usd" in each]  # now, or before a replay
    seen = {name: sum(each.get(name) or 0 for each in charged) for name in PAID}
    seen["lm_calls"] = len(charged)
    seen["known_cost_usd"] = sum(each["cost_usd"] or 0.0 for each in charged)
    seen["unknown_cost_calls"] = sum(each["cost_usd"] is None for each in charged)
    unseen = {name: max(0, getattr(paid, name) - seen[name]) for name in PAID}
    if not unseen["lm_calls"]:
        return record.usage
    usage = replace(record.usage, known_cost_usd=record.usage.at_least_usd)
    for name, value in unseen.items():
        setattr(usage, name, getattr(usage, name) + value)
    usage.cost_usd = None if usage.unknown_cost_calls else usage.known_cost_usd
    return usage


def _count_tool_calls(steps: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
    """Return the calls by tool, and of each tool that failed how often it did, and its first error."""
    calls, errors, first = Counter[str](), Counter[str](), dict[str, str]()
    for step in steps:
        if step["kind"] == "tool":
            name = str(step["name"])[:MAX_NAME_CHARS]
            calls[name] += 1
            if error := step.get("error"):
                errors[name] += 1
                first.setdefault(name, str(error).partition(": ")[2])
    return dict(calls), dict(errors), first
