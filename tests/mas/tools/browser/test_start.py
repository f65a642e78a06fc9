"""`make browser` says in one sentence what is missing, and gives its server no key."""

import importlib.util
import socket
from pathlib import Path
from types import ModuleType

import pytest

from tests.servers.playwright_mcp import START, free_port

KEYS = ("OPENAI_API_KEY", "TAVILY_API_KEY", "MY_OWN_TOKEN")


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program, with nothing installed."""
    spec = importlib.util.spec_from_file_location("browser_start", START)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "bundled_node", lambda: None)
    monkeypatch.setattr("sys.argv", ["start.py"])
    monkeypatch.setenv("PATH", str(tmp_path))
    return module


def program(folder: Path, name: str, says: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        ({}, "error: node is missing; on Debian and Ubuntu: apt-get install nodejs npm"),
        ({"node": "v22.1.0"}, "error: Chromium is missing; on Debian and Ubuntu: apt-get install chromium"),
        ({"node": "v18.19.0", "chromium": ""}, "error: node v18.19.0 is too old: Playwright needs 20 or newer"),
    ],
)
def test_what_is_missing(
    start: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    there: dict[str, str],
    sentence: str,
) -> None:
    for name, says in there.items():
        program(tmp_path, name, says)
    assert start.main() == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(sentence) and said.err.count("\n") == 1


def test_an_old_node_of_the_system_is_passed_over_for_the_bundled_one(
    start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "node", "v18.19.0")
    newer = program(tmp_path, "newer", "v24.0.0")
    monkeypatch.setattr(start, "bundled_node", lambda: newer)
    assert start.main() == 1
    assert capsys.readouterr().err.startswith("error: Chromium is missing")


def test_the_server_is_started_without_keys(start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "environment"
    node = tmp_path / "node"
    node.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo v22.1.0 || /usr/bin/env > "{seen}"\n')
    node.chmod(0o755)
    program(tmp_path, "chromium", "")
    monkeypatch.setattr(start, "_install", lambda: None)
    monkeypatch.setattr("sys.argv", ["start.py", "--port", str(free_port())])
    for name in KEYS:
        monkeypatch.setenv(name, f"the value of {name}")
    assert start.main() == 1  # this server ends at once
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "PATH" in names and not names & set(KEYS)
    assert "the value of" not in seen.read_text()


def test_a_port_that_is_taken(
    start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "node", "v22.1.0")
    program(tmp_path, "chromium", "")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["start.py", "--port", str(port)])
        assert start.main() == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: cannot listen at 127.0.0.1:{port} (") and "make browser PORT=3001" in said
