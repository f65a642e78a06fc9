"""One session of a run, of evaluating as of tuning: its folder, its program, its budget, and how it stops and ends.

with open_session(SessionRequest(kind="eval", name="gaia", config=config, …), output) as session:
    session.begin(info, samples)
    reason = session.run(pending)       # None: all of them were answered
    session.end(reason)
"""

import functools
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eval.benchmarks.dataset import Sample
from eval.cli.command import get_signal_name
from eval.config.evaluation import EvalConfig, LocalSettings, remove_passwords
from eval.execution.console import Output, RunProgress, open_resources, print_notes
from eval.execution.executors.local import Answering, PendingSample, create_answering, relax_gc, run_side_by_side
from eval.execution.runner import add_unseen_usage
from eval.execution.termination import StopController
from eval.runs.call_log import CallLog
from eval.runs.folder import DATABASE, keep_prompts, make_run_folder, read_origin
from eval.runs.logs import RunLogs, log_parts, measure_peak_memory_mb
from eval.runs.own_runs import note_run, refuse_unreadable
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import (
    SILENT,
    RunInfo,
    RunState,
    SessionInfo,
    TaskInfo,
    dump_config,
    find_tuning_use,
    select_run_overrides,
)
from eval.runs.store import RunStore, StoreError, list_pending
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import Payment, RunBudget, SampleContext, SampleKey, SampleLimits
from mas.runtime.security.redaction import build_redactor
from mas.system import Program, list_critics, read_program_digest

if TYPE_CHECKING:
    from eval.execution.budget import Budget, BudgetSettings
    from eval.execution.executors.cluster.connection import RunCluster


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    config: EvalConfig
    prompts: PromptSet | None
    command: Sequence[str] = ()  # the overrides as typed
    samples: Sequence[Sample] = ()  # all that the program may answer
    kind: Literal["eval", "optimize"] = "eval"  # folder under outputs/ of a new run
    name: str = ""  # part of the name of that run's folder
    resumed: Path | None = None  # folder of the run that is resumed
    change_program: Callable[[Program], None] | None = None  # called before it answers anything


@contextmanager
def open_session(request: SessionRequest, output: Output) -> Iterator["Session"]:
    """Build the program, then make the folder of the run, or take that of a resumed one, and lock it.

    In this order, a mistake in the program leaves no folder behind. UserError: the program cannot be built, the folder
    cannot be written, or another process uses it.
    """
    config = request.config
    with open_resources(config) as (resources, notes), ExitStack() as stack:
        program, cluster = config.system.build(config.model, request.prompts, resources), None
        if request.change_program is not None:
            request.change_program(program)
        if not isinstance(config.executor, LocalSettings):
            from eval.execution.executors.cluster.connection import open_cluster

            cluster = stack.enter_context(open_cluster(config, request.samples))
        folder = request.resumed or make_run_folder(request.kind, request.name, config.run.dir)
        try:
            store = stack.enter_context(RunStore(folder / DATABASE, redact=build_redactor(tuple(config.secrets()))))
        except StoreError as error:
            raise UserError(f"{error}.") from error
        limits = (config.run.drain_seconds, config.run.max_errors, config.run.max_seconds, config.run.max_same_errors)
        stop = StopController(*limits, say=lambda line: output.print(line, error=True))
        session = Session(request, program, store, stop, output, stack)
        session.notes, session.cluster = notes, cluster
        yield session


def describe_run(request: SessionRequest, stored: dict[str, Any], task: TaskInfo) -> RunInfo:
    """Return what is known of a run of either kind before it begins; `stored`: its configuration without secrets."""
    config, prompts = request.config, request.prompts
    overrides = map(remove_passwords, select_run_overrides(request.command))
    return RunInfo(
        config=stored,
        task=task,
        system=config.system.name,
        model=config.model_name,
        simulated=config.simulated,
        prompts_name=prompts.name if prompts else None,
        prompts_sha256=digest(prompts) if prompts else "",
        critics=list_critics(config.system),
        origin=read_origin(),
        program_sha256=read_program_digest(config.system),
        command=[each for each in overrides if config.redact(each) == each],  # a secret is given again when resuming
    )


@dataclass(frozen=True)
class _Account:
    """Account of an answer of an evaluation, whose budget refuses no request."""

    pay: Callable[[Payment], None]

    def reserve(self) -> None: ...

    def settle(self, payment: Payment | None) -> None:
        if payment is not None and not payment.refused:
            self.pay(payment)


