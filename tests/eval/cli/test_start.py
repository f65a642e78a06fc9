"""Ends of a command before it runs: packages that are not installed, and Ctrl-C while it loads."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("eval", "optimize")
    for path in (ROOT / folder).glob("*.py")
    if path.name not in ("__init__.py", "doctor.py")  # the doctor reports missing packages itself
)


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_packages_are_one_sentence(command: str) -> None:
    done = subprocess.run(  # -S: without site-packages, as a Python in which nothing was installed
        [sys.executable, "-S", command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "is missing in" in line and "make setup" in line


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("KeyboardInterrupt", 3, "stopped by Ctrl-C; nothing was started."),
        ("ModuleNotFoundError('x', name='numpy.core')", 1, "the package numpy.core is missing"),
        ("ModuleNotFoundError('x', name='eval.nowhere')", 1, "Traceback"),
        ("ZeroDivisionError", 1, "Traceback"),
    ],
)
def test_what_ends_a_command_while_it_loads(error: str, code: int, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import eval.cli.start\nraise {error}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code
    assert words in done.stderr
    assert ("Traceback" in done.stderr) == (words == "Traceback")


class ExitedError(Exception):
    """The process would have ended with this code."""


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 3, "stopped by Ctrl-C; nothing was started.\n"),
        *(
            (
                ModuleNotFoundError("x", name=name),
                1,
                f"error: the package {name} is missing in {sys.executable}: run `make setup` once, then start the "
                "command with .venv/bin/python (or after: source .venv/bin/activate).\n",
            )
            for name in ("dspy", "evaluate", "other.eval")
        ),
        (ModuleNotFoundError("x", name="mas"), None, ""),
        (ModuleNotFoundError("x", name="optimize.search.nowhere"), None, ""),
        (ImportError("x", name="dspy"), None, ""),
    ],
)
def test_what_is_no_defect_ends_in_one_sentence_and_python_shows_the_rest(
    error: BaseException, code: int | None, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shown: list[tuple[object, ...]] = []

    def end(code: int) -> None:
        raise ExitedError(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    start = importlib.import_module("eval.cli.start")
    monkeypatch.setattr(sys, "__excepthook__", lambda *given: shown.append(given))
    if code is None:
        start.explain_failed_start(type(error), error, None)
        assert shown == [(type(error), error, None)]
    else:
        with pytest.raises(ExitedError) as exited:
            start.explain_failed_start(type(error), error, None)
        assert (exited.value.args, shown) == ((code,), [])
    assert capsys.readouterr() == ("", told)
