"""Exit codes and sentences of the command, around a task that does nothing."""

import errno
import io
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TextIO, cast

import pytest
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue

from eval.cli import command as commands
from eval.cli.command import (
    FAILURES,
    FINISHED,
    INCONCLUSIVE,
    REGRESSION,
    STOP_SIGNALS,
    STOPPED,
    TERMINATION_SIGNALS,
    USER_ERROR,
    InterruptedRunError,
    add_original_arguments,
    exit_now,
    find_resume_argument,
    get_signal_name,
    handle_signals,
    insert_arguments,
    read_option_name,
    run_cli,
    run_command,
    survive_broken_pipe,
)
from eval.cli.hydra_compat import get_task_overrides, get_typed_list
from eval.cli.paths import PROJECT_ROOT
from eval.execution.termination import StopController
from mas.runtime.errors import UserError

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def command(task: Callable[[DictConfig], int], *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["eval/run.py", *arguments])
        return run_cli(lambda: run_command(task, "eval"))

    return command


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_one_jobs_code_is_the_commands_code(run: Run, code: int) -> None:
    assert run(lambda composed: code) == code


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0, 0], 0), ([0, 2, 0], 2), ([2, 1, 0], 1), ([1, 3, 2], 3), ([3, 0, 0], 3)],
)
def test_a_multirun_runs_every_job_and_ends_with_the_worst_code(run: Run, codes: list[int], expected: int) -> None:
    seeds: list[int] = []

    def task(composed: DictConfig) -> int:
        seeds.append(composed.seed)
        return codes[len(seeds) - 1]

    assert run(task, "--multirun", "seed=0,1,2") == expected
    assert seeds == [0, 1, 2]


