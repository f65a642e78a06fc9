"""From a command line to an exit code: resuming, jobs composed by Hydra, signals, errors, and unread output.

    run_cli(lambda: task(sys.argv[1:]))                                 # a command with arguments of its own
    # a command configured by conf/eval.yaml, whose option run.resume names a run to continue:
    run_cli(lambda: run_command(task, "eval", "run.resume", read_original_arguments))

Exit codes: 0 finished · 1 the user's mistake, nothing spent · 2 finished, but some questions failed by error, or the
accuracy is below `run.fail_under` · 3 stopped before the end. Of a multirun, the first that is not 0 in the
order 3, 1, 2. `eval/compare.py --gate` also has 4 worse than allowed · 5 inconclusive.
"""

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from eval.cli.hydra_compat import MISTAKES, run_jobs
from mas.runtime.errors import UserError
from mas.runtime.terminal import escape_controls, print_line

FINISHED, USER_ERROR, FAILURES, STOPPED = 0, 1, 2, 3
REGRESSION, INCONCLUSIVE = 4, 5  # of `eval/compare.py --gate`
_PRIVATE = 0o077  # umask: a run holds questions, answers and replies that were paid for
WORST_FIRST = (STOPPED, USER_ERROR, FAILURES)
_CHOSEN_ANEW = {"executor", "tracking"}  # parts whose options a resumed run does not keep if it chooses another one

Task = Callable[[DictConfig], int]
ReadOriginal = Callable[[str, Sequence[str]], Sequence[str]]  # command line of a run, from its name and what is given


class InterruptedRunError(KeyboardInterrupt):
    """A Ctrl-C that the run has handled and reported."""


def run_command(
    task: Task, config_name: str, resume_key: str = "", read_original: ReadOriginal = lambda run, arguments: ()
) -> int:
    """Compose `conf/<config_name>.yaml` with the command line, and return the exit code of `task`, once a job.

    `resume_key`: option that names a run to resume, whose command line `read_original` returns and is added first.
    """
    codes: list[int] = []

    def run_job(composed: DictConfig) -> None:
        try:
            codes.append(task(composed))
        except (UserError, OmegaConfBaseException) as error:  # the other jobs of a multirun still run
            codes.append(_report_mistake(error))

    def run_all() -> int:
        try:
            run_jobs(
                run_job, config_name, lambda arguments: add_original_arguments(arguments, resume_key, read_original)
            )
        except SystemExit as end:  # --help and its like; Hydra's 2 for a mistake is 1 here
            return USER_ERROR if end.code else FINISHED
        return FINISHED

    codes.append(_report_end(run_all))
    return next((code for code in WORST_FIRST if code in codes), FINISHED)


def add_original_arguments(arguments: Sequence[str], key: str, read_original: ReadOriginal) -> list[str]:
    """Return the command line with that of the run to resume before `key`; what is given now takes precedence."""
    names = [read_option_name(each) if "=" in each else "" for each in arguments]
    if names.count(key) > 1:
        raise UserError(f"{key} is given {names.count(key)} times; name the one run to resume.")
    here = names.index(key) if key in names else None
    run = arguments[here].partition("=")[2].strip().strip("'\"") if here is not None else ""
    if here is None or run in ("", "null"):  # an empty one is refused with the other values
        return list(arguments)
    if {"-m", "--multirun"} & set(arguments):
        raise UserError(f"{key} goes on with one run; leave --multirun out, and resume its runs one after the other.")
    given = set(map(read_option_name, arguments))
    chosen_anew = given & _CHOSEN_ANEW
    named = [(read_option_name(each), each) for each in read_original(run, arguments)]
    original = [each for name, each in named if name not in given and name.partition(".")[0] not in chosen_anew]
    return [*arguments[:here], *original, *arguments[here:]]


def read_option_name(override: str) -> str:
    """Return the name in an override: "x.y" of "+x.y=1"."""
    return override.partition("=")[0].lstrip("+~").partition("@")[0]


