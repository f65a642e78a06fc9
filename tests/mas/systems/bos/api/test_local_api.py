"""An API that is started for the time of a run."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.api import local_api
from mas.systems.bos.api.local_api import run_api
from mas.systems.bos.api.services import open_api
from mas.systems.bos.api.settings import ApiSettings

SHOP_API = ["python", "-m", "eval.benchmarks.databases.shop_api"]
DOCUMENTATION = Path(__file__).parents[5] / "eval" / "benchmarks" / "databases" / "shop" / "api_docs_context.yaml"


def test_the_sample_api_runs_as_long_as_it_is_needed_and_counts_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOS_API_BASE_URL", "https://api.example.org")
    with open_api(ApiSettings(documentation=str(DOCUMENTATION), command=SHOP_API)) as services:
        address = services.settings.base_url
        assert address is not None and address.startswith("http://127.0.0.1:")
        assert not os.environ.get(services.settings.base_url_env)
        assert httpx.get(f"{address}/rates/nok").json() == {"currency": "NOK", "per_euro": 11.52}
        assert httpx.get(f"{address}/reports/margin").status_code == 500
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/rates/nok")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["no-such-program"], "cannot be started"),
        ([sys.executable, "-c", "print('ready')"], "expected an address"),
        ([sys.executable, "-c", "print('http://api.example.org')"], "expected an address of this machine"),
        ([sys.executable, "-c", ""], "expected an address"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "expected an address"),
    ],
)
def test_a_command_that_serves_nothing_is_the_users_mistake(
    command: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_api, "START_SECONDS", 0.5 if "sleep" in command[-1] else 20.0)
    with pytest.raises(UserError, match=reason), run_api(command):
        pass


def test_a_started_api_sees_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOS_API_TOKEN", "s3cret")
    code = "import os; print('http://127.0.0.1:1/' + os.environ.get('BOS_API_TOKEN', 'none'), flush=True)"
    with run_api([sys.executable, "-c", code]) as address:
        assert address == "http://127.0.0.1:1/none"


class Process:
    """Stands in for a started command; it notes how it is started and ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: str, is_ready: bool = True, ends: bool = True) -> None:
        self.line, self.is_ready, self.ends = line, is_ready, ends
        self.started: list[tuple[object, dict[str, object]]] = []
        self.done: list[object] = []
        self.stdout = SimpleNamespace(readline=lambda: self.line, close=lambda: self.done.append("close"))
        monkeypatch.setattr(subprocess, "Popen", self.start)
        monkeypatch.setattr(local_api, "select", SimpleNamespace(select=self.select))
        monkeypatch.setattr(local_api, "build_child_environment", lambda: {"PATH": "/bin"})

    def start(self, words: object, **options: object) -> "Process":
        self.started.append((words, options))
        return self

    def select(self, *arguments: object) -> tuple[list[object], list[object], list[object]]:
        assert arguments == ([self.stdout], [], [], 30.0)
        return ([self.stdout] if self.is_ready else []), [], []

    def terminate(self) -> None:
        self.done.append("terminate")

    def kill(self) -> None:
        self.done.append("kill")
        self.ends = True

    def wait(self, *seconds: float) -> None:
        self.done.append(("wait", *seconds))
        if not self.ends:
            raise subprocess.TimeoutExpired("serve", 5)


@pytest.mark.parametrize(
    ("ends", "done"),
    [
        (True, ["terminate", ("wait", 5.0), "close"]),
        (False, ["terminate", ("wait", 5.0), "kill", ("wait",), "close"]),
    ],
)
def test_an_api_is_started_without_input_and_ended_by_force_if_it_must_be(
    monkeypatch: pytest.MonkeyPatch, ends: bool, done: list[object]
) -> None:
    process = Process(monkeypatch, " http://localhost:8080/v1// \n", ends=ends)
    with run_api(["python", "-m", "python"]) as address:
        assert address == "http://localhost:8080/v1"
        assert process.done == []
    assert process.done == done
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True, "env": {"PATH": "/bin"}}
    assert process.started == [([sys.executable, "-m", "python"], options)]


def test_another_program_is_started_as_it_is_called_and_ended_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, "http://[::1]:1")
    with pytest.raises(KeyError), run_api(["serve", "it"]) as address:
        assert address == "http://[::1]:1"
        raise KeyError
    assert process.started[0][0] == ["serve", "it"]
    assert process.done == ["terminate", ("wait", 5.0), "close"]


@pytest.mark.parametrize(
    ("line", "is_ready", "shown"),
    [
        ("http://127.0.0.1:1", False, ""),
        ("", True, ""),
        ("http://127.0.0.2:1\n", True, "http://127.0.0.2:1"),
        ("ftp://localhost", True, "ftp://localhost"),
        ("x" * 81, True, "x" * 80),
    ],
)
def test_a_first_line_that_is_no_address_of_this_machine_is_shown(
    monkeypatch: pytest.MonkeyPatch, line: str, is_ready: bool, shown: str
) -> None:
    process = Process(monkeypatch, line, is_ready)
    with pytest.raises(UserError) as raised, run_api(["serve", "it"]):
        pass
    assert str(raised.value) == (
        f"system.api.command=serve it printed {shown!r} within 30 s; expected an address of this machine as its first "
        "line, such as http://127.0.0.1:8080."
    )
    assert process.done == ["terminate", ("wait", 5.0), "close"]


def test_a_program_that_is_missing_is_named_with_its_arguments() -> None:
    with pytest.raises(UserError) as raised, run_api(["no-such-program", "it"]):
        pass
    missing = "[Errno 2] No such file or directory: 'no-such-program'"
    assert str(raised.value) == f"system.api.command=no-such-program it cannot be started ({missing}); correct it."
