"""Trials: one example, answered by one program and scored, as often as an optimiser asks and paid for once.

The same prompts, example and epoch again are answered from memory, and of several threads that ask at once only one
goes to the model. Each first answer of a session is a metric call of the budget, and a row of `trials.db`. A trial that
the budget, Ctrl-C or the model's provider kept from its end has `reached=False`: it is scored 0 at once, is kept
nowhere, and means nothing.

    trials = Trials(runner, {"q1": example}, purse, folder / "trials.db")
    trials.ask(program, digest(prompts), "q1").record.score      # 1.0
    trials.answers(student, ["q1", "q2"])[0].record.score        # the same, several side by side
    trials.over                                                  # None, or why nothing more is asked
"""

import asyncio
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import dspy

from eval.benchmarks.dataset import Sample
from eval.execution.runner import Runner, blank_record
from eval.execution.scoring import SCORER
from eval.execution.stop_controller import QUOTA_OR_KEY
from eval.runs.record import Record
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import LimitReachedError, Payment, RunBudget, SampleContext, SampleKey
from mas.system import Program
from optimize.search.budget import Spend
from optimize.search.server_failures import FailuresInARow
from optimize.search.steps import Step, extract_steps

Key = tuple[str, str, int]  # digest of the prompts, sample id, epoch

_SCHEMA = """
CREATE TABLE IF NOT EXISTS trials(
    candidate TEXT NOT NULL,     -- digest of its prompts
    sample_id TEXT NOT NULL,
    epoch INT NOT NULL,
    score REAL,                  -- NULL: in error
    error_class TEXT,
    lm_calls INT NOT NULL,       -- replayed ones included
    cost_usd REAL,               -- NULL: unknown
    wall_seconds REAL NOT NULL,
    PRIMARY KEY(candidate, sample_id, epoch)
)"""

_ADD = """
INSERT INTO trials VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
score = excluded.score, error_class = excluded.error_class, lm_calls = excluded.lm_calls, cost_usd = excluded.cost_usd,
wall_seconds = excluded.wall_seconds WHERE trials.error_class IS NOT NULL"""


class TrialRows:
    """Any thread. Written without waiting for the disk: kill -9 loses nothing."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            sqlite3.Error, OSError: the file cannot be used.
        """
        self._turns = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(_SCHEMA)

    def add(self, key: Key, record: Record) -> None:
        usage = record.usage
        found = (record.score, record.error_class, usage.lm_calls, usage.cost_usd, record.wall_seconds)
        with self._turns:
            self._database.execute(_ADD, (*key, *found))

    def close(self) -> None:
        with self._turns:
            self._database.close()


MAX_KEPT_ANSWERS = 400  # in memory, with trajectory and steps; the oldest go first and are replayed if asked for again
_LAST_WORDS_SECONDS = 5.0  # for what is cancelled, and takes no notice


class Purse(Protocol):
    """What is used of `optimize.search.budget.BudgetLedger`; from any thread."""

    def take_metric_call(self) -> bool: ...

    def spend(self) -> Spend: ...


@dataclass(frozen=True)
class Trial:
    """What a metric reads."""

    record: Record
    steps: list[tuple[Any, dict[str, Any], dspy.Prediction]] = field(default_factory=list)  # predictor, inputs, outputs
    reached: bool = True  # False: it was not asked, or not to its end; the score means nothing


class Student(Protocol):
    """What is used of `optimize.search.student.Student`."""

    def trial(self, sample_id: str, epoch: int, counted: bool) -> Trial: ...


@dataclass(frozen=True)
class Answered:
    """The same with steps that name their agents, for any copy of the program."""

    record: Record
    steps: list[Step] = field(default_factory=list)
    reached: bool = True


