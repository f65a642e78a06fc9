"""The second choice's command line and trial, without Deno: a script stands in for its program."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mas.tools.sandbox import deno
from mas.tools.sandbox.deno import HERE, INSTALL, MAX_FILE_BYTES, Deno, _build_command, _find_program
from mas.tools.sandbox.process import DIES_WITH_PARENT, Launch, die_with_parent
from mas.tools.sandbox.session import NotAvailableError
from mas.tools.sandbox.settings import SandboxSettings

Say = Callable[[str], str]


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Put a program named deno on the path, which has a cache, and of which the other lines are given."""

    def make(script: str) -> str:
        program = tmp_path / "deno"
        info = f'[ "$1" = info ] && echo \'{{"denoDir": "{tmp_path}/cache"}}\' && exit'
        program.write_text(f"#!/bin/sh\n{info}\n{script}\n")
        program.chmod(0o755)
        return str(program)

    monkeypatch.setattr(deno, "_packaged", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-inside")
    return make


def test_deno_may_read_its_cache_the_notebook_and_the_files_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert _build_command("deno", str(tmp_path / "link"), "/a.csv", "/b.csv") == [
        *("deno", "run", "--cached-only", "--no-remote", "--no-prompt", "--no-config", "--no-lock"),
        "--node-modules-dir=none",
        f"--allow-read={tmp_path.resolve()},{HERE / 'notebook.py'},/a.csv,/b.csv",
        str(HERE / "runner.js"),
    ]
    with pytest.raises(NotAvailableError) as caught:
        _build_command("deno", str(tmp_path), "/a.csv", "/b,c.csv")
    assert str(caught.value) == "Deno cannot be given a file with a comma in its path; rename the file."


def refuse(call: Callable[[], object]) -> str:
    with pytest.raises(NotAvailableError) as caught:
        call()
    return str(caught.value)


def test_the_program_and_its_cache_are_found(says: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refuse(_find_program) == f"Deno is not installed: {INSTALL}."
    program = says("exit 1")
    assert _find_program() == (program, f"{tmp_path}/cache")
    monkeypatch.setattr(deno, "_packaged", lambda: program)
    monkeypatch.setenv("PATH", "/nowhere")
    assert _find_program() == (program, f"{tmp_path}/cache")


@pytest.mark.parametrize(
    ("script", "kind"),
    [("echo no", "JSONDecodeError"), ("echo {}", "KeyError"), ("exit 2", "CalledProcessError")],
)
def test_a_program_that_does_not_know_its_cache_is_none(script: str, kind: str, tmp_path: Path, says: Say) -> None:
    (tmp_path / "deno").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "deno").chmod(0o755)
    assert refuse(_find_program) == f"Deno does not run here ({kind}): {INSTALL}."


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 42", None),
        ("echo 41", "Deno cannot run Pyodide here (exit code 0)"),
        ("echo 42; exit 7", "Deno cannot run Pyodide here (exit code 7)"),
        ("echo 'error: a' >&2; echo b >&2; exit 1", "Deno cannot run Pyodide here (error: a)"),
        ("echo 'no npm package' >&2; exit 1", "Deno cannot run Pyodide here (it is not in Deno's cache)"),
        (f"echo {'x' * 300} >&2; exit 1", f"Deno cannot run Pyodide here ({'x' * 200})"),
        ('echo "42$OPENAI_API_KEY"', None),
    ],
)
def test_a_program_is_tried_with_a_product(script: str, message: str | None, says: Say) -> None:
    says(f'for last; do true; done\n[ "$last" = --probe ] || exit 9\n{script}')
    if message is None:
        assert Deno().probe() == "Deno runs Python in WebAssembly (no pandas or numpy)"
    else:
        assert refuse(Deno().probe) == f"{message}: {INSTALL}."


def test_a_program_that_does_not_start_is_told_by_its_error(says: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    says("echo 42")
    isolation = Deno()
    assert isolation._program

    def fail(*_: object, **__: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(subprocess, "run", fail)
    assert refuse(isolation.probe) == f"Deno does not run here (PermissionError): {INSTALL}."


def test_a_session_has_small_files_and_the_limits_of_its_settings(
    says: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, waited = list[Launch](), list[bool]()

    class Started:
        def __init__(self, launch: Launch) -> None:
            started.append(launch)

        async def wait_until_ready(self) -> None:
            waited.append(True)

    monkeypatch.setattr(deno, "ProcessSession", Started)
    program = says("exit 1")
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    for path, length in ((small, MAX_FILE_BYTES), (large, MAX_FILE_BYTES + 1)):
        path.touch()
        os.truncate(path, length)
    settings = SandboxSettings(max_output_chars=7, memory_mb=128, seconds_per_question=9.9)
    session = asyncio.run(Deno().open({"s.csv": small, "l.csv": large, "folder": tmp_path}, settings))
    assert isinstance(session, Started) and waited == [True]
    (launch,) = started
    *command, given = launch.command
    assert command == [*die_with_parent(), *_build_command(program, f"{tmp_path}/cache", str(small.resolve()))]
    assert json.loads(given) == {"memory_mb": 128, "max_chars": 7, "files": {"s.csv": str(small.resolve())}}
    assert launch.env == {
        "DENO_DIR": f"{tmp_path}/cache",
        "DENO_NO_UPDATE_CHECK": "1",
        "DENO_NO_PACKAGE_JSON": "1",
        "NO_COLOR": "1",
    }
    assert (launch.max_message_bytes, launch.max_resident_bytes) == (100_140, 640 << 20)
    assert (launch.cwd, launch.pauses, launch.start_seconds, launch.cpu_seconds) == ("/", DIES_WITH_PARENT, 60.0, 69)
