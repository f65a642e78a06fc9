"""One session of a run, of evaluating as of tuning: its folder, its program, its budget, and how it stops and ends.

with open_session(SessionRequest(kind="eval", name="gaia", config=config, …), output) as session:
    session.begin(info, samples)
    reason = session.run(pending)       # None: all of them were answered
    session.end(reason)
"""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from eval.benchmarks.dataset import Sample
from eval.cli.command import get_signal_name
from eval.config.evaluation import EvalConfig, LocalSettings
from eval.config.tracking import remove_passwords
from eval.execution.budget import REFLECTION, Budget, BudgetSettings, Spend, read_earlier_spend
from eval.execution.console import MissingServices, Output, RunProgress
from eval.execution.executors.contract import Answering, Executor, PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor, relax_gc, run_side_by_side
from eval.execution.runner import add_unseen_usage
from eval.execution.termination import StopController
from eval.runs.call_log import CallLog, RunResults, SampleResults
from eval.runs.folder import DATABASE, keep_prompts, make_run_folder, read_kept_prompts, read_origin
from eval.runs.logs import AnswerLog, RunLogs, log_parts, measure_peak_memory_mb
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
    list_offered_tools,
    select_run_overrides,
)
from eval.runs.store import RunStore, StoreError, list_pending
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import Payment, SampleContext, SampleKey, SampleLimits, ToolResults
from mas.runtime.security.redaction import build_redactor
from mas.system import Resources, list_critics, read_program_digest


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    """Checked command line of a run."""

    config: EvalConfig
    prompts: PromptSet | None
    command: Sequence[str] = ()  # the overrides as typed
    samples: Sequence[Sample] = ()  # all that the program may answer
    resolved: Mapping[str, object] = field(default_factory=dict)  # the configuration, from which workers build it
    kind: Literal["eval", "optimize"] = "eval"  # folder under outputs/ of a new run
    name: str = ""  # part of the name of that run's folder
    resumed: Path | None = None  # folder of the run that is resumed


@contextmanager
def open_session(request: SessionRequest, output: Output) -> Iterator["Session"]:
    """Build the program, then make the folder of the run, or take that of a resumed one, and lock it.

    In this order, a mistake in the program leaves no folder behind. UserError: the program cannot be built, the folder
    cannot be written, or another process uses it.
    """
    config, missing = request.config, MissingServices(request.config)
    with missing.open_resources() as resources, ExitStack() as stack:
        executor = _create_executor(request, resources, stack)
        folder = request.resumed or make_run_folder(request.kind, request.name, config.run.dir)
        try:
            store = stack.enter_context(RunStore(folder / DATABASE, redact=config.redact))
        except StoreError as error:
            raise UserError(f"{error}.") from error
        limits = (config.run.drain_seconds, config.run.max_errors, config.run.max_seconds, config.run.max_same_errors)
        stop = StopController(*limits, say=lambda line: output.print(line, error=True))
        session = Session(request, executor, store, stop, output, stack)
        session.missing = missing
        yield session


def _create_executor(request: SessionRequest, resources: Resources, stack: ExitStack) -> Executor:
    """Return what answers the samples, with its program built; `stack` ends the connection to a cluster."""
    config, prompts = request.config, request.prompts
    local = LocalExecutor(config, prompts, resources)
    if isinstance(config.executor, LocalSettings):
        return local
    from eval.execution.executors.cluster.connection import open_cluster

    cluster = stack.enter_context(open_cluster(config, request.resolved, request.samples))
    from eval.execution.executors.cluster.ray_executor import RayExecutor  # loads Ray, once its environment is set

    return RayExecutor(local.program, config, prompts, request.resolved, cluster)


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
        prompts_sha256=digest(prompts) if prompts else "",
        critics=list_critics(config.system),
        origin=read_origin(),
        program_sha256=read_program_digest(config.system),
        command=[each for each in overrides if config.redact(each) == each],  # a secret is given again when resuming
    )


