"""Output that nobody reads any more, with real pipes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from eval.lasting_output import lasting_output
from eval.paths import PROJECT_ROOT


@contextmanager
def unread() -> Iterator[TextIO]:
    """A pipe whose reader is gone, as standard output."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        yield stream
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), writing)  # closing would write what the stream still has
    stream.close()


def test_what_cannot_be_written_any_more_goes_nowhere() -> None:
    with unread() as stream:
        with lasting_output():
            print("x" * 100_000)  # more than any buffer takes
            print("and more", flush=True)
        assert sys.stdout is stream
        print("and after", flush=True)


def test_without_it_the_same_output_ends_the_command() -> None:
    with unread(), pytest.raises(BrokenPipeError):
        print("x" * 100_000, flush=True)


def test_another_failure_of_writing_is_told() -> None:
    with Path("/dev/full").open("w") as full, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="No space left"), lasting_output():
            print("x", flush=True)
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), full.fileno())


@pytest.mark.parametrize("script", ["eval/run.py", "optimize/run.py"])
def test_help_into_head_says_nothing_else(script: str, clean_environment: dict[str, str]) -> None:
    command = [sys.executable, str(PROJECT_ROOT / script), "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=clean_environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)
