"""Contract of an executor: it runs the pending samples of a run and hands over one record for each.

An executor is made from the configuration and the prompts of the run and builds the program itself: what it runs can be
built again in another process or on another machine from `RunInfo` and the run's folder, and is never a closure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from eval.benchmarks.dataset import Sample
from eval.execution.runner import OpenListener, ignore_events
from eval.execution.termination import StopController
from eval.execution.traced_program import AnsweredTrial
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program

PendingSample = tuple[Sample, SampleKey]
OnRecord = Callable[[Record], None]
OpenContext = Callable[[SampleKey], SampleContext]  # with limits, budget and call log


class Note(Protocol):
    def __call__(self, event: str, **fields: object) -> None: ...


@dataclass(frozen=True)
class SampleHooks:
    """Folder of a run, and functions of a session that give each sample its caches, its budget, and a log."""

    folder: Path = Path()
    open_context: OpenContext = SampleContext
    open_listener: OpenListener = ignore_events
    read_replies: Callable[[SampleKey], Mapping[str, str]] = lambda key: {}  # that the context's `call_log` has
    note: Note = lambda event, **fields: None  # writes a line to the session's log
    asks_budget: bool = False  # the contexts' budget may refuse a request, and is asked before each
    log: Callable[[str, str], None] = lambda name, text: None  # writes lines to that log of the run


class Answering(Protocol):
    """Answers single samples, each with prompts of its own. Used on the agents' event loop."""

    async def answer(
        self, program: Program, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        """Answer and score a sample with the prompts that the program, a copy of the executor's, has now.

        Raises:
            CancelledError: this call was cancelled, or `close` was called.
        """
        ...

    async def close(self) -> None:
        """End what answers, and count what its requests in flight have cost; the next sample starts it again."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Runs samples somewhere. One executor runs one run."""

    program: Program  # as built in this process

    def with_hooks(self, hooks: SampleHooks) -> Self:
        """Return an executor of the same program for one session."""
        ...

    async def run(
        self, run_info: RunInfo, pending: Sequence[PendingSample], on_record: OnRecord, stop: StopController
    ) -> None:
        """Answer and score the samples once each, in this order; fewer if `stop` says so.

        Args:
            run_info: of the run.
            pending: its samples without a final record.
            on_record: called with each finished record, on this event loop, before another sample takes its place;
                not for a sample that was cancelled or met a used-up quota, which says nothing about the sample.
            stop: is shown each record, and ends the run early.

        Raises:
            Exception: whatever `on_record` raises; the run cannot continue without its store.
        """
        ...

    def open_answering(self, run_info: RunInfo, stop: StopController) -> Answering:
        """Return what answers single samples of the run, for a search that asks as it likes.

        Args:
            run_info: of the run.
            stop: ends the session if nothing can answer.
        """
        ...
