"""The questions of one session: asked side by side, each kept in the store as soon as it is finished.

stopped = Questions(config, store, folder, logs, console).run(program, tries)      # None: all of them ended
"""

import gc
import os
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.benchmarks.dataset import Sample
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig
from eval.execution.budget import Budget, SampleBudget, with_unseen
from eval.execution.progress import RunProgress
from eval.execution.runner import Runner, Try
from eval.execution.stop_controller import Stop, signals_to
from eval.runs.call_log import CallLog, SharedCache, ToolCache, remove_tool_results
from eval.runs.folder import keep_prompts, read_kept_prompts
from eval.runs.logs import RunLogs
from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.run_info import SILENT, RunInfo, RunState, SessionInfo, dump_config, find_tuning_use
from eval.runs.store import RunStore, StoreError, list_pending
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.trace import Level, Listener
from mas.system import Program


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
    if planned != store.planned():  # of this run, or of a process that died before its run began
        store.plan(planned, again=True)
    (folder / "config.yaml").write_text(dump_config(info.config), encoding="utf-8")
    before = store.read_info()
    names = keep_prompts(folder, before.prompts, prompts) if prompts else before.prompts
    sets = [*read_kept_prompts(folder, names).values()]  # a resumed run may have had others before
    sets += [prompts] if prompts else []  # the copies do not say whether it was edited
    use = find_tuning_use(sets, planned, info.task.file_sha256, before)
    info = replace(info, prompts=names, used_to_tune=use)
    return SessionRecorder(store, info, changes or {})


class SessionRecorder:
    """Begins a session when made: the store then has the run's info, its wall time and the list of its sessions."""

    def __init__(self, store: RunStore, info: RunInfo, changes: Mapping[str, str]) -> None:
        """
        Args:
            store: of the run.
            info: as of now; the run's id, the time of its first session and its sweep are those that the store has.
            changes: in which this session's configuration differs from the one before, on purpose.
        """
        self.store = store
        self._began = time.monotonic()
        before, now = store.read_info(), _now()
        self.info = replace(
            info,
            run_id=before.run_id or info.run_id or uuid.uuid4().hex[:12],
            started_at=before.started_at or now,
            sweep=info.sweep or before.sweep,
        )
        self._state = self._close_silent_session()
        self._seconds_before = self._state.wall_seconds
        session = SessionInfo(now, pid=os.getpid(), host=socket.gethostname(), changes=dict(changes))
        self._state = replace(self._state, sessions=[*self._state.sessions, session], finished=False)
        store.write_info(self.info)
        store.write_state(self._state)

    def note_unfinished(self, usage: Mapping[str, Any] | None) -> None:
        """Keep what was paid for samples that have no record yet, for the summary."""
        self._state = replace(self._state, unfinished=None if usage is None else dict(usage))
        self.store.write_state(self._state)

    def end(self, stopped: str | None, gate_history: Sequence[Mapping[str, Any]]) -> None:
        """Record the end; `stopped`: why it came early, None if it did not."""
        *earlier, last = self._state.sessions
        self._state = replace(
            self._state,
            sessions=[*earlier, replace(last, ended_at=_now(), stopped=stopped)],
            gate_history=[*self._state.gate_history, *map(dict, gate_history)],
            finished=stopped is None,
            wall_seconds=self._seconds_before + time.monotonic() - self._began,
        )
        self.store.write_state(self._state)

    def _close_silent_session(self) -> RunState:
        """A session that was killed took until its last answer, as far as anybody knows."""
        state = self.store.read_state()
        if not state.sessions or state.sessions[-1].ended_at:
            return state
        *earlier, last = state.sessions
        ended_at = self.store.last_finished_at() or last.started_at
        seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last.started_at)).total_seconds()
        return replace(
            state,
            sessions=[*earlier, replace(last, ended_at=max(ended_at, last.started_at), stopped=SILENT)],
            wall_seconds=state.wall_seconds + max(0.0, seconds),  # below 0: the clock was set back, or no answer yet
        )


def _now() -> str:
    return datetime.now(UTC).isoformat()


THRESHOLDS = (20_000, 20, 100)  # 700, 10, 10 by default: objects, then collections of the younger generation