class Session:
    """One session of a run, from its first entry in the run's folder to its last."""

    info: RunInfo
    state: RunState  # the course of the run, with this session
    answers: AnswerLog
    budget: Budget
    missing: MissingServices | None = None

    def __init__(
        self,
        request: SessionRequest,
        executor: Executor,
        store: RunStore,
        stop: StopController,
        output: Output,
        stack: ExitStack,
    ) -> None:
        """`stop`: runs that end together share one. `stack`: closes what is opened."""
        self.config, self.prompts, self.executor = request.config, request.prompts, executor
        self.program, self.store, self.folder = executor.program, store, store.path.parent
        self.stop, self.output, self._stack = stop, output, stack
        self.call_log = CallLog(store, build_redactor(tuple(request.config.secrets())))

    def begin(
        self,
        info: RunInfo,
        questions: Sequence[Sample] = (),
        changes: Mapping[str, str] | None = None,
        budget: BudgetSettings | None = None,
    ) -> None:
        """Write everything that a run's folder keeps before the first sample, and open logs and budget.

        Args:
            info: of the run as of now; id, beginning and sweep are those that the store has.
            questions: that the run is to answer; none in tuning, whose phases choose them.
            changes: in which its configuration differs from the one before, on purpose: option → "old → new".
            budget: of a tuning run.

        Raises:
            UserError: the budget of an evaluation is used up, or the run was made elsewhere and cannot be read.
            StoreError, OSError: the folder cannot be written.
        """
        store, config, prompts = self.store, self.config, self.prompts
        with refuse_unreadable(self.folder):
            before, now, state = store.read_info(), _now(), _close_silent_session(store)
            self.budget = self._open_budget(budget, state.wall_seconds)
        planned = [PlannedQuestion.of(sample) for sample in questions]
        if planned != store.read_plan():  # of this run, or of a process that died before its run began
            store.write_plan(planned, replace=True)
        (self.folder / "config.yaml").write_text(dump_config(info.config), encoding="utf-8")
        names = keep_prompts(self.folder, before.prompts, prompts) if prompts else before.prompts
        sets = [*read_kept_prompts(self.folder, names).values()]  # a resumed run may have had others before
        sets += [prompts] if prompts else []  # the copies do not say whether it was edited
        self.info = replace(
            info,
            run_id=before.run_id or info.run_id or uuid.uuid4().hex[:12],
            started_at=before.started_at or now,
            sweep=info.sweep or before.sweep,
            prompts=names,
            tuning_use=find_tuning_use(sets, planned, info.task.file_sha256, before),
            tools=list_offered_tools(self.program),
        )
        session = SessionInfo(now, pid=os.getpid(), host=socket.gethostname(), changes=dict(changes or {}))
        self.state = replace(state, sessions=[*state.sessions, session], finished=False, unfinished=None)
        self._began, self._seconds_before = time.monotonic(), state.wall_seconds
        note_run(self.info.run_id, self.folder, info.command or ())
        store.write_info(self.info)
        store.write_state(self.state)
        logs = self._stack.enter_context(RunLogs(self.folder, config.secrets(), config.log))
        self.answers = AnswerLog(logs, self.stop.stop_now)
        log_parts(logs.entry_point, info.system, info.config, prompts, self.program)
        if self.missing is not None:
            self.missing.report(self.output.print)

    def _open_budget(self, limits: BudgetSettings | None, seconds: float) -> Budget:
        if limits is not None:
            searched = self.store.read_result("search") or {}  # its answers count once it is finished: not repeated
            saved = self.store.read_state().spend  # of a phase; payments have no copy if the database was lost
            paid = vars(read_earlier_spend(self.call_log, seconds))
            earlier = Spend(**{name: max(value, saved.get(name, 0)) for name, value in paid.items()})
            return Budget(limits, replace(earlier, metric_calls=searched.get("metric_calls", 0)))
        usd, spent = self.config.run.max_cost_usd, self.store.cost_usd() + self.call_log.sum_total().known_cost_usd
        if usd is not None and spent >= usd:
            raise UserError(f"the run has already spent ${spent:.4f} of run.max_cost_usd={usd:g}; give it more.")
        return Budget(BudgetSettings(metric_calls=None, usd=usd), Spend(cost_usd=spent), self.stop.stop_now)

    def update(self, **changes: Any) -> None:
        """Change fields of the run's state."""
        self.state = replace(self.state, **changes)
        self.store.write_state(self.state)

    def end(self, stopped: str | None) -> None:
        """Record the end; `stopped`: why it came early, None if it did not."""
        *earlier, last = self.state.sessions
        peak, paid = measure_peak_memory_mb(), self.call_log.sum_total()
        self.update(
            unfinished=vars(paid) if paid.lm_calls and self.info.tuning is None else None,
            sessions=[*earlier, replace(last, ended_at=_now(), stopped=stopped, peak_memory_mb=peak)],
            finished=stopped is None,
            wall_seconds=self._seconds_before + time.monotonic() - self._began,
        )

    def open_context(self, key: SampleKey) -> SampleContext:
        """Return limits, budget and kept replies of an answer, or of tuning's reflection."""
        config, is_tuning = self.config, self.info.tuning is not None

        def pay(payment: Payment) -> None:
            if is_tuning or not payment.refused:
                self.call_log.pay(key, payment)

        account, replies = self.budget.open_account(pay, key == REFLECTION), self.call_log.for_sample(key)
        limits = SampleLimits() if key == REFLECTION else config.limits
        results: ToolResults | None = RunResults(self.store, config.redact) if config.cache.tools == "run" else None
        if is_tuning:
            results = SampleResults(replies)
        return SampleContext(key, limits, account, replies, results)

    def open_answering(self) -> Answering:
        """Return what answers the samples of the session."""
        is_search = self.info.tuning is not None
        hooks = SampleHooks(self.folder, self.answers, self.call_log.read_replies, is_search)
        return self.executor.open(self.info, hooks, self.stop)

    def list_pending(self, retry_errors: bool) -> list[SampleKey]:
        """Return the planned samples without a final record."""
        ids = [planned.id for planned in self.store.read_plan()]
        return list_pending(ids, self.config.run.epochs, self.store.read_last_attempts(), retry_errors)

    def run(self, pending: Sequence[PendingSample], after_first: Callable[[Record], None] | None = None) -> str | None:
        """Answer samples, keep each record at once, and return why the run stopped before its end, if it did.

        `after_first` is called after the first sample, which then is run alone; it may stop the run.
        """
        at_once, traffic = self.config.run.concurrency, self.config.list_traffic
        with RunProgress(len(pending), self.output.console, at_once=at_once, list_traffic=traffic) as progress:
            return run_to_end([lambda: self.execute(pending, progress.update, after_first)], self.stop)

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
    """Return the state with an end for a session that was killed: its last answer or payment, as far as is known."""
    state = store.read_state()
    if not state.sessions or state.last_session.ended_at:
        return state
    *earlier, last = state.sessions
    ended_at = max(store.last_finished_at() or "", last.started_at, CallLog(store).read_last_payment())
    seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last.started_at)).total_seconds()
    return replace(
        state,
        sessions=[*earlier, replace(last, ended_at=ended_at, stopped=SILENT)],
        wall_seconds=state.wall_seconds + seconds,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()


def run_to_end(executions: Sequence[Callable[[], Coroutine[object, object, None]]], stop: StopController) -> str | None:
    """Await the executions of one or several runs, and return why they stopped before their end; None: they did not.

    A third signal ends the waiting at once, but not the process: the caller still writes the run's files.
    """

    async def run_all() -> None:
        if len(executions) == 1:
            await executions[0]()
        else:
            await stop.supervise([asyncio.create_task(execute()) for execute in executions])

    try:
        try:
            with stop.handle_signals(), relax_gc():
                run_blocking(run_all())
        finally:
            stop.end_waiting()
    except StoreError as error:
        return str(error)
    except KeyboardInterrupt as interrupt:  # a third signal, or one before the first sample
        stop.interrupted = True
        return stop.reason or f"interrupted by {get_signal_name(interrupt)}"
    return stop.reason
