"""Output that nobody reads any more, with real pipes."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from eval.cli.broken_pipe import survive_broken_pipe
from eval.cli.paths import PROJECT_ROOT


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
        with survive_broken_pipe():
            print("x" * 100_000)  # more than any buffer takes
            print("and more", flush=True)
        assert sys.stdout is stream
        print("and after", flush=True)


def test_without_it_the_same_output_ends_the_command() -> None:
    with unread(), pytest.raises(BrokenPipeError):
        print("x" * 100_000, flush=True)


@pytest.mark.parametrize("script", ["eval/run.py", "optimize/run.py"])
def test_what_a_full_disk_has_lost_is_told_and_in_the_exit_code(script: str, clean_environment: dict[str, str]) -> None:
    command = [sys.executable, str(PROJECT_ROOT / script), "--help"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=clean_environment, text=True)
    assert ended.stderr == "error: what it printed could not be written: no space left on device; make room.\n"
    assert ended.returncode == 2


def test_streams_that_were_closed_before_change_nothing(clean_environment: dict[str, str]) -> None:
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(PROJECT_ROOT / 'eval/run.py'))} --help"
    for closed in (">&-", "2>&- >&-"):
        ended = subprocess.run(["sh", "-c", f"{command} {closed}"], env=clean_environment, stderr=subprocess.PIPE)
        assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("script", ["eval/run.py", "optimize/run.py"])
def test_help_into_head_says_nothing_else(script: str, clean_environment: dict[str, str]) -> None:
    command = [sys.executable, str(PROJECT_ROOT / script), "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=clean_environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)
