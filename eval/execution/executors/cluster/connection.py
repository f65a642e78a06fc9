"""Ray cluster of a run (`executor=ray`): one of its own on this machine, or the one at `executor.address`.

A Ray that is started for the run belongs to the user alone: others can reach its ports, but each call needs a token.

The nodes of another one get a folder, which Ray hands on by its digest and in which workers run. It has the harness,
the modules of the user's program and scorers, and attachments. Questions, answers, runs, keys and `.env` are no part
of it.
"""

import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.cli.command import STOP_SIGNALS
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from eval.config.executor import MAX_WORKERS, RaySettings
from mas.agents.source_digest import OURS, list_modules
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment

_STORE_BYTES = 80 * 2**20  # the least that Ray takes; it is for messages of more than 100 KB
_CHECK_SECONDS = 30.0  # for a cluster to answer
_TMP = "/tmp"  # with a longer path the addresses of Ray's sockets would be too long
_TOKEN = secrets.token_hex(32)
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # workers see the GPUs


@dataclass(frozen=True)
class RunCluster:
    """The cluster, to which this process is connected."""

    n_workers: int  # at the same time, at least 1
    resolved: Mapping[str, object]  # the configuration as plain dictionaries, from which workers build the program
    places: Mapping[Path, Path] | None = None  # of attachments in the folder that nodes get; None: they are as here


@contextmanager
def open_cluster(config: EvalConfig, samples: Sequence[Sample]) -> Iterator[RunCluster]:
    """Connect to the cluster of a run, once its program has been built in this process.

    `samples`: all that the run may answer. UserError: the cluster cannot be used, or an option must not be sent to it.
    """
    settings = config.executor
    assert isinstance(settings, RaySettings)
    with TemporaryDirectory(prefix="mas-ray-", dir=_TMP, ignore_cleanup_errors=True) as folder:
        if settings.address is None:
            n_workers = settings.workers or os.cpu_count() or 1
            with _start_ray(min(n_workers, config.run.concurrency), folder):
                yield RunCluster(n_workers, config.resolved)
        else:
            places = _copy_files(Path(folder), config, samples)
            with _join_ray(settings.address, folder) as n_cpus:
                n_workers = settings.workers or max(1, min(int(n_cpus), MAX_WORKERS))
                no_tracking = {"_target_": "eval.config.evaluation.NoTracking"}
                yield RunCluster(n_workers, {**_move(config.resolved), "tracking": no_tracking}, places)


def _start_ray(n_cpus: int, folder: str) -> AbstractContextManager[float]:
    """Start a Ray on this machine, with its files in the folder, that ends with the block, or with this process."""
    token = os.environ.get("RAY_AUTH_TOKEN") or _TOKEN
    options = {
        "address": "local",
        "num_cpus": n_cpus,
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": f"{folder}/ray",  # Ray lets everybody into this folder, but not into the one around it
        # Ray would replace 127.0.0.1 by an address that others can reach
        "_node_ip_address": "127.0.0.2" if sys.platform == "linux" else "127.0.0.1",
    }
    return _connect("Ray cannot be used: {}.", options, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token})


def _join_ray(address: str, folder: str) -> AbstractContextManager[float]:
    """Join a cluster, whose nodes get the folder."""
    refusal = f"the cluster at executor.address={address} cannot be used: {{}}; the command must run on a node of that "
    refusal += "cluster, with the same versions of Ray and Python."
    # In a process that can be killed, since Ray waits for ever for a server that is none.
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    environment = build_child_environment("RAY_*") | _QUIET
    try:
        subprocess.run(command, timeout=_CHECK_SECONDS, check=True, capture_output=True, text=True, env=environment)
    except subprocess.TimeoutExpired:
        raise UserError(refusal.format(f"no Ray has answered within {_CHECK_SECONDS:g} s")) from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it is not healthy"])[-1]
        raise UserError(refusal.format(last[:300].rstrip("."))) from None
    return _connect(refusal, {"address": address, "runtime_env": {"working_dir": folder}}, {})


@contextmanager
def _connect(refusal: str, options: Mapping[str, object], environment: Mapping[str, str]) -> Iterator[float]:
    """Connect this process to a cluster with these options of `ray.init`; yield the cluster's CPUs.

    Ray reads variables of the environment, once in a process, and workers on this machine inherit them. Signals of the
    terminal reach no process that is started here, and this process keeps its own handlers. UserError: the cluster
    cannot be used; `refusal` is the sentence, with `{}` for the reason. KeyboardInterrupt: SIGTERM came meanwhile.
    """
    os.environ.update(_QUIET | dict(environment))
    import ray

    logging.getLogger("ray").setLevel(logging.CRITICAL)  # what fails is in the run's own messages
    handler, masked = signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        try:
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except SystemExit as end:  # by the handler of SIGTERM that Ray sets meanwhile
            raise KeyboardInterrupt(STOP_SIGNALS[signal.SIGTERM]) from end
        except Exception as error:  # Ray raises all kinds
            first = str(error).strip().partition("\n")[0].rstrip(".")
            raise UserError(refusal.format(f"{type(error).__name__}: {first[:300]}")) from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        yield float(ray.cluster_resources().get("CPU", 0.0))
    finally:
        ray.shutdown()


def _copy_files(folder: Path, config: EvalConfig, samples: Sequence[Sample]) -> dict[Path, Path]:
    """Copy the files of a run into the folder, and return the place of each attachment within it.

    UserError: something must not leave this machine.
    """
    if any(config.redact(argument) != argument for argument in sys.argv):
        raise UserError(
            "an option of this command has a password or a key, and Ray writes the command into the cluster's "
            "records; name an environment variable instead."
        )
    for name, part in config.resolved.items():  # workers have their secrets from the environment of their machine
        as_text = json.dumps({name: part}, default=str)
        if name != "tracking" and json.dumps(config.redact_tree({name: part}), default=str) != as_text:
            raise UserError(
                f"the part {name} of the configuration has a password or a key, which would be sent through the "
                "cluster; name an environment variable instead, and set it on every node."
            )
    for package in ("mas", "eval"):
        ignored = shutil.ignore_patterns("__pycache__", "sample")  # the questions that come with the harness
        shutil.copytree(PROJECT_ROOT / package, folder / package, ignore=ignored)
    for module in _list_targets(config.resolved):
        if module.partition(".")[0] not in OURS:
            for name, path in list_modules(module).items():
                place = folder.joinpath(*name.split("."))
                _copy(path, place / path.name if path.name == "__init__.py" else place.with_suffix(".py"))
    attachments = sorted({each.file for each in samples if each.file is not None})
    places = {file: Path("files", str(number), file.name) for number, file in enumerate(attachments)}
    for file, place in places.items():
        _copy(file, folder / place)
    return places


def _move(value: Any) -> Any:
    """Return the value with files of the project where workers have the project."""
    if isinstance(value, Mapping):
        return {str(key): _move(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_move(each) for each in value]
    is_ours = isinstance(value, str) and Path(value).is_absolute() and Path(value).is_relative_to(PROJECT_ROOT)
    return f"${{project:{Path(str(value)).relative_to(PROJECT_ROOT).as_posix()}}}" if is_ours else value


def _list_targets(value: object) -> set[str]:
    if isinstance(value, Mapping):
        own = value.get("target")
        found = {own.partition(":")[0]} if isinstance(own, str) and ":" in own else set()
        return found.union(*map(_list_targets, value.values()))
    return set().union(*map(_list_targets, value)) if isinstance(value, list | tuple) else set()


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
