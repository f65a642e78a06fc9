"""One session of a run: what its folder keeps before the first sample, its caches and budget, and its records.

recorder = begin_session(folder, store, info, samples, prompts)
reason = RunSession(config, recorder, folder, logs, console, stop).run(executor, pending)     # None: nothing is left
recorder.end(reason)
"""

import asyncio
import inspect
import os
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from eval.benchmarks.dataset import Sample
from eval.cli.command import get_signal_name
from eval.config.evaluation import EvalConfig
from eval.execution.budget import Budget, BudgetSettings, Spend
from eval.execution.console import Console, RunProgress
from eval.execution.executors.contract import Executor, OnRecord, PendingSample, SampleHooks
from eval.execution.executors.local import relax_gc
from eval.execution.termination import StopController
from eval.execution.usage import add_unseen_usage
from eval.runs.call_log import CALL_LOG, CallLog, open_caches, remove_tool_results
from eval.runs.folder import keep_prompts, read_kept_prompts
from eval.runs.logs import AnswerLog, RunLogs, measure_peak_memory_mb
from eval.runs.own_runs import note_run
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import SILENT, RunInfo, RunState, SessionInfo, dump_config, find_tuning_use
from eval.runs.store import RunStore, StoreError, list_pending
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import Payment, SampleContext, SampleKey


def begin_session(
    folder: Path,
    store: RunStore,
    info: RunInfo,
    samples: Sequence[Sample],
    prompts: PromptSet | None = None,
    changes: Mapping[str, str] | None = None,
) -> "SessionRecorder":
    """Write everything that a run's folder keeps before the first sample: plan, configuration, prompts, info.

    Args:
        folder: of the run.
        store: of the run, open for writing.
        info: of the run as of now.
        samples: that the run is to answer.
        prompts: of this session.
        changes: in which its configuration differs from the one before, on purpose: option → "old → new".

    Raises:
        StoreError, OSError: the folder cannot be written.
    """
    planned = [PlannedQuestion.of(sample) for sample in samples]
    if planned != store.read_plan():  # of this run, or of a process that died before its run began
        store.write_plan(planned, replace=True)
    (folder / "config.yaml").write_text(dump_config(info.config), encoding="utf-8")
    before = store.read_info()
    names = keep_prompts(folder, before.prompts, prompts) if prompts else before.prompts
    sets = [*read_kept_prompts(folder, names).values()]  # a resumed run may have had others before
    sets += [prompts] if prompts else []  # the copies do not say whether it was edited
    use = find_tuning_use(sets, planned, info.task.file_sha256, before)
    info = replace(info, prompts=names, tuning_use=use)
    return SessionRecorder.begin(store, info, changes or {})


class SessionRecorder:
    """Course of one session, kept in the run's store.

    recorder = SessionRecorder.begin(store, info, changes={})     # the store has the info, and one session more
    recorder.end(None)
    """

    def __init__(self, store: RunStore, info: RunInfo, state: RunState) -> None:
        """`state`: of the run, with this session as its last one."""
        self.store, self.info, self.state = store, info, state
        self._began, self._seconds_before = time.monotonic(), state.wall_seconds

    @classmethod
    def begin(cls, store: RunStore, info: RunInfo, changes: Mapping[str, str]) -> Self:
        """Write the run's info and the beginning of a session.

        Args:
            store: of the run.
            info: as of now; the run's id, the time of its first session and its sweep are those that the store has.
            changes: in which this session's configuration differs from the one before, on purpose.

        Raises:
            StoreError: the store cannot be written.
        """
        before, now = store.read_info(), _now()
        info = replace(
            info,
            run_id=before.run_id or info.run_id or uuid.uuid4().hex[:12],
            started_at=before.started_at or now,
            sweep=info.sweep or before.sweep,
        )
        state = _close_silent_session(store)
        session = SessionInfo(now, pid=os.getpid(), host=socket.gethostname(), changes=dict(changes))
        state = replace(state, sessions=[*state.sessions, session], finished=False)
        note_run(info.run_id, store.path.parent, info.command or ())
        store.write_info(info)
        store.write_state(state)
        return cls(store, info, state)

    def update(self, **changes: Any) -> None:
        """Change fields of the run's state."""
        self.state = replace(self.state, **changes)
        self.store.write_state(self.state)

    def end(self, stopped: str | None) -> None:
        """Record the end; `stopped`: why it came early, None if it did not."""
        *earlier, last = self.state.sessions
        peak = measure_peak_memory_mb()
        self.update(
            sessions=[*earlier, replace(last, ended_at=_now(), stopped=stopped, peak_memory_mb=peak)],
            finished=stopped is None,
            wall_seconds=self._seconds_before + time.monotonic() - self._began,
        )