class Session:
    """One session of a run, from its first entry in the run's folder to its last."""

    info: RunInfo
    state: RunState  # the course of the run, with this session
    answers: RunLogs
    budget: "Budget"  # of a tuning run
    notes: Sequence[str] = ()  # for the terminal, once it begins
    cluster: "RunCluster | None" = None  # that answers; None: this process does

    def __init__(
        self,
        request: SessionRequest,
        program: Program,
        store: RunStore,
        stop: StopController,
        output: Output,
        stack: ExitStack,
    ) -> None:
        """`stop`: runs that end together share one. `stack`: closes what is opened."""
        self.config, self.prompts, self.program = request.config, request.prompts, program
        self.store, self.folder = store, store.path.parent
        self.stop, self.output, self._stack = stop, output, stack
        self.call_log = CallLog(store)
        self._spent_usd, self._lock = 0.0, threading.Lock()  # in all sessions

    def begin(
        self,
        info: RunInfo,
        questions: Sequence[Sample] = (),
        changes: Mapping[str, str] | None = None,
        budget: "BudgetSettings | None" = None,
    ) -> None:
        """Write everything that a run's folder keeps before the first sample, and open logs and budget.

        Of `info`, id, beginning and sweep are those that the store has. `questions`: none in tuning, whose phases
        choose them. `changes` of its configuration, on purpose: option → "old → new". `budget`: of a tuning run.
        UserError: the budget of an evaluation is used up, or the run was made elsewhere and cannot be read.
        StoreError, OSError: the folder cannot be written.
        """
        store, config, prompts = self.store, self.config, self.prompts
        with refuse_unreadable(self.folder):
            before, now, state = store.read_info(), _now(), _close_silent_session(store)
            if budget is None:
                self._check_cost()
            else:
                from eval.execution.budget import open_budget

                self.budget = open_budget(budget, store, self.call_log, state.wall_seconds)
        planned = [PlannedQuestion.of(sample) for sample in questions]
        if planned != store.read_plan():  # of this run, or of a process that died before its run began
            store.write_plan(planned)
        (self.folder / "config.yaml").write_text(dump_config(info.config), encoding="utf-8")
        if prompts is not None:
            keep_prompts(self.folder, prompts)
        self.info = replace(
            info,
            run_id=before.run_id or info.run_id or uuid.uuid4().hex[:12],
            started_at=before.started_at or now,
            sweep=info.sweep or before.sweep,
            tuning_use=find_tuning_use(prompts, planned, info.task.file_sha256),
            tools={agent: sorted(box.tools) for agent, box in self.program.toolboxes.items()},
        )
        session = SessionInfo(now, changes=dict(changes or {}))
        self.state = replace(state, sessions=[*state.sessions, session], finished=False, unfinished=None)
        self._began, self._seconds_before = time.monotonic(), state.wall_seconds
        note_run(self.info.run_id, self.folder, info.command or ())
        store.write_info(self.info)
        store.write_state(self.state)
        logs = RunLogs(self.folder, config.secrets(), config.log.level, self.stop.stop_now, config.log.terminal)
        self.answers = self._stack.enter_context(logs)
        log_parts(logs.entry_point, info.system, info.config, prompts, self.program)
        print_notes(self.notes, self.output.print)

    def _check_cost(self) -> None:
        usd, spent = self.config.run.max_cost_usd, self.store.cost_usd() + self.call_log.sum_total().known_cost_usd
        if usd is not None and spent >= usd:
            raise UserError(f"the run has already spent ${spent:.4f} of run.max_cost_usd={usd:g}; give it more.")
        self._spent_usd = spent

    def update(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self.store.write_state(self.state)

    def end(self, stopped: str | None) -> None:
        *earlier, last = self.state.sessions
        peak, paid = measure_peak_memory_mb(), self.call_log.sum_total()
        self.update(
            unfinished=asdict(paid) if paid.lm_calls and self.info.tuning is None else None,
            sessions=[*earlier, replace(last, ended_at=_now(), stopped=stopped, peak_memory_mb=peak)],
            finished=stopped is None,
            wall_seconds=self._seconds_before + time.monotonic() - self._began,
        )

    def open_context(self, key: SampleKey) -> SampleContext:
        """Return limits, budget and kept replies of an answer, or of tuning's reflection."""
        config, limits, replies = self.config, self.config.limits, self.call_log.for_sample(key)
        account: RunBudget = _Account(functools.partial(self._pay, key))
        results = self.call_log.for_tools() if config.cache.tools == "run" else None
        if self.info.tuning is not None:
            from eval.execution.budget import Account

            is_reflection = not key.epoch
            account = Account(self.budget, functools.partial(self.call_log.pay, key), is_reflection)
            limits, results = SampleLimits() if is_reflection else limits, replies
        return SampleContext(key, limits, account, replies, results)

    def _pay(self, key: SampleKey, payment: Payment) -> None:
        """Record a payment of an evaluation, and stop the run once it has spent `run.max_cost_usd`."""
        self.call_log.pay(key, payment)
        usd = self.config.run.max_cost_usd
        with self._lock:
            before, self._spent_usd = self._spent_usd, self._spent_usd + (payment.cost_usd or 0.0)
        if usd is not None and before < usd <= self._spent_usd:
            self.stop.stop_now(f"the run has spent ${self._spent_usd:.4f} (run.max_cost_usd={usd:g})")

    def open_answering(self) -> Answering:
        if self.cluster is None:
            return create_answering(self.config, self.program, self.prompts, self.info, self.answers)
        from eval.execution.executors.cluster.ray_executor import RayAnswering, SampleHooks  # loads Ray

        hooks = SampleHooks(self.folder, self.answers, self.call_log.read_replies)
        return RayAnswering(self.cluster, self.config, self.prompts, self.info, hooks, self.stop)

    def list_pending(self, retry_errors: bool) -> list[SampleKey]:
        ids = [planned.id for planned in self.store.read_plan()]
        return list_pending(ids, self.config.run.epochs, self.store.read_last_attempts(), retry_errors)

    def run(self, pending: Sequence[PendingSample], after_first: Callable[[Record], None] | None = None) -> str | None:
        """Answer samples, keep each record at once, and return why the run stopped before its end, if it did.

        `after_first` is called after the first sample, which then is run alone. A third signal ends the waiting at
        once, but not the process: the caller still writes the run's files.
        """
        at_once, traffic, stop = self.config.run.concurrency, self.config.list_traffic, self.stop
        with RunProgress(len(pending), self.output.console, at_once=at_once, list_traffic=traffic) as progress:
            try:
                try:
                    with stop.handle_signals(), relax_gc():
                        run_blocking(self.execute(pending, progress.update, after_first))
                finally:
                    stop.end_waiting()
            except StoreError as error:
                return str(error)
            except KeyboardInterrupt as interrupt:  # a third signal, or one before the first sample
                stop.interrupted = True
                return stop.reason or f"interrupted by {get_signal_name(interrupt)}"
        return stop.reason

    async def execute(
        self,
        pending: Sequence[PendingSample],
        show: Callable[[Record], None],
        after_first: Callable[[Record], None] | None = None,
    ) -> None:
        """Do what `run` does; `show` is called with each finished record."""
        answering, rest = self.open_answering(), pending

        async def answer(sample: Sample, key: SampleKey) -> Record:
            return (await answering.answer(None, sample, key, self.open_context)).record

        def keep(record: Record) -> None:
            record.usage = add_unseen_usage(record, self.call_log.sum_paid(record.key))
            self.store.write(record, forget=True)
            show(record)
            self.answers.finish(record)
            if rest is pending and after_first is not None:
                after_first(record)

        try:
            if after_first is not None:
                await run_side_by_side(answer, pending[:1], keep, self.stop, 1)
                rest = pending[1:]
            await run_side_by_side(answer, rest, keep, self.stop, self.config.run.concurrency)
        finally:
            await answering.close()


def _close_silent_session(store: RunStore) -> RunState:
    """Return the state with an end for a session that was killed: its last answer, as far as is known."""
    state = store.read_state()
    if not state.sessions or state.last_session.ended_at:
        return state
    *earlier, last = state.sessions
    ended_at = max(store.last_finished_at() or "", last.started_at)
    seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last.started_at)).total_seconds()
    sessions = [*earlier, replace(last, ended_at=ended_at, stopped=SILENT)]
    return replace(state, sessions=sessions, wall_seconds=state.wall_seconds + seconds)


def _now() -> str:
    return datetime.now(UTC).isoformat()