@pytest.mark.slow
def test_a_users_mistake_in_one_job_is_told_and_the_others_run(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seeds: list[int] = []

    def task(composed: DictConfig) -> int:
        seeds.append(composed.seed)
        if composed.seed == 0:
            raise UserError("seed=0 is unlucky; take another.")
        if composed.seed == 1:
            raise MissingMandatoryValue("Missing mandatory value: data.path")
        return 2

    assert run(task, "-m", "seed=0,1,2") == 1
    assert seeds == [0, 1, 2]
    assert capsys.readouterr().err.splitlines() == [
        "error: seed=0 is unlucky; take another.",
        "error: data.path has no value; give it on the command line: data.path=…",
    ]


def test_a_choice_unknown_to_any_job_stops_a_multirun_before_its_first(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def task(composed: DictConfig) -> int:
        raise AssertionError("a job has been run")

    assert run(task, "-m", "model=offline,nope") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: model=nope is not known; choose one of: ")
    assert "offline" in line


def test_a_fault_of_the_program_itself_is_not_hidden(run: Run) -> None:
    def task(composed: DictConfig) -> int:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        run(task)
    with pytest.raises(ValueError, match="another bug"):
        run(lambda composed: int("another bug"))


@pytest.mark.parametrize("flag", ["--help", "-h", "--cfg=job", "--version"])
def test_flags_that_only_show_something_end_with_0_and_run_nothing(
    run: Run, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[DictConfig] = []
    assert run(lambda composed: len(ran.append(composed) or ran), flag) == 0  # type: ignore[func-returns-value]
    assert ran == []
    out, err = capsys.readouterr()
    assert out and not err


def test_help_shows_options_choices_and_examples(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda composed: 0, "--help")
    out = capsys.readouterr().out
    for option in ("prompts", "split", "limit", "ids", "level", "shuffle", "seed"):
        assert f"\n{option}: " in out
    for option in ("concurrency", "deadline_seconds", "dir", "fail_under"):
        assert f"\n  {option}: " in out
    assert "offline, ollama, openai" in out
    assert "python eval/run.py model=gpt-4o-mini" in out


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ids=[1e10,007]", ["1e10", "007"]),
        ("ids=[ a , 'b c' ]", ["a", "b c"]),
        ('ids=["1.0"]', ["1.0"]),
        ("ids=[]", []),
        ("seed=1", None),
    ],
)
def test_a_list_is_had_as_it_was_typed(run: Run, typed: str, expected: list[str] | None) -> None:
    seen: list[list[str] | None] = []

    def task(composed: DictConfig) -> int:
        seen.append(get_typed_list("ids"))
        return 0

    assert run(task, typed) == 0
    assert seen == [expected]


def test_an_interrupted_run_ends_a_multirun_with_3(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seeds: list[int] = []

    def task(composed: DictConfig) -> int:
        seeds.append(composed.seed)
        raise InterruptedRunError("stopped.\ncontinue with: this")

    assert run(task, "-m", "seed=0,1") == 3
    assert seeds == [0]
    assert capsys.readouterr().err == "stopped.\ncontinue with: this\n"


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
    assert capsys.readouterr().err.startswith("stopped by SIGTERM; every question that was finished is kept")


LOST = """
import weakref
from eval.cli.command import exit_now, run_cli

class Held: pass

def lose(error):
    def callback(reference):
        raise error
    held = Held()
    reference = weakref.ref(held, callback)
    del held

def command():
    lose(KeyboardInterrupt("Ctrl-C"))
    lose(RuntimeError("a defect"))
    return 3

exit_now(run_cli(command))
"""


def test_a_signal_that_python_cannot_raise_is_no_traceback_but_a_defect_is(clean_environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", LOST]
    done = subprocess.run(command, env=clean_environment, cwd=PROJECT_ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert "KeyboardInterrupt" not in done.stderr and done.stderr.endswith("RuntimeError: a defect\n")


def test_a_jobs_command_line_is_had_as_it_was_typed(run: Run) -> None:
    seen: list[list[str]] = []

    def task(composed: DictConfig) -> int:
        seen.append(get_task_overrides())
        return 0

    assert run(task, "seed=0", "+tools.x=1e3") == 0
    assert run(task, "-m", "seed=1,2", "split=a") == 0
    assert seen == [["seed=0", "+tools.x=1e3"], ["seed=1", "split=a"], ["seed=2", "split=a"]]


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
    assert ended.stderr == "error: the output could not be written (no space left on device); free disk space.\n"
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


def test_each_is_heard_by_its_name_and_given_back() -> None:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    heard: list[str] = []
    with handle_signals(heard.append):
        for number in STOP_SIGNALS:
            os.kill(os.getpid(), number)
    assert heard == ["Ctrl-C", "SIGTERM", "SIGHUP (its terminal was closed)"]
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals(heard.append, TERMINATION_SIGNALS):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == []


def test_a_command_watches_streams_and_signals_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped: list[object] = []

    def task(composed: DictConfig) -> int:
        wrapped.append(getattr(sys.stdout, "_stream", None))
        return 0

    assert run(task) == 0
    assert [hasattr(each, "_output") for each in wrapped] == [False]


def refusal_of(ask: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        ask()
    return str(refused.value)


@pytest.mark.parametrize(
    ("override", "name"),
    [("x.y=1", "x.y"), ("+x=1=2", "x"), ("++x=1", "x"), ("~x", "x"), ("model@a.b=c", "model"), ("--help", "--help")],
)
def test_the_name_of_an_option_is_without_signs_places_and_value(override: str, name: str) -> None:
    assert read_option_name(override) == name


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], (None, "")),
        (["a=1", "run.resume='my run'", "b=2"], (1, "my run")),
        (['+run.resume= "x=y" '], (0, "x=y")),
        (["run.resume="], (None, "")),
        (["a", "run.resume=null", "--multirun"], (None, "")),
        (["run.resume", "run.resumes=x"], (None, "")),
    ],
)
def test_the_run_to_resume_is_found_on_the_command_line(arguments: list[str], found: tuple[int | None, str]) -> None:
    assert find_resume_argument(arguments, "run.resume") == found


def test_one_run_is_resumed_at_a_time() -> None:
    assert refusal_of(lambda: find_resume_argument(["r=a", "x=1", "r=null"], "r")) == (
        "r is given 2 times; name the one run to resume."
    )
    for flag in ("-m", "--multirun"):
        assert refusal_of(lambda flag=flag: find_resume_argument(["r=a", flag], "r")) == (  # type: ignore[misc]
            "r goes on with one run; leave --multirun out, and resume its runs one after the other."
        )


def test_the_original_command_line_comes_before_what_is_given_now_which_takes_precedence() -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def read_original(run: str, arguments: Sequence[str]) -> list[str]:
        asked.append((run, arguments))
        return ["a=old", "model=old", "+c=old", "d=old"]

    given = ["a=new", "r=latest", "~c", "model@x=new"]
    assert add_original_arguments(given, "r", read_original) == ["a=new", "d=old", "r=latest", "~c", "model@x=new"]
    assert asked == [("latest", given)]
    assert add_original_arguments(("a=new",), "r", read_original) == ["a=new"]
    assert len(asked) == 1
    assert insert_arguments(["a", "b"], 2, ["c=1", "c=2"]) == ["a", "b", "c=1", "c=2"]


def fail(error: BaseException) -> NoReturn:
    raise error


def end_of_hydra(code: object) -> Callable[..., None]:
    return lambda job, config_name, edit: fail(SystemExit(code))


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (None, 0), (1, 1), (2, 1)])
def test_an_end_by_hydra_itself_is_finished_or_a_mistake(
    code: object, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "run_jobs", end_of_hydra(code))
    assert run_command(lambda composed: 3, "eval") == expected