def _close_silent_session(store: RunStore) -> RunState:
    """Return the state with an end for a session that was killed: its last answer or payment, as far as is known."""
    state = store.read_state()
    if not state.sessions or state.last_session.ended_at:
        return state
    *earlier, last = state.sessions
    paid = (each.stat().st_mtime for each in store.path.parent.glob(f"{CALL_LOG}*"))
    paid_at = [datetime.fromtimestamp(moment, UTC).isoformat() for moment in paid]
    ended_at = max([store.last_finished_at() or last.started_at, *paid_at])
    seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last.started_at)).total_seconds()
    return replace(
        state,
        sessions=[*earlier, replace(last, ended_at=max(ended_at, last.started_at), stopped=SILENT)],
        wall_seconds=state.wall_seconds + max(0.0, seconds),  # below 0: the clock was set back, or no answer yet
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()


def read_spent_usd(store: RunStore, folder: Path) -> float:
    """Return what the run has paid in all its sessions, as far as it is known; for samples without a record, too."""
    if not (folder / CALL_LOG).exists():
        return store.cost_usd()
    with closing(_open_call_log(store, folder)) as call_log:
        return store.cost_usd() + call_log.sum_total().known_cost_usd


def _open_call_log(store: RunStore, folder: Path) -> CallLog:
    call_log = CallLog(folder / CALL_LOG)
    call_log.forget_finished(store.list_finished_keys())
    return call_log


class RunSession:
    """One session of a run: opens its caches, hands its samples to an executor, and keeps each record at once.

    session = RunSession(config, recorder, folder, logs, console, stop)
    reason = session.run(executor, pending)            # None: all of them were answered
    """

    def __init__(
        self,
        config: EvalConfig,
        recorder: SessionRecorder,
        folder: Path,
        logs: RunLogs,
        console: Console,
        stop: StopController,
    ) -> None:
        """`stop`: by the limits in `config.run`; runs that end together share one."""
        self.config, self.recorder, self.store, self.folder = config, recorder, recorder.store, folder
        self.logs, self.console = logs, console
        self.stop = stop
        self.answers = AnswerLog(logs, self._stop_for_logs)
        limits = BudgetSettings(metric_calls=None, usd=config.run.max_cost_usd)
        self.budget = Budget(limits, Spend(cost_usd=read_spent_usd(self.store, folder)), self.stop.stop_now)

    def run(
        self,
        executor: Executor,
        pending: Sequence[PendingSample],
        after_first: Callable[[Record], None] | None = None,
    ) -> str | None:
        """Run the samples.

        Args:
            executor: of the run's program.
            pending: samples to run.
            after_first: called after the first sample, which then is run alone; it may stop the run.

        Returns:
            Why the run stopped before its end; None: it did not.
        """
        with (
            RunProgress(
                len(pending),
                self.console,
                at_once=self.config.run.concurrency,
                list_traffic=self.config.list_traffic,
            ) as progress,
            self.open_execution(executor, pending, progress.update, after_first=after_first) as work,
        ):
            return run_to_end([work], self.stop)

    @contextmanager
    def open_execution(
        self,
        executor: Executor,
        pending: Sequence[PendingSample],
        show: Callable[[Record], None],
        after_first: Callable[[Record], None] | None = None,
    ) -> Iterator[Coroutine[object, object, None]]:
        """Open what the samples use and yield the execution, to be awaited inside.

        Args:
            executor: of the run's program.
            pending: samples to run.
            show: called with each finished record.
            after_first: see `run`.
        """
        with ExitStack() as stack:
            run_id, redact = self.recorder.info.run_id, self.config.redact
            call_log = stack.enter_context(closing(_open_call_log(self.store, self.folder)))
            self.recorder.update(unfinished=None)
            caches = stack.enter_context(open_caches(self.config.cache, self.folder, run_id, redact))

            def open_context(key: SampleKey) -> SampleContext:
                def pay(payment: Payment) -> None:
                    if not payment.refused:
                        call_log.pay(key, payment)

                budget = self.budget.open_account(pay)
                replies = call_log.for_sample(key)
                return SampleContext(key, self.config.limits, budget, replies, caches.replies, caches.results)

            def keep(record: Record) -> None:
                key = SampleKey(record.sample_id, record.epoch, record.attempt)
                record.usage = add_unseen_usage(record, call_log.sum_paid(key))
                self.store.write(record)
                call_log.forget(key)
                show(record)
                self.answers.finish(record)

            hooks = SampleHooks(
                self.folder,
                open_context,
                self.answers.begin,
                call_log.read_replies,
                self.answers.note,
                log=self.answers.write,
            )
            hooked = executor.with_hooks(hooks)
            if after_first is None:
                work = hooked.run(self.recorder.info, pending, keep, self.stop)
            else:
                work = self._run_first_alone(hooked, pending, keep, after_first)
            stack.callback(_close_unstarted, work)  # it was not awaited if an error came first
            yield work
            paid = call_log.sum_total()
            self.recorder.update(unfinished=vars(paid) if paid.lm_calls else None)
        if not self._has_pending():
            remove_tool_results(self.folder)

    async def _run_first_alone(
        self,
        executor: Executor,
        pending: Sequence[PendingSample],
        on_record: OnRecord,
        after_first: Callable[[Record], None],
    ) -> None:
        def keep_first(record: Record) -> None:
            on_record(record)
            after_first(record)

        await executor.run(self.recorder.info, pending[:1], keep_first, self.stop)
        if self.stop.reason is None:
            await executor.run(self.recorder.info, pending[1:], on_record, self.stop)

    def _has_pending(self) -> bool:
        """Return whether another session could run a sample, with `run.retry_errors` too."""
        ids = [planned.id for planned in self.store.read_plan()]
        return bool(list_pending(ids, self.config.run.epochs, self.store.read_last_attempts(), retry_errors=True))

    def _stop_for_logs(self, error: OSError) -> None:
        self.stop.stop_now(f"the run's logs cannot be written ({error}): check that the disk has room", "storage")


def _close_unstarted(work: Coroutine[object, object, None]) -> None:
    """Close an execution that was never awaited. One that was belongs to its event loop, which code may still block."""
    if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()


def run_to_end(work: Sequence[Coroutine[object, object, None]], stop: StopController) -> str | None:
    """Await the executions of one or several runs; Ctrl-C and its like stop all of them.

    A third signal ends the waiting at once. It does not end the process: the caller still writes the run's files.

    Returns:
        Why they stopped before their end; None: they did not.
    """

    async def run_all() -> None:
        if len(work) == 1:
            await work[0]
        else:
            await stop.supervise([asyncio.create_task(each) for each in work])

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
        return str(stop.reason or f"interrupted by {get_signal_name(interrupt)}")
    return str(stop.reason) if stop.reason else None
