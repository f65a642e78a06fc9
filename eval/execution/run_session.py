"""One session of a run: what its folder keeps before the first sample, its caches and budget, and its records.

recorder = begin_session(folder, store, info, samples, prompts)
reason = RunSession(config, recorder, folder, logs, console, stop).run(executor, pending)     # None: nothing is left
recorder.end(reason)
"""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.cli.command import get_signal_name
from eval.config.evaluation import EvalConfig
from eval.execution.budget import Budget, BudgetSettings, Spend
from eval.execution.console import Console, RunProgress
from eval.execution.executors.contract import Executor, PendingSample, SampleHooks
from eval.execution.executors.local import relax_gc, run_side_by_side
from eval.execution.termination import StopController
from eval.execution.usage import add_unseen_usage
from eval.runs.call_log import CallLog, RunResults, open_shared_cache
from eval.runs.folder import keep_prompts, read_kept_prompts
from eval.runs.logs import AnswerLog, RunLogs, measure_peak_memory_mb
from eval.runs.own_runs import note_run
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import SILENT, RunInfo, RunState, SessionInfo, dump_config, find_tuning_use
from eval.runs.store import RunStore, StoreError
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import Payment, SampleContext, SampleKey

Execution = Callable[[], Coroutine[object, object, None]]  # answers the samples of a session


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
    return SessionRecorder(store, replace(info, prompts=names, tuning_use=use), changes or {})


class SessionRecorder:
    """Course of one session, kept in the run's store.

    recorder = SessionRecorder(store, info, changes={})     # the store has the info, and one session more
    recorder.end(None)
    """

    def __init__(self, store: RunStore, info: RunInfo, changes: Mapping[str, str]) -> None:
        """Write the run's info and the beginning of a session.

        Args:
            store: of the run.
            info: as of now; the run's id, the time of its first session and its sweep are those that the store has.
            changes: in which this session's configuration differs from the one before, on purpose.

        Raises:
            StoreError: the store cannot be written.
        """
        before, now, state = store.read_info(), _now(), _close_silent_session(store)
        self.store = store
        self.info = replace(
            info,
            run_id=before.run_id or info.run_id or uuid.uuid4().hex[:12],
            started_at=before.started_at or now,
            sweep=info.sweep or before.sweep,
        )
        session = SessionInfo(now, pid=os.getpid(), host=socket.gethostname(), changes=dict(changes))
        self.state = replace(state, sessions=[*state.sessions, session], finished=False)
        self._began, self._seconds_before = time.monotonic(), state.wall_seconds
        note_run(self.info.run_id, store.path.parent, info.command or ())
        store.write_info(self.info)
        store.write_state(self.state)

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
    ended_at = max(store.last_finished_at() or "", last.started_at, CallLog(store).read_last_payment())
    seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last.started_at)).total_seconds()
    return replace(
        state,
        sessions=[*earlier, replace(last, ended_at=ended_at, stopped=SILENT)],
        wall_seconds=state.wall_seconds + seconds,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()


def read_spent_usd(store: RunStore) -> float:
    """Return what the run has paid in all its sessions, as far as it is known; for samples without a record, too."""
    return store.cost_usd() + CallLog(store).sum_total().known_cost_usd


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
        self.console, self.stop = console, stop
        self.answers = AnswerLog(logs, stop.stop_now)
        limits = BudgetSettings(metric_calls=None, usd=config.run.max_cost_usd)
        self.budget = Budget(limits, Spend(cost_usd=read_spent_usd(self.store)), self.stop.stop_now)

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
        at_once, traffic = self.config.run.concurrency, self.config.list_traffic
        with (
            RunProgress(len(pending), self.console, at_once=at_once, list_traffic=traffic) as progress,
            self.open_execution(executor, pending, progress.update, after_first) as execute,
        ):
            return run_to_end([execute], self.stop)

    @contextmanager
    def open_execution(
        self,
        executor: Executor,
        pending: Sequence[PendingSample],
        show: Callable[[Record], None],
        after_first: Callable[[Record], None] | None = None,
    ) -> Iterator[Execution]:
        """Open what the samples use and yield the execution, to be awaited inside.

        Args:
            executor: of the run's program.
            pending: samples to run.
            show: called with each finished record.
            after_first: see `run`.
        """
        config, call_log = self.config, CallLog(self.store, self.config.secrets())
        results = RunResults(self.store, config.redact) if config.cache.tools == "run" else None
        with open_shared_cache(config.cache) as shared_cache:
            self.recorder.update(unfinished=None)

            def open_context(key: SampleKey) -> SampleContext:
                def pay(payment: Payment) -> None:
                    if not payment.refused:
                        call_log.pay(key, payment)

                account, replies = self.budget.open_account(pay), call_log.for_sample(key)
                return SampleContext(key, config.limits, account, replies, shared_cache, results)

            def keep(record: Record) -> None:
                record.usage = add_unseen_usage(record, call_log.sum_paid(record.key))
                self.store.write(record, forget=True)
                show(record)
                self.answers.finish(record)

            async def execute() -> None:
                hooks = SampleHooks(self.folder, self.answers, call_log.read_replies)
                answering, rest = executor.open(self.recorder.info, hooks, self.stop), pending

                async def answer(sample: Sample, key: SampleKey) -> Record:
                    return (await answering.answer(None, sample, key, open_context)).record

                def keep_first(record: Record) -> None:
                    keep(record)
                    if after_first is not None:
                        after_first(record)

                try:
                    if after_first is not None:
                        await run_side_by_side(answer, pending[:1], keep_first, self.stop, 1)
                        rest = pending[1:]
                    await run_side_by_side(answer, rest, keep, self.stop, config.run.concurrency)
                finally:
                    await answering.close()

            yield execute
            paid = call_log.sum_total()
            self.recorder.update(unfinished=vars(paid) if paid.lm_calls else None)


def run_to_end(executions: Sequence[Execution], stop: StopController) -> str | None:
    """Await the executions of one or several runs; Ctrl-C and its like stop all of them.

    A third signal ends the waiting at once. It does not end the process: the caller still writes the run's files.

    Returns:
        Why they stopped before their end; None: they did not.
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
