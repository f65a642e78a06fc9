"""Ray cluster of a run (`executor=ray`): one of its own on this machine, or the one at `executor.address`.

    with open_cluster(config, resolved, samples) as cluster:
        cluster.n_workers                       # 8

A Ray that is started for the run belongs to the user alone: others can reach its ports, but each call needs a token.
"""

import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

from eval.benchmarks.dataset import Sample
from eval.cli.command import STOP_SIGNALS
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from eval.config.executor import MAX_WORKERS, RaySettings
from eval.execution.executors.cluster.messages import Start
from eval.execution.executors.cluster.package import Package, open_package
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment

_STORE_BYTES = 80 * 2**20  # the least that Ray takes; it is for messages of more than 100 KB
_CHECK_SECONDS = 30.0  # for a cluster to answer
_TMP = "/tmp"  # with a longer path the addresses of Ray's sockets would be too long
_TOKEN = secrets.token_hex(32)  # Ray reads it once in a process
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # workers see the GPUs


@dataclass(frozen=True)
class RunCluster:
    """The cluster, to which this process is connected."""

    n_workers: int  # at the same time, at least 1
    package: Package | None = None  # the files of the run that its nodes get; None: they are on this machine

    def move(self, sample: Sample) -> Sample:
        """Return the sample with its attachment where workers find it."""
        if self.package is None or sample.file is None:
            return sample
        return replace(sample, file=self.package.places[sample.file])

    def move_start(self, start: Start) -> Start:
        """Return the first message as workers need it."""
        if self.package is None:
            return start
        return replace(start, config={**start.config, **self.package.config}, path=())


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
        UserError: the cluster cannot be used, or a file or an option must not be sent to it.
    """
    settings = config.executor
    assert isinstance(settings, RaySettings)
    if settings.address is None:
        n_workers = settings.workers or os.cpu_count() or 1
        with _start_ray(min(n_workers, config.run.concurrency)):
            yield RunCluster(n_workers)
        return
    if any(config.redact(argument) != argument for argument in sys.argv):
        raise UserError(
            "an option of this command has a password or a key, and Ray writes the command into the cluster's "
            "records; name an environment variable instead."
        )
    with (
        open_package(config, resolved, samples, settings.files) as package,
        _join_ray(settings.address, package) as n_cpus,
    ):
        yield RunCluster(settings.workers or max(1, min(int(n_cpus), MAX_WORKERS)), package)


@contextmanager
def _start_ray(n_cpus: int) -> Iterator[None]:
    """Start a Ray on this machine that ends with the block, or with this process."""
    path = os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH")]))
    token = os.environ.get("RAY_AUTH_TOKEN") or _TOKEN
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "PYTHONPATH": path}
    temporary = TemporaryDirectory(prefix="mas-ray-", dir=_TMP, ignore_cleanup_errors=True)
    with (
        temporary as folder,
        _set_environment(**_QUIET, **own),
        _connect(
            "Ray",
            address="local",
            num_cpus=n_cpus,
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=f"{folder}/ray",  # Ray lets everybody into this folder, but not into the one around it
            # Ray would replace 127.0.0.1 by an address that others can reach
            _node_ip_address="127.0.0.2" if sys.platform == "linux" else "127.0.0.1",
        ),
    ):
        yield


@contextmanager
def _join_ray(address: str, package: Package) -> Iterator[float]:
    """Join a cluster; yield its number of CPUs."""
    hint = "; the command must run on a node of that cluster, with the same versions of Ray and Python"
    what, files = f"the cluster at executor.address={address}", {"working_dir": str(package.folder)}
    # In a process that can be killed, since Ray waits for ever for a server that is none.
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    options = {"capture_output": True, "text": True, "env": build_child_environment("RAY_*")}
    with _set_environment(**_QUIET):
        try:
            subprocess.run(command, timeout=_CHECK_SECONDS, check=True, **options)  # type: ignore[call-overload]
        except subprocess.TimeoutExpired:
            raise UserError(f"{what} cannot be used: no Ray has answered within {_CHECK_SECONDS:g} s{hint}.") from None
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["it is not healthy"])[-1]
            raise UserError(f"{what} cannot be used: {last[:300]}{hint}.") from None
        with _connect(what, hint, address=address, runtime_env=files) as n_cpus:
            yield n_cpus


@contextmanager
def _connect(what: str, hint: str = "", **options: object) -> Iterator[float]:
    """Connect this process to a cluster with these options of `ray.init`; yield the cluster's CPUs.

    Signals of the terminal reach no process that is started here, and this process keeps its own handlers.

    Raises:
        UserError: it cannot be used; the message begins with `what` and ends with `hint`.
        KeyboardInterrupt: SIGTERM came meanwhile.
    """
    import ray

    logging.getLogger("ray").setLevel(logging.CRITICAL)  # what fails is in the run's own messages
    handler, masked = signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        ray.init(log_to_driver=False, configure_logging=False, **options)
    except SystemExit as end:  # by the handler of SIGTERM that Ray sets meanwhile
        raise KeyboardInterrupt(STOP_SIGNALS[signal.SIGTERM]) from end
    except Exception as error:  # Ray raises all kinds
        first = next(iter(str(error).strip().splitlines()), "")
        raise UserError(f"{what} cannot be used: {type(error).__name__}: {first[:300]}{hint}.") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    try:
        yield float(ray.cluster_resources().get("CPU", 0.0))
    finally:
        ray.shutdown()


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
