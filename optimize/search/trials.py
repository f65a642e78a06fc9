"""Trials: one question, answered by one program and scored, as often as an optimizer asks and paid for once.

Each first answer of a session is a metric call of the budget and a row of the store. A trial's steps are the calls that
an optimizer learns from: of an agent with tools only the one that ends its work, whose history holds those before. A
reply that could not be parsed is a step whose output is `unreadable_reply`.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy

from eval.benchmarks.dataset import Sample
from eval.execution.budget import Account
from eval.execution.executors.local import AnsweredTrial, Inputs, NamedCall
from eval.execution.run_session import Session
from eval.execution.scoring import SCORER
from eval.execution.termination import QUOTA_OR_KEY, SameErrors, describe_quota
from eval.runs.logs import DIGEST_CHARS
from eval.runs.record import Record, build_blank_record
from eval.runs.store import RETRIED, StoreError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program

Key = tuple[str, str, int]  # digest of the prompts, sample id, epoch
Span = dict[str, Any]  # as a record's trajectory holds it
Step = NamedCall
T = TypeVar("T")

UNREADABLE = "unreadable_reply"
_PARSE_ERRORS = ("AdapterParseError", "EmptyReplyError", "TruncatedReplyError")  # names that begin a span's error

MAX_KEPT_ANSWERS = 400  # in memory, of a tenth of a megabyte and more each; older ones are replayed if asked for again
MIN_FAILURES = 10  # answers in a row that a server fails; a shorter outage costs no more than that
MIN_FAILURES_AT_END = 5  # of the last answers of work that has ended
MAX_SAME_ERRORS = 5  # of the first answers; as `run.max_same_errors` of an evaluation
_OF_NO_PROMPT = ("infrastructure", "internal", "tool")  # error classes that no other prompt can change
_REQUEST = "request"  # input of the span of one of our agents


@dataclass(frozen=True)
class Trial:
    """The answer to one question, as the metric and the optimizer read it."""

    record: Record
    steps: list[Step] = field(default_factory=list)
    completed: bool = True  # False: interrupted or not begun; the score means nothing


class Trials:
    """The answers of a session, shared by all copies of a student. Thread-safe, except on the agents' event loop."""

    def __init__(self, session: Session, samples: Mapping[str, Sample]) -> None:
        self.samples, self.budget, self.concurrency = samples, session.budget, session.config.run.concurrency
        self.defect: BaseException | None = None  # of the harness itself; `check` raises it
        self.n_completed = self.n_metric_errors = 0  # different answers of this session, replayed ones included
        self.metric_error: str | None = None  # the first
        self.show: Callable[[Record], None] = lambda record: None  # is called with each of them
        self._session, self._stop = session, session.stop
        self._answering = session.open_answering()
        self._lock = threading.Lock()
        self._asking: defaultdict[Key, threading.Lock] = defaultdict(threading.Lock)
        self._kept: dict[Key, Trial] = {}  # completed ones, the oldest first
        self._asked: set[Key] = set()
        self._failures, self._same_errors = FailuresInARow(self.concurrency), SameErrors(MAX_SAME_ERRORS)

    def __deepcopy__(self, memo: dict[int, object]) -> "Trials":
        return self

    @property
    def stop_reason(self) -> str | None:
        """The reason why no more requests are sent; None while the search may go on."""
        return self._stop.reason

    def stop(self, reason: str) -> None:
        """Send no more requests; the first reason is kept."""
        self._stop.start_nothing(reason)

    def close(self) -> None:
        """End what answers, until the next question."""
        run_blocking(self._answering.close())

    def check(self) -> None:
        """Raise the defect of the harness that ended the search, if there was one; stop the run if the server did."""
        if self.defect is not None:
            raise self.defect
        if reason := self._failures.find_at_end():
            self.stop(reason)

    def run(self, program: Program, candidate: str, sample_id: str, epoch: int = 1) -> Trial:
        """Return the trial of a question, from memory or by answering it; `candidate`: digest of its prompts."""
        key = (candidate, sample_id, epoch)
        with self._lock:
            asking = self._asking[key]
        with asking:
            return self._kept.get(key) or self._try(program, key)

    def _try(self, program: Program, key: Key) -> Trial:
        candidate, sample_id, epoch = key
        sample, sample_key = self.samples[sample_id], SampleKey(sample_id, epoch)
        is_new = key not in self._asked
        if self.stop_reason is None and self._take_metric_call(key):
            try:
                answered = run_blocking(self._supervise(self.answer(program, sample, sample_key, candidate)))
                if answered is not None and answered.record.error_class == QUOTA_OR_KEY:
                    self.stop(describe_quota(answered.record))
                elif answered is not None:
                    steps = select_steps(program, answered.calls, answered.record.trajectory)
                    return self._keep(key, Trial(answered.record, steps), is_new)
            except StoreError as error:
                self.stop(str(error))
            except Exception as error:  # noqa: BLE001  optimizers swallow what is raised, so `check` raises it
                self.defect = self.defect or error
                self.stop(f"the answering itself failed: {error}")
        record = build_blank_record(self._session.info.run_id, sample, sample_key, thread_id="")
        record.score, record.explanation = 0.0, f"not asked: {self.stop_reason or 'no budget is left'}"
        return Trial(record, completed=False)

    def _take_metric_call(self, key: Key) -> bool:
        """Count a question of the first epoch once, also if it is asked again: interrupted, or no longer in memory."""
        with self._lock:
            if key in self._asked or key[2] > 1 or self.budget.take_metric_call():
                self._asked.add(key)
            return key in self._asked

    def _keep(self, key: Key, trial: Trial, is_new: bool) -> Trial:
        """Store a score with its cost: what was asked and answered is no business of who reads a search's folder."""
        row = replace(
            trial.record, variant=key[0], question="", target=None, answer=None, reasoning_trace="", explanation="",
            error_details=None, state={}, trajectory=[],
        )  # fmt: skip
        if not self._session.store.has_row(row):
            self._session.store.write(row)
        with self._lock:
            self._kept[key] = trial
            if len(self._kept) > MAX_KEPT_ANSWERS:
                del self._kept[next(iter(self._kept))]
            if is_new:
                self._count(trial.record)
        return trial

    def _count(self, record: Record) -> None:
        self.n_completed += 1
        self.show(record)
        if reason := self._failures.observe(record):
            self.stop(reason)
        same = self._same_errors.observe(record)
        if same and record.error_class in _OF_NO_PROMPT:
            self.stop(same)
        if record.error_class == SCORER:
            self.n_metric_errors += 1
            self.metric_error = self.metric_error or record.error

    async def _supervise(self, answering: Coroutine[object, object, T]) -> T | None:
        """Return what is answered, or None if it is cancelled. Runs on the agents' loop."""
        with dspy.context(disable_history=True):
            work = asyncio.ensure_future(answering)
        await self._stop.supervise([work])  # type: ignore[list-item]
        return work.result() if work.done() and not work.cancelling() and not work.cancelled() else None

    async def answer(
        self, program: Program, sample: Sample, sample_key: SampleKey, candidate: str
    ) -> AnsweredTrial | None:
        """Answer and score a question anew; return None if the budget has refused one of its requests."""
        accounts: list[Account] = []

        def open_context(sample_key: SampleKey) -> SampleContext:
            context = self._session.open_context(sample_key)
            if isinstance(context.budget, Account):
                accounts.append(context.budget)
            return context

        answered = await self._answering.answer(program, sample, sample_key, open_context)
        if any(each.has_refused for each in accounts):
            return None
        if self._session.answers:
            self._session.answers.finish(answered.record, prompts_sha256=candidate[:DIGEST_CHARS])
        return answered


