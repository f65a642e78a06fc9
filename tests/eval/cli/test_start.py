"""Ends of a command before it runs: packages that are not installed, and Ctrl-C while it loads."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("eval", "optimize")
    for path in (ROOT / folder).glob("*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_packages_are_one_sentence(command: str) -> None:
    done = subprocess.run(  # -S: without site-packages, as a Python in which nothing was installed
        [sys.executable, "-S", command, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "is missing in" in line and "make setup" in line


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("KeyboardInterrupt", 3, "stopped by Ctrl-C."),
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
    )
    assert done.returncode == code
    assert words in done.stderr
    assert ("Traceback" in done.stderr) == (words == "Traceback")
