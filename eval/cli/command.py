"""From a command line to an exit code: Hydra's composition, and its errors, as this tool's users should see them.

Exit codes: 0 finished · 1 the user's mistake, nothing spent · 2 finished, but some questions failed by error, or the
accuracy is below `run.fail_under` · 3 stopped before the end. Of a multirun, the first that is not 0 in the
order 3, 1, 2.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import hydra
from dotenv import load_dotenv
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from eval.cli.hydra_compat import (
    MISTAKES,
    _raise_plain_errors,
    check_overrides,
    describe_mistake,
    is_mistake,
    read_flags,
    register_help,
)
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.cli.terminal_text import escape_controls
from mas.runtime.errors import UserError

_UNREAD = (errno.EPIPE, errno.EIO)  # the reader of a pipe is gone; the terminal


class Output:
    """What became of it."""

    lost: str | None = None


@contextmanager
def survive_broken_pipe() -> Iterator[Output]:
    """Standard output and standard error inside; both as they were outside."""
    before, output = (sys.stdout, sys.stderr), Output()
    sys.stdout, sys.stderr = (_Lasting(stream, output) if stream else stream for stream in before)
    try:
        yield output
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
        sys.stdout, sys.stderr = before


class _Lasting:
    """A text stream in front of another; whatever is not about writing is the other's."""

    def __init__(self, stream: TextIO, output: Output) -> None:
        self._stream, self._output = stream, output

    def write(self, text: str) -> int:
        self._unless_gone(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._unless_gone(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _unless_gone(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            if error.errno not in _UNREAD:
                self._output.lost = error.strerror
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())  # also what is still in the stream's buffer goes there


CLOSED = {signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP (its terminal was closed)"}
ENDING = {signal.SIGINT: "Ctrl-C", **CLOSED}


@contextmanager
def handle_signals(hear: Callable[[str], None], names: Mapping[signal.Signals, str] = ENDING) -> Iterator[None]:
    """Each of the signals calls `hear` with its name inside, and is whose it was before outside.

    Only the main thread gets any: in another nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        hear(names[signal.Signals(number)])

    before = {number: signal.signal(number, handle) for number in names if not _ignored_on_purpose(number)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignored_on_purpose(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


FINISHED, USER_ERROR, FAILURES, STOPPED = 0, 1, 2, 3
WORST_FIRST = (STOPPED, USER_ERROR, FAILURES)

Task = Callable[[DictConfig], int]


class InterruptedRunError(KeyboardInterrupt):
    """Ctrl-C or its like that the run has dealt with; the message, if any, is still to be told."""


def run_command(task: Task, config_name: str, resumed: Callable[[Sequence[str]], list[str]] = list) -> int:
    """Compose the configuration from `conf/` and the command line and hand it to `task`, once for each job.

    Args:
        task: what is done for each job; its result is the exit code.
        config_name: of the file in `conf/`.
        resumed: the command line → the same with that of the run that it goes on with.

    Returns:
        The exit code.
    """
    load_dotenv(PROJECT_ROOT / ".env")
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    register_help()
    codes: list[int] = []
    decorated = hydra.main(config_path=str(PROJECT_ROOT / "conf"), config_name=config_name, version_base="1.3")

    def jobs() -> int:
        try:
            flags = read_flags(sys.argv[1:])
            if flags.config_name is flags.config_path is None:  # else the groups are those of a file that is not ours
                check_overrides(flags.overrides, config_name)
            sys.argv[1:] = resumed(sys.argv[1:])
            _raise_plain_errors()
            decorated(lambda composed: codes.append(_guarded(task, composed)))()
        except SystemExit as end:  # --help and its like; Hydra's 2 for a mistake is 1 here
            return USER_ERROR if end.code else FINISHED
        return FINISHED

    codes.append(run_cli(jobs))
    return next((code for code in WORST_FIRST if code in codes), FINISHED)


def run_cli(command: Callable[[], int]) -> int:
    """The exit code of `command`; a user's mistake in it is told in one sentence.

    SIGTERM and a closed terminal end it as Ctrl-C does; output that cannot be written does not.
    """
    with survive_broken_pipe() as output:
        code = _told(command)
    if output.lost:
        print(f"error: what it printed could not be written: {output.lost.lower()}; make room.", file=sys.stderr)
        return code or FAILURES
    return code


def _told(command: Callable[[], int]) -> int:
    try:
        with handle_signals(
            _interrupt, CLOSED
        ):  # until `eval.execution.termination` takes over for the questions, and again from then on
            return command()
    except InterruptedRunError as interrupt:
        if str(interrupt):
            print(interrupt, file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt as interrupt:
        what = signal_of(interrupt)
        print(f"stopped by {what}; every question that was finished is kept in its run's folder.", file=sys.stderr)
        return STOPPED
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        return _complain(error)


def signal_of(interrupt: KeyboardInterrupt) -> str:
    """Which signal it was; Python's own says nothing."""
    return str(interrupt) or "Ctrl-C"


def _interrupt(reason: str) -> NoReturn:
    raise KeyboardInterrupt(reason)


def exit_now(code: int) -> NoReturn:
    """End the process now. A tool that hangs in a thread would keep an ordinary exit waiting for it."""
    for stream in (sys.stdout, sys.stderr):
        if stream:  # None: it was closed before the process began
            stream.flush()
    os._exit(code)


def _guarded(task: Task, composed: DictConfig) -> int:
    """One job; its mistake must not keep the other jobs of a multirun from running."""
    try:
        return task(composed)
    except (UserError, OmegaConfBaseException) as error:
        return _complain(error)


def _complain(error: Exception) -> int:
    print(f"error: {escape_controls(describe_mistake(error))}", file=sys.stderr)
    return USER_ERROR
