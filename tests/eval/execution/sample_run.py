"""Samples run side by side without a run: the real runner and loop, with what the test gives them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eval.execution.executors.local import PendingSample, run_side_by_side
from eval.execution.runner import SampleRunner
from eval.execution.termination import StopController
from eval.runs.record import Record


@dataclass
class SampleRun:
    runner: SampleRunner
    keep: Callable[[Record], None]
    concurrency: int = 3
    stop: StopController = field(default_factory=StopController)

    async def run(self, pending: Sequence[PendingSample]) -> None:
        await run_side_by_side(self.runner.run_sample, pending, self.keep, self.stop, self.concurrency)