@contextmanager
def relax_gc() -> Iterator[None]:
    """What is there now is looked at no more, and what comes is looked at more seldom."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


CALL_LOG = "calls.db"


def spent_usd(store: RunStore, folder: Path) -> float:
    """What the run has paid in all its sessions, as far as it is known: also for questions that have no row yet."""
    if not (folder / CALL_LOG).exists():
        return store.cost_usd()
    with closing(_call_log(store, folder)) as call_log:
        return store.cost_usd() + call_log.unfinished().known_cost_usd


def _call_log(store: RunStore, folder: Path) -> CallLog:
    call_log = CallLog(folder / CALL_LOG)
    call_log.forget_finished(store.finished_keys())
    return call_log


class RunSession:
    """Made for one session of a run; its store is open for writing."""

    def __init__(
        self, config: EvalConfig, session: SessionRecorder, folder: Path, logs: RunLogs, console: Console
    ) -> None:
        run = config.run
        self.config, self.session, self.store, self.folder = config, session, session.store, folder
        self.logs, self.console = logs, console
        self.stop = Stop(run.drain_seconds, run.fail_fast, run.max_errors, run.max_seconds)
        self.budget = Budget(run.max_cost_usd, self.stop.now, spent_usd(self.store, folder))

    def run(self, program: Program, tries: Sequence[Try]) -> str | None:
        """Ask them all.

        Returns:
            Why the run stopped before its end; None: it did not.
        """
        with RunProgress(len(tries), self.console) as progress, self.asking(program, progress.update) as runner:
            return self._run(runner, tries)

    @contextmanager
    def asking(
        self,
        program: Program,
        shown: Callable[[Record], None],
        on_terms: Callable[[SampleContext], SampleContext] = lambda each: each,
    ) -> Iterator[Runner]:
        """The runner that asks them, and that keeps what comes of it; for one session.

        Args:
            program: to be asked.
            shown: told of each finished question.
            on_terms: a new question → the same on further terms, such as another budget than the run's own.
        """
        with ExitStack() as stack:
            call_log = stack.enter_context(closing(_call_log(self.store, self.folder)))
            self.session.note_unfinished(None)
            cache = None
            if self.config.cache.lm == "shared":
                cache = stack.enter_context(closing(SharedCache(OUTPUTS / "cache" / "lm.db")))
            results = self._tool_results()
            if results is not None:
                stack.enter_context(closing(results))

            def question(sample_key: SampleKey) -> SampleContext:
                budget = SampleBudget(sample_key, call_log, self.budget)
                replies = call_log.for_sample(sample_key)
                return on_terms(SampleContext(sample_key, self.config.limits, budget, replies, cache, results))

            def finished(record: Record) -> None:
                sample_key = SampleKey(record.sample_id, record.epoch, record.attempt)
                record.usage = with_unseen(record, call_log.paid(sample_key))
                self.store.write(record)
                call_log.forget(sample_key)
                shown(record)
                _log_question(record, self.logs)

            yield self._runner(program, question, finished)
            self._note_unfinished(call_log.unfinished())
        if not self._something_left():
            remove_tool_results(self.folder)

    def _tool_results(self) -> ToolCache | None:
        """What tools have returned before, to this run or to any; None: each call is made."""
        run_id, redact = self.session.info.run_id, self.config.redact
        if self.config.cache.tools == "shared":
            return ToolCache.shared(OUTPUTS, run_id, redact)
        return ToolCache.of_run(self.folder, run_id, redact) if self.config.cache.tools == "run" else None

    def _something_left(self) -> bool:
        """Whether another session of this run could ask something, `run.retry_errors` included."""
        ids = [planned.id for planned in self.store.planned()]
        return bool(list_pending(ids, self.config.run.epochs, self.store.keys(), retry_errors=True))

    def _note_unfinished(self, paid: Usage) -> None:
        self.session.note_unfinished(vars(paid) if paid.lm_calls else None)

    def _run(self, runner: Runner, tries: Sequence[Try]) -> str | None:
        try:
            with signals_to(self.stop), relax_gc():
                run_blocking(runner.run(tries))
        except StoreError as error:
            return str(error)
        except KeyboardInterrupt:  # a third time, or before the first question
            self.stop.interrupted = True
            return self.stop.reason or "interrupted by Ctrl-C"
        return self.stop.reason

    def _runner(
        self, program: Program, question: Callable[[SampleKey], SampleContext], finished: Callable[[Record], None]
    ) -> Runner:
        return Runner(
            run_id=self.session.info.run_id,
            program=program,
            scorer=self.config.scorer,
            concurrency=self.config.run.concurrency,
            deadline_seconds=self.config.run.deadline_seconds,
            listener=self._listener,
            redact=self.config.redact,
            finished=finished,
            question=question,
            stop=self.stop,
            cost_without_calls=0.0 if self.config.needs_model else None,
        )

    def _listener(self, thread_id: str, sample_key: SampleKey) -> Listener:
        """The question's log lines. A log that cannot be written ends the run, never a question."""
        try:
            listen = self.logs.listener(thread_id, sample_key.sample_id, sample_key.epoch, sample_key.attempt)
        except OSError as error:
            self._no_log(error)
            return lambda level, event, fields: None

        def guarded(level: Level, event: str, fields: dict[str, Any]) -> None:
            try:
                listen(level, event, fields)
            except OSError as error:
                self._no_log(error)

        return guarded

    def _no_log(self, error: OSError) -> None:
        self.stop.now(f"the run's logs cannot be written ({error}): check that the disk has room")


def _log_question(record: Record, logs: RunLogs) -> None:
    log = logs.entry_point.error if record.error else logs.entry_point.info
    log(
        "question finished",
        task_id=record.sample_id,
        epoch=record.epoch,
        attempt=record.attempt,
        correlation_id=record.thread_id,
        seconds=round(record.wall_seconds, 3),
        error=record.error,
        error_component=record.error_component,
    )


class MissingServices:
    """Keeps the sentences until the first question is asked; before that a mistake shall stand alone.

    With a simulated model, which asks no service, nothing is told.
    """

    def __init__(self, config: EvalConfig) -> None:
        self._silent = config.simulated
        self._sentences: list[str] = []

    def note(self, sentence: str) -> None:
        self._sentences.append(sentence)

    def tell(self) -> None:
        for sentence in [] if self._silent else self._sentences:
            print(f"note: {sentence}", file=sys.stderr)
        self._sentences.clear()