class FailuresInARow:
    """Detects a model's server that is down from the answers it failed in a row. Not thread-safe."""

    def __init__(self, concurrency: int) -> None:
        """`concurrency`: answers that fail together."""
        self._most = max(MIN_FAILURES, 2 * concurrency)
        self._number, self._error = 0, ""  # of the last ones

    def observe(self, record: Record) -> str | None:
        """Count a record; return the reason to stop if it was one failure too many."""
        self._number, self._error = (self._number + 1 if record.error_class in RETRIED else 0), record.error or ""
        return self._describe(self._most)

    def find_at_end(self) -> str | None:
        """Return why the server may have ended work that has ended: it failed the last answers."""
        return self._describe(MIN_FAILURES_AT_END)

    def _describe(self, least: int) -> str | None:
        if self._number < least:
            return None
        return f"the model's server has failed {self._number} answers in a row ({self._error})"


def select_steps(program: Program, calls: Sequence[NamedCall], spans: Sequence[Span]) -> list[Step]:
    """Return the steps of one answer; `spans` is the trajectory of its record."""
    predictors = dict(program.named_predictors())
    steps: list[Step] = [  # without a conversation, a tool call is what the predictor returns
        (name, inputs, outputs)
        for name, inputs, outputs in calls
        if not (_calls_tools(outputs) and any(isinstance(value, dspy.History) for value in inputs.values()))
    ]
    for agent in spans:
        name, is_failed = agent["name"], (agent["error"] or "").startswith(_PARSE_ERRORS)
        if agent["kind"] == "agent" and is_failed and name in predictors:
            calls_of_agent = [span for span in spans if span["kind"] == "lm" and span["parent"] == agent["id"]]
            for call in calls_of_agent[-1:]:
                reply = "".join(part.get("text", "") for part in call["outputs"].get("parts", ()))
                unreadable = dspy.Prediction(**{UNREADABLE: reply})
                steps.append((name, _request(predictors[name], agent["inputs"]), unreadable))
    return steps


def keep_last_steps(steps: Sequence[Step]) -> list[Step]:
    """Keep the last readable step of each agent: an earlier one was rejected, and is no example to follow.

    A step that is a tool call cannot be an example (`mas.prompt_sets.demos`).
    """
    readable = [step for step in steps if UNREADABLE not in step[2] and not _calls_tools(step[2])]
    last = {step[0]: step for step in readable}
    return [step for step in readable if last[step[0]] is step]


def _calls_tools(outputs: dspy.Prediction) -> bool:
    calls = outputs.get("tool_calls")
    return bool(calls is not None and calls.tool_calls)


def _request(predictor: dspy.Predict, given: Inputs) -> Inputs:
    """Return the inputs of the call: of our agents the request, of a user's predictor all fields."""
    fields = predictor.signature.input_fields
    if _REQUEST in given and _REQUEST not in fields:
        return {next(iter(fields)): given[_REQUEST]}
    return {name: value for name, value in given.items() if name in fields} or {next(iter(fields)): ""}
