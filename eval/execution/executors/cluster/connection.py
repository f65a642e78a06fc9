"""Ray cluster of a run (`executor=ray`): one of its own on this machine, or the one at `executor.address`.

    with open_cluster(config, resolved, samples) as cluster:
        channel = cluster.start_worker()        # in a new actor
        await channel.open(cluster.move_start(start))

A Ray that is started for the run belongs to the user alone: others can reach its ports, but each call needs a token.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from eval.config.executor import MAX_WORKERS, RaySettings
from eval.execution.executors.cluster.messages import Start
from eval.execution.executors.cluster.package import Package, open_package
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment

if TYPE_CHECKING:
    from eval.execution.executors.cluster.actors import ActorChannel

_STORE_BYTES = 80 * 2**20  # the least that Ray takes; it is for messages of more than 100 KB
_CHECK_SECONDS = 30.0  # for a cluster to answer
_TMP = "/tmp"  # with a longer path the addresses of Ray's sockets would be too long
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # workers see the GPUs


@dataclass(frozen=True)
class RunCluster:
    """The cluster, to which this process is connected."""

    n_workers: int  # at the same time, at least 1
    package: Package | None = None  # the files of the run that its nodes get; None: they are on this machine

    def move(self, sample: Sample) -> Sample:
        """Return the sample with its attachment where workers find it."""
        return sample if self.package is None else self.package.move(sample)

    def move_start(self, start: Start) -> Start:
        """Return the first message as workers need it."""
        if self.package is None:
            return start
        return replace(start, config={**start.config, **self.package.config}, path=(), folder=None)

    def start_worker(self) -> "ActorChannel":
        """Start a worker."""
        from eval.execution.executors.cluster.actors import ActorChannel

        return ActorChannel()


@contextmanager
def open_cluster(config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample]) -> Iterator[RunCluster]:
    """Connect to the cluster of a run, once its program has been built in this process.

    Args:
        config: of the run, with `executor=ray`.
        resolved: the same as plain dictionaries, from which workers build the program.
        samples: all that the run may answer, with their attachments.

    Yields:
        The cluster.

    Raises:
        UserError: the cluster cannot be used, has too few CPUs, or a file must not be sent to it.
    """
    settings = config.executor
    assert isinstance(settings, RaySettings)
    with ExitStack() as stack:
        if settings.address is None:
            n_workers = settings.workers or os.cpu_count() or 1
            stack.enter_context(_start_ray(min(n_workers, config.run.concurrency)))
            yield RunCluster(n_workers)
            return
        package = stack.enter_context(open_package(config, resolved, samples, settings.files))
        if any(config.redact(argument) != argument for argument in sys.argv):
            raise UserError(
                "an option of this command has a password or a key, and Ray writes the command into the cluster's "
                "records; name an environment variable instead."
            )
        n_cpus = int(stack.enter_context(_join_ray(settings.address, package)))
        yield RunCluster(settings.workers or max(1, min(n_cpus, MAX_WORKERS)), package)


@contextmanager
def _start_ray(n_cpus: int) -> Iterator[None]:
    """Start a Ray on this machine that ends with the block, or with this process."""
    path = os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH")]))
    token = os.environ.get("RAY_AUTH_TOKEN") or _make_token()
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "PYTHONPATH": path}
    temporary = TemporaryDirectory(prefix="mas-ray-", dir=_TMP, ignore_cleanup_errors=True)
    with temporary as folder, _set_environment(**_QUIET, **own):
        from eval.execution.executors.cluster.actors import connect

        with connect(
            "Ray",
            address="local",
            num_cpus=n_cpus,
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=f"{folder}/ray",  # Ray lets everybody into this folder, but not into the one around it
            # Ray would replace 127.0.0.1 by an address that others can reach
            _node_ip_address="127.0.0.2" if sys.platform == "linux" else "127.0.0.1",
        ):
            yield


@contextmanager
def _join_ray(address: str, package: Package) -> Iterator[float]:
    """Join a cluster; yield its number of CPUs."""
    hint = "; the command must run on a node of that cluster, with the same versions of Ray and Python"
    what, files = f"the cluster at executor.address={address}", {"working_dir": str(package.folder)}
    with _set_environment(**_QUIET):
        _check_health(address, what, hint)
        from eval.execution.executors.cluster.actors import connect

        with connect(what, hint, address=address, runtime_env=files) as n_cpus:
            yield n_cpus


def _check_health(address: str, what: str, hint: str) -> None:
    """Check that a Ray answers; in a process that can be killed, since Ray waits for ever for anything else."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    environment = build_child_environment("RAY_*")
    try:
        checked = subprocess.run(
            command, capture_output=True, text=True, timeout=_CHECK_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{what} cannot be used: no Ray has answered within {_CHECK_SECONDS:g} s{hint}.") from None
    if checked.returncode:
        last = (checked.stderr.strip().splitlines() or ["it is not healthy"])[-1]
        raise UserError(f"{what} cannot be used: {last[:300]}{hint}.")


@contextmanager
def _set_environment(**variables: str) -> Iterator[None]:
    """Set variables, which Ray reads and workers on this machine inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@cache  # Ray reads it once in a process
def _make_token() -> str:
    return secrets.token_hex(32)
