"""Contract of an executor: it runs the pending samples of a run and hands over one record for each.

An executor is made from the configuration and the prompts of the run and builds the program itself: what it runs can be
built again in another process or on another machine from `RunInfo` and the run's folder, and is never a closure.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from eval.benchmarks.dataset import Sample
from eval.execution.termination import StopController
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleKey

PendingSample = tuple[Sample, SampleKey]
OnRecord = Callable[[Record], None]


@runtime_checkable
class Executor(Protocol):
    """Runs samples somewhere. One executor runs one run."""

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