def test_each_job_has_a_code_and_the_original_arguments_are_read_by_their_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[object] = []

    def run_all(job: Callable[[Any], None], config_name: str, edit: Callable[[Sequence[str]], list[str]]) -> None:
        seen.extend((config_name, edit(["r=x", "a=1"])))
        for composed in ("fine", "mistaken", "failed"):
            job(composed)

    def task(composed: Any) -> int:
        seen.append(composed)
        if composed == "mistaken":
            raise UserError("it is wrong.")
        return FAILURES if composed == "failed" else FINISHED

    monkeypatch.setattr(commands, "run_jobs", run_all)
    assert run_command(task, "optimize", "r", lambda run, arguments: [f"b={run}"]) == USER_ERROR
    assert seen == ["optimize", ["b=x", "r=x", "a=1"], "fine", "mistaken", "failed"]
    assert capsys.readouterr() == ("", "error: it is wrong.\n")
    seen.clear()
    monkeypatch.setattr(commands, "run_jobs", lambda job, name, edit: seen.append(edit(["r=x"])))
    assert run_command(task, "eval") == FINISHED and seen == [["r=x"]], "no key names a run"


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command changes for its process is given back."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    before = logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (InterruptedRunError("stopped.\nmore"), 3, "stopped.\nmore\n"),
        (InterruptedRunError(), 3, ""),
        (KeyboardInterrupt(), 3,
         "stopped by Ctrl-C; every question that was finished is kept in its run's folder.\n"),
        (KeyboardInterrupt("SIGHUP (its terminal was closed)"), 3,
         "stopped by SIGHUP (its terminal was closed); every question that was finished is kept in its run's "
         "folder.\n"),
        (UserError("n=0 is wrong."), 1, "error: n=0 is wrong.\n"),
        (MissingMandatoryValue("Missing mandatory value: data.path"), 1,
         "error: data.path has no value; give it on the command line: data.path=…\n"),
    ],
)  # fmt: skip
def test_an_early_end_has_its_code_and_its_sentence(
    error: BaseException, code: int, told: str, hooks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(lambda: fail(error)) == code
    assert capsys.readouterr() == ("", told)


@pytest.mark.parametrize(
    ("number", "code", "expected", "told"),
    [
        (errno.ENOSPC, 0, 2, "error: the output could not be written (no space left on device); free disk space.\n"),
        (errno.ENOSPC, 3, 3, "error: the output could not be written (no space left on device); free disk space.\n"),
        (errno.EPIPE, 0, 0, ""),
        (errno.EIO, 0, 0, ""),
    ],
)
def test_output_that_is_lost_is_told_and_output_that_nobody_reads_is_not(
    number: int, code: int, expected: int, told: str, hooks: None, capfd: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    class Full(io.TextIOWrapper):
        def write(self, text: str) -> int:
            raise OSError(number, os.strerror(number))

    with (tmp_path / "out").open("wb") as raw:
        full = Full(raw)
        monkeypatch.setattr(sys, "stdout", full)

        def command() -> int:
            assert sys.stdout.write("four") == 4
            return code

        assert run_cli(command) == expected
        assert sys.stdout is full and Path(f"/proc/self/fd/{raw.fileno()}").readlink() == Path(os.devnull)
    assert capfd.readouterr().err == told


def test_a_command_writes_for_its_user_alone_and_gives_everything_back(
    hooks: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.umask(0o022)
    handlers = [signal.getsignal(number) for number in STOP_SIGNALS]
    unraisable, streams = sys.unraisablehook, (sys.stdout, sys.stderr)
    try:

        def command() -> int:
            (tmp_path / "file").touch()
            (tmp_path / "folder").mkdir()
            changed = [signal.getsignal(number) for number in STOP_SIGNALS]
            assert [one is two for one, two in zip(handlers, changed, strict=True)] == [True, False, False]
            for error in (KeyboardInterrupt("x"), ZeroDivisionError("y")):
                sys.unraisablehook(cast(Any, SimpleNamespace(exc_value=error)))
            return 2

        heard: list[object] = []
        sys.unraisablehook = lambda ignored: heard.append(ignored.exc_value)
        assert run_cli(command) == 2
        assert [type(each) for each in heard] == [ZeroDivisionError]
        modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", "folder")]
        assert modes == [0o600, 0o700]
        assert os.umask(0o022) == 0o022
        assert [signal.getsignal(number) for number in STOP_SIGNALS] == handlers
        assert (sys.stdout, sys.stderr) == streams
    finally:
        sys.unraisablehook = unraisable
        os.umask(before)


def test_texts_of_others_in_tracebacks_and_log_lines_control_no_terminal(
    hooks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cli(lambda: 0)
    record = logging.getLogRecordFactory()("x", logging.INFO, "x.py", 1, "a %s", ("\x1b[2J",), None)
    assert "\x1b" not in record.getMessage() and record.getMessage().startswith("a ")
    error = ValueError("bad \x1b[2J")
    sys.excepthook(ValueError, error, None)
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("ValueError: bad ") and "\x1b" not in printed.err
    assert printed.err.count("\n") == 1


def test_an_exit_writes_what_is_left_and_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[object] = []
    streams = [SimpleNamespace(flush=lambda name=name: ended.append(name)) for name in ("out", "err")]
    monkeypatch.setattr(commands, "sys", SimpleNamespace(stdout=streams[0], stderr=streams[1]))
    monkeypatch.setattr(commands.os, "_exit", ended.append)
    exit_now(7)
    monkeypatch.setattr(commands, "sys", SimpleNamespace(stdout=None, stderr=streams[1]))
    exit_now(0)
    assert ended == ["out", "err", 7, "err", 0]


def test_signals_belong_to_the_main_thread() -> None:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    inside: list[object] = []

    def enter() -> None:
        with handle_signals(inside.append):
            inside.extend(signal.getsignal(number) for number in STOP_SIGNALS)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(10)
    assert inside == before


def test_the_codes_of_a_command_are_those_that_scripts_rely_on() -> None:
    assert (FINISHED, USER_ERROR, FAILURES, STOPPED, REGRESSION, INCONCLUSIVE) == (0, 1, 2, 3, 4, 5)
    assert (get_signal_name(KeyboardInterrupt()), get_signal_name(KeyboardInterrupt("SIGTERM"))) == (
        "Ctrl-C", "SIGTERM",
    )  # fmt: skip
