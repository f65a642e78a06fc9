"""What tests of the whole command share: runs that touch pytest's own folders alone, a model server and an MLflow."""

import asyncio
import os
import signal
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from eval.config.tracking import LocalTracking
from mas.runtime.event_loop import background_loop, run_blocking
from tests.command import Command, Finished, run_command, surroundings, without_secrets
from tests.composed import compose_once
from tests.eval.command_line import EvalCommand
from tests.needs import count_missing
from tests.process import PRIORITY
from tests.servers.running import RunningServer, running_llm

_experiments = count()
settings.register_profile("short", max_examples=25, deadline=None)
settings.load_profile("short")


@pytest.fixture(scope="session", autouse=True)
def composed_once() -> Iterator[None]:
    """Compose each choice of files of `conf/` once: see `tests.composed`."""
    with pytest.MonkeyPatch.context() as patch:
        compose_once(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def state_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests, and the commands that they start, away from the user's own list of runs and sealed tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def nobody_comes_last() -> Iterator[None]:
    """Commands give some of their processes the lowest priority; tests would wait minutes for those."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PRIORITY), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """A run waits ten times for its files to be on the disk, for a failure of the power that no test brings about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def connections_are_closed() -> Iterator[None]:
    """Close the connections to model servers, which a command keeps until its process ends."""
    yield
    if background_loop.cache_info().currsize:
        loop: Any = background_loop()
        loop.call_soon_threadsafe(lambda: [each.abort() for each in list(loop._transports.values())])
        run_blocking(asyncio.sleep(0.1))


@pytest.fixture(scope="session", autouse=True)
def restore_signals() -> None:
    """Undo what a shell and `nohup` do to commands in the background: they ignore SIGINT or SIGHUP.

    So would their child processes, and a test that sends them such a signal would wait for ever.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """Run a command below `tmp_path`: see `tests.command.run_command`."""
    with surroundings(tmp_path):
        yield partial(run_command, tmp_path)


@pytest.fixture
def eval_command(command: Command) -> EvalCommand:
    return partial(command, "eval")


@pytest.fixture(scope="session")
def llm_server() -> Iterator[RunningServer]:
    """A loopback model that has function calling; reset it before counting its requests."""
    with running_llm() as server:
        yield server


@pytest.fixture
def sure_command(eval_command: EvalCommand, llm_server: RunningServer) -> EvalCommand:
    """The command with a model that makes no mistakes, for tests of what surrounds it; another may still be named."""
    model = ("model=openai_compatible", f"model.base_url={llm_server.base_url}")

    def command(*arguments: str) -> Finished:
        flags = [each for each in arguments if each.startswith("-")]  # Hydra wants them before or after all options
        return eval_command(*flags, *model, *(each for each in arguments if each not in flags))

    return command


@pytest.fixture(scope="session")
def clean_environment() -> dict[str, str]:
    """For subprocesses: this process's environment without keys."""
    return without_secrets(os.environ)


@pytest.fixture(scope="session")
def mlflow_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one real MLflow store for all tests: making one takes seconds."""
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture
def local(mlflow_folder: Path, monkeypatch: pytest.MonkeyPatch) -> LocalTracking:
    """An experiment of the test's own in that store."""
    assert "MLFLOW_TRACKING_USERNAME" not in os.environ
    settings = LocalTracking(experiment=f"experiment {next(_experiments)}", folder=str(mlflow_folder))
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)  # so that what the code sets is undone at the end
    return settings


SKIPPED = "skipped/for-want-of-a-package"  # key in pytest's cache
LONGEST = (  # files of slow tests, the longest first: begun last, one of them kept a core waiting for minutes
    *("test_ray", "test_mlflow_server", "test_planted_faults", "test_tutorial", "test_bos_sample"),
    *("test_kill_loop", "test_kill_and_resume", "test_your_program", "test_exporter_launcher", "test_stopping_early"),
    *("test_tuning_in_workers", "test_budgets", "test_extend", "test_worlds", "test_whole_run", "test_over_http"),
    *("test_report", "test_comparison", "test_report_size", "test_mlflow_pages", "test_leaky_world"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    more = "the slow tests, and those that the last run skipped for want of a package"
    parser.addoption("--left-out", action="store_true", help=more)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare a run of the slow tests the import of all files that have none: each worker would take half a minute."""
    left_out = config.getoption("--left-out")
    if collection_path.suffix != ".py" or not (left_out or config.option.markexpr == "slow"):
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    if left_out and any(node.startswith(f"{file}::") for node in _list_skipped(config)):
        return None
    return None if "slow" in collection_path.read_text("utf-8") else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--left-out"):
        skipped = set(_list_skipped(config))
        kept = [item for item in items if item.nodeid in skipped or item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def _list_skipped(config: pytest.Config) -> list[str]:
    cache = getattr(config, "cache", None)  # none with `-p no:cacheprovider`
    return list(cache.get(SKIPPED, [])) if cache else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Count the tests that were skipped for want of a program, by package, and note them for `--left-out`."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if count_missing([report.longrepr[2]])]
    if cache := getattr(config, "cache", None):
        cache.set(SKIPPED, sorted({report.nodeid for report in skipped}))
    if missing := count_missing(report.longrepr[2] for report in skipped):
        listed = ", ".join(f"{package} {n}" for package, n in sorted(missing.items()))
        terminalreporter.write_line(f"skipped for want of a package: {listed}")