class Trials:
    """Shared by all copies of a student. Any thread, but the agents' own event loop."""

    def __init__(
        self,
        runner: Runner,
        samples: Mapping[str, Sample],
        ledger: Purse,
        path: Path,
        stopped: Callable[[], str | None] = lambda: None,
        kept_answers: int = MAX_KEPT_ANSWERS,
    ) -> None:
        """
        Args:
            runner: its program counts for nothing; its `question` holds limits, call log and what is paid.
            stopped: why nothing more is to be asked, as of now.
        """
        self.ledger, self.samples = ledger, samples
        self.reason: str | None = None  # why nothing more is asked, if neither budget nor caller is the reason
        self.failure: BaseException | None = None  # a defect of the harness itself; whoever searches is to raise it
        self.n_reached = self.n_metric_errors = 0  # different answers of this session, replayed ones included
        self.metric_error: str | None = None  # the first
        self._runner, self._stopped, self._kept_answers = runner, stopped, kept_answers
        self._turns = threading.Lock()
        self._kept: OrderedDict[Key, Answered] = OrderedDict()
        self._flights: dict[Key, Future[Answered]] = {}
        self._cancelled: asyncio.Future[None] | None = None  # of the agents' loop
        self._counted: set[Key] = set()
        self._reached: set[Key] = set()
        self._rows = TrialRows(path)
        self._failures = FailuresInARow(runner.concurrency)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Trials":
        return self

    @property
    def over(self) -> str | None:
        """Why nothing more is asked; None: the search may go on."""
        return self.reason or self._stopped()

    def end(self, reason: str) -> None:
        """Ask nothing more; the first reason counts."""
        self.reason = self.reason or reason

    def cancel(self) -> None:
        """Ask nothing more, and break off what is being asked."""
        self.end("cancelled")
        background_loop().call_soon_threadsafe(self._cancel_now)

    def close(self) -> None:
        self._rows.close()

    def answers(self, student: Student, ids: Sequence[str], epoch: int = 1, counted: bool = True) -> list[Trial]:
        """Each example answered once by that student, as many at once as the runner has `concurrency`.

        Raises:
            what broke, if that is not a question's own failure.
        """
        with ThreadPoolExecutor(max(1, min(self._runner.concurrency, len(ids)))) as pool:
            waiting = [pool.submit(copy_context().run, student.trial, each, epoch, counted) for each in ids]
            trials = [each.result() for each in waiting]
        self.check()
        return trials

    def check(self) -> None:
        """
        Raises:
            what broke, if that is not a question's own failure.
        """
        if self.failure is not None:
            raise self.failure

    def ask(self, program: Program, candidate: str, sample_id: str, epoch: int = 1, counted: bool = True) -> Answered:
        """
        Args:
            program: the system, with the prompts whose digest is `candidate`.
            counted: as a metric call.
        """
        key = (candidate, sample_id, epoch)
        with self._turns:
            if (kept := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return kept
            flight = self._flights.get(key)
            if mine := flight is None:
                flight = self._flights[key] = Future()
        if not mine:
            return flight.result()
        try:
            answered = self._asked(program, key, counted)
        except BaseException as error:
            self._land(key)
            flight.set_exception(error)
            raise
        self._land(key, answered)
        flight.set_result(answered)
        return answered

    def _land(self, key: Key, answered: Answered | None = None) -> None:
        with self._turns:
            del self._flights[key]
            if answered is None or not answered.reached:
                return
            self._kept[key] = answered
            if len(self._kept) > self._kept_answers:
                self._kept.popitem(last=False)
            if key not in self._reached:
                self._reached.add(key)
                self._note(answered.record)

    def _note(self, record: Record) -> None:
        self.n_reached += 1
        if reason := self._failures.heed(record):
            self.end(reason)
        if record.error_class == SCORER:
            self.n_metric_errors += 1
            self.metric_error = self.metric_error or record.error

    def _asked(self, program: Program, key: Key, counted: bool) -> Answered:
        _, sample_id, epoch = key
        sample, sample_key = self.samples[sample_id], SampleKey(sample_id, epoch)
        if self.over is None and (not counted or self._may_count(key)):
            try:
                if (answered := self._answered(program, sample, sample_key)) is not None:
                    self._rows.add(key, answered.record)
                    return answered
            except Exception as error:  # noqa: BLE001  no optimiser lets it through: `check` raises it after the search
                self.failure = self.failure or error
                self.end(f"the answering itself failed: {error}")
        record = blank_record(self._runner.run_id, sample, sample_key, thread_id="")
        record.score, record.explanation = 0.0, f"not asked: {self.over or 'no budget is left'}"
        return Answered(record, reached=False)

    def _may_count(self, key: Key) -> bool:
        """Of one that has been in memory and is asked again nothing more is taken."""
        with self._turns:
            if key not in self._counted and self.ledger.take_metric_call():
                self._counted.add(key)
            return key in self._counted

    def _answered(self, program: Program, sample: Sample, sample_key: SampleKey) -> Answered | None:
        """None: it was kept from its end."""
        noting, refused = _Noting(program), threading.Event()
        runner = replace(self._runner, program=noting, question=lambda sample_key: self._question(sample_key, refused))
        try:
            record = run_blocking(self._watched(runner, sample, sample_key))
        except CancelledError:
            return None
        if record is None or refused.is_set():
            return None
        if record.error_class == QUOTA_OR_KEY:
            self.end(f"the model's provider takes no more calls, for want of quota or for the key ({record.error})")
            return None
        return Answered(record, extract_steps(program, noting.trace, record.trajectory))

    def _question(self, sample_key: SampleKey, refused: threading.Event) -> SampleContext:
        """The question; that the budget refuses it a request is noted, since an agent may swallow the error."""
        question = self._runner.question(sample_key)

        return replace(question, budget=_WatchedBudget(question.budget, refused))

    async def _watched(self, runner: Runner, sample: Sample, sample_key: SampleKey) -> Record | None:
        """On the agents' loop: the record, or None if it is cancelled."""
        if self._cancelled is None:
            self._cancelled = asyncio.get_running_loop().create_future()
        with dspy.context(disable_history=True):
            work = asyncio.ensure_future(runner.record_of(sample, sample_key))
        waits: set[asyncio.Future[Any]] = {work, self._cancelled}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=_LAST_WORDS_SECONDS)

    def _cancel_now(self) -> None:
        if self._cancelled is None:
            self._cancelled = asyncio.get_running_loop().create_future()
        if not self._cancelled.done():
            self._cancelled.set_result(None)


@dataclass(frozen=True)
class _WatchedBudget:
    """A budget that notes a refusal, since an agent may swallow the error."""

    budget: RunBudget
    refused: threading.Event

    def reserve(self) -> None:
        try:
            self.budget.reserve()
        except LimitReachedError:
            self.refused.set()
            raise

    def settle(self, payment: Payment | None) -> None:
        self.budget.settle(payment)


class _Noting:
    """The program, with the trace of its answer noted down; also of one that failed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.trace: list[Any] = []

    async def acall(self, **inputs: Any) -> Any:
        try:
            return await self.program.acall(**inputs)
        finally:
            self.trace = list(dspy.settings.trace or ())
