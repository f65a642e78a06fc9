"""Settings of the executors: where the samples of a run are answered (`conf/executor/`)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mas.agents.in_memory import list_in_memory
from mas.runtime.errors import UserError

MAX_WORKERS = 256


class ExecutorSettings(Protocol):
    """A dataclass whose fields are the keys of its file in `conf/executor/`."""

    name: str


@dataclass
class LocalSettings:
    """The keys of `conf/executor/local.yaml`."""

    name: str = "local"


@dataclass
class ProcessesSettings:
    """The keys of `conf/executor/processes.yaml`."""

    name: str = "processes"
    workers: int | None = None  # null: one for each core

    @property
    def n_workers(self) -> int:
        return self.workers or os.cpu_count() or 1

    def check(self, resolved: Mapping[str, object]) -> None:
        """Check the number of workers, and that the run can be built in another process.

        Args:
            resolved: the configuration of the run as plain dictionaries.

        Raises:
            UserError: the number is out of range, or only memory holds the program or a scorer.
        """
        if self.workers is not None and not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(
                f"executor.workers={self.workers} is out of range; expected 1 to {MAX_WORKERS}, or "
                "null for one per core."
            )
        if parts := [name for name in list_in_memory(resolved) if name != "data"]:
            raise UserError(
                f"{' and '.join(parts)}: an object of this Python program cannot be built in worker processes; put it "
                "into a module and give package.module:name, or use executor=local."
            )