def run_cli(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; a user's mistake is reported in one sentence.

    SIGTERM and a closed terminal end it as Ctrl-C does; output that cannot be written does not. What it writes can be
    read by its user alone.
    """
    logging.setLogRecordFactory(_CleanRecord)
    mask = os.umask(_PRIVATE)
    with survive_broken_pipe() as lost, handle_signals(_raise_interrupt, TERMINATION_SIGNALS):
        code = _report_end(command)  # a run's own StopController handles the signals while samples run
    os.umask(mask)
    if lost:
        print_line(f"error: the output could not be written ({lost[0].lower()}); free disk space.", error=True)
        return code or FAILURES
    return code


def _report_end(command: Callable[[], int]) -> int:
    try:
        return command()
    except InterruptedRunError:
        return STOPPED
    except KeyboardInterrupt as interrupt:
        name = get_signal_name(interrupt)
        kept = "a run that had begun keeps what it has, and python eval/list_runs.py lists it"
        print_line(f"stopped by {name}; {kept}.", error=True)
        return STOPPED
    except (*MISTAKES, ValueError) as error:
        from eval.cli.mistakes import is_mistake

        if not is_mistake(error):
            raise
        return _report_mistake(error)


class _CleanRecord(logging.LogRecord):
    """Record of a library's logger, which may print it: the message may quote a page or a reply."""

    def getMessage(self) -> str:
        return escape_controls(super().getMessage())


def _report_mistake(error: Exception) -> int:
    from eval.cli.mistakes import describe_mistake

    print_line(f"error: {describe_mistake(error)}", error=True)
    return USER_ERROR


def exit_now(code: int) -> NoReturn:
    """End the process now: a tool that hangs in a thread would keep an ordinary exit waiting for it."""
    for stream in (sys.stdout, sys.stderr):
        if stream:  # None: it was closed before the process began
            stream.flush()
    os._exit(code)


TERMINATION_SIGNALS = {signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP (its terminal was closed)"}
STOP_SIGNALS = {signal.SIGINT: "Ctrl-C", **TERMINATION_SIGNALS}


@contextmanager
def handle_signals(handle: Callable[[str], None], names: Mapping[signal.Signals, str] = STOP_SIGNALS) -> Iterator[None]:
    """Call `handle` with the name of each signal inside, and restore the earlier handlers afterwards.

    Only the main thread receives signals: in another one nothing is changed. Under `nohup` and its like SIGHUP is
    ignored on purpose; it stays so. KeyboardInterrupt in a destructor or a weak reference's callback, where Python can
    only print it, is lost without a traceback; the next signal is another chance.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def receive(number: int, frame: FrameType | None) -> None:
        handle(names[signal.Signals(number)])

    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    handled = [number for number in names if not (number == signal.SIGHUP and is_ignored)]
    before, report_lost = {number: signal.signal(number, receive) for number in handled}, sys.unraisablehook

    def report_others(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            report_lost(lost)

    sys.unraisablehook = report_others
    try:
        yield
    finally:
        sys.unraisablehook = report_lost
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_interrupt(name: str) -> NoReturn:
    raise KeyboardInterrupt(name)


def get_signal_name(interrupt: KeyboardInterrupt) -> str:
    return str(interrupt) or "Ctrl-C"  # Python's own interrupt has no name


@contextmanager
def survive_broken_pipe() -> Iterator[list[str]]:
    """Keep running when standard output or standard error is closed: `| head` has read enough, a disk is full.

    A run that is paid for must not end because of what it prints. The list has the reasons for which output was lost,
    which a reader that has gone is not.
    """
    before: tuple[TextIO | None, ...] = (sys.stdout, sys.stderr)
    lost: list[str] = []
    sys.stdout, sys.stderr = (_LastingStream(stream, lost) if stream else None for stream in before)
    try:
        yield lost
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
        sys.stdout, sys.stderr = before


class _LastingStream:
    """Text stream that passes on what it can and never fails to write."""

    def __init__(self, stream: TextIO, lost: list[str]) -> None:
        self._stream, self._lost = stream, lost

    def write(self, text: str) -> int:
        encoding = self._stream.encoding  # of a terminal or a build's log that is not UTF-8
        self._try(lambda: self._stream.write(text.encode(encoding, "replace").decode(encoding) if encoding else text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):  # the reader of a pipe, or a terminal, has gone
                self._lost.append(str(error.strerror))
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())  # also for what is still in the stream's buffer
