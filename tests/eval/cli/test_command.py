"""Exit codes and sentences of the command, around a task that does nothing."""

import io
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from omegaconf import DictConfig
from rich.table import Table

from eval.cli.command import (
    InterruptedRunError,
    handle_signals,
    run_cli,
    run_command,
    survive_broken_pipe,
)
from eval.cli.paths import PROJECT_ROOT
from eval.execution.console import Console
from eval.execution.termination import StopController
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from tests.sampling import mostly_slow

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def command(task: Callable[[DictConfig], int], *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["eval/run.py", *arguments])
        return run_cli(lambda: run_command(task, "eval"))

    return command


@pytest.mark.parametrize(("codes", "expected"), mostly_slow([([1, 3, 2], 3), ([0, 2, 0], 2), ([2, 1, 0], 1)]))
def test_a_multirun_runs_every_job_and_ends_with_the_worst_code(run: Run, codes: list[int], expected: int) -> None:
    seeds: list[int] = []

    def task(composed: DictConfig) -> int:
        seeds.append(composed.seed)
        return codes[len(seeds) - 1]

    assert run(task, "--multirun", "seed=0,1,2") == expected
    assert seeds == [0, 1, 2]


def test_a_fault_of_the_program_itself_is_not_hidden(run: Run) -> None:
    def task(composed: DictConfig) -> int:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        run(task)
    with pytest.raises(ValueError, match="another bug"):
        run(lambda composed: int("another bug"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "cp437", "koi8-r", "shift_jis", "utf-8"])
def test_a_terminal_shows_what_its_encoding_has_and_ends_no_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    text = "5 \u20ac \u2192 na\u00efve \u0433\u043e\u0434 \u65e5\u672c \U0001f389"
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, errors="strict", write_through=True) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])

    def task(composed: DictConfig) -> int:
        print_line(text)
        print_line(text, error=True)
        table = Table(text)
        table.add_row(text)
        Console(width=200).print(table)
        raise UserError(text)

    assert run(task) == 1
    shown = "".join(each if each.encode(encoding, "ignore") else "?" for each in text)
    for stream, times in zip(streams, (3, 2), strict=True):
        written = stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
        assert written.count(shown) == times


def test_an_interrupted_run_ends_a_multirun_with_3(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seeds: list[int] = []

    def task(composed: DictConfig) -> int:
        seeds.append(composed.seed)
        raise InterruptedRunError

    assert run(task, "-m", "seed=0,1") == 3
    assert seeds == [0]
    assert capsys.readouterr().err == ""


def test_sigterm_outside_the_questions_ends_the_command_as_ctrl_c_does(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    others: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: others.append(number))
    own = signal.getsignal(signal.SIGTERM)

    def task(composed: DictConfig) -> int:
        with StopController().handle_signals():
            pass
        os.kill(os.getpid(), signal.SIGTERM)  # as while reports are written
        return 0

    try:
        assert run(task) == 3
        assert signal.getsignal(signal.SIGTERM) is own, "given back"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert others == []
    assert capsys.readouterr().err.startswith("stopped by SIGTERM; a run that had begun keeps what it has")


class Referred:
    """Something that a weak reference can refer to."""


def test_a_signal_where_python_can_only_print_it_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: printed.append(lost.exc_type))

    def interrupt(name: str) -> None:
        raise KeyboardInterrupt(name)

    with handle_signals(interrupt):
        for callback in (lambda _: signal.raise_signal(signal.SIGINT), lambda _: 1 / 0):
            value = Referred()
            _reference = weakref.ref(value, callback)
            del value
    assert printed == [ZeroDivisionError]


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


def test_what_a_full_disk_has_lost_is_told_and_in_the_exit_code(clean_environment: dict[str, str]) -> None:
    command = [sys.executable, str(PROJECT_ROOT / "eval/run.py"), "--help"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=clean_environment, text=True)
    assert ended.stderr == "error: the output could not be written (no space left on device); free disk space.\n"
    assert ended.returncode == 2


def test_help_into_head_says_nothing_else(clean_environment: dict[str, str]) -> None:
    command = [sys.executable, str(PROJECT_ROOT / "optimize/run.py"), "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=clean_environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)
