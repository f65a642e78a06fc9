"""Settings of `executor=ray`: the samples of a run are answered in workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from mas.agents.targets import list_in_memory
from mas.runtime.errors import UserError

MAX_WORKERS = 256


@dataclass
class RaySettings:
    """The keys of `conf/executor/ray.yaml`."""

    workers: int | None = None  # null: one for each core of this machine, or for each CPU of the cluster
    address: str | None = None  # null: a Ray of its own on this machine; auto; HOST:PORT

    def check(self, resolved: Mapping[str, object]) -> None:
        """Check the settings, that Ray is installed, and that the run can be built in another process."""
        if self.workers is not None and not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"executor.workers={self.workers} is out of range; expected 1 to {MAX_WORKERS}, or null.")
        if parts := [name for name in list_in_memory(resolved) if name != "data"]:
            raise UserError(
                f"{' and '.join(parts)}: an object of this Python program cannot be built in workers; put it into a "
                "module and give package.module:name, or use executor=local."
            )
        if find_spec("ray") is None:
            raise UserError(
                "executor=ray needs the package ray, which is not installed; install it with: pip install "
                "'mas-harness[ray]', or use executor=local."
            )
