"""The questions of one session: asked side by side, each kept in the store as soon as it is finished.

stopped = Questions(config, store, folder, logs, console).run(program, tries)      # None: all of them ended
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig
from eval.execution.budget import Budget, SampleBudget, with_unseen
from eval.execution.progress import RunProgress
from eval.execution.relax_gc import relax_gc
from eval.execution.runner import Runner, Try
from eval.execution.stop_controller import Stop, signals_to
from eval.runs.call_log import CallLog, SharedCache
from eval.runs.logs import RunLogs
from eval.runs.record import Record, Usage
from eval.runs.session import SessionRecorder
from eval.runs.store import RunStore, StoreError, list_pending
from eval.runs.tool_cache import ToolCache, remove_tool_results
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.trace import Level, Listener
from mas.system import Program

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
