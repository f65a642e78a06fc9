"""Runs that end before their questions do: the mechanism by itself, then real processes that are sent signals."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.execution import termination
from eval.execution.run_session import run_to_end
from eval.execution.runner import build_blank_record
from eval.execution.termination import (
    MIN_FAILURES,
    FailuresInARow,
    RunStoppedError,
    SameErrors,
    StopController,
    StopReason,
    exceeds_errors,
    is_server_failure,
    print_to_stderr,
)
from eval.runs.record import Record
from mas.runtime.sample_context import SampleKey
from tests.eval.command_line import SCRIPT, EvalCommand, dataset, without_pauses
from tests.eval.obedient_agent import AGENT, told
from tests.eval.stored_run import answered

CTRL_C = "interrupted by Ctrl-C"


@pytest.mark.parametrize(
    ("errors", "finished", "max_errors", "expected"),
    [
        (100, 100, None, False),
        (1, 50, 1, True), (2, 50, 3, False), (3, 50, 3, True),
        (9, 9, 0.1, False), (1, 10, 0.1, False), (2, 10, 0.1, True), (5, 10, 0.5, False), (6, 10, 0.5, True),
    ],
)  # fmt: skip
def test_when_a_run_is_hopeless(errors: int, finished: int, max_errors: float | None, expected: bool) -> None:
    assert exceeds_errors(errors, finished, max_errors) is expected


DOWN = {"error": "LMServerError: HTTP 500 (request req_8f2a)", "error_class": "infrastructure"}
OTHERS: dict[str, dict[str, str]] = {
    "another message": {"error": "LMServerError: HTTP error (request req_1)"},
    "another class": {"error_class": "internal"},
    "another component": {"error_component": "expert"},
}


def failing_alike(n: int, **changes: str) -> Record:
    error = DOWN["error"].replace("8f2a", f"{n}b")  # ids of requests differ
    record = build_blank_record("run", Sample(f"q{n}", "?"), SampleKey(f"q{n}"), "thread")
    return replace(record, **{**DOWN, "error": error, "error_component": "planner", **changes})  # type: ignore[arg-type]


def test_the_first_answers_that_all_fail_alike_are_a_reason_to_stop() -> None:
    detector = SameErrors(3)
    assert [detector.observe(failing_alike(n)) for n in range(2)] == [None, None]
    reason = detector.observe(failing_alike(2))
    assert reason and reason.startswith("the first 3 answers all failed in the same way: LMServerError: HTTP 500")


@pytest.mark.parametrize("other", [*OTHERS, "a success"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_answer_that_ends_otherwise_lets_the_run_go_on(other: str, place: int) -> None:
    detector, records = SameErrors(3), [failing_alike(n) for n in range(12)]
    odd = failing_alike(99, **OTHERS.get(other, {}))
    if other == "a success":
        odd.error = odd.error_class = None
    records.insert(place, odd)
    assert [detector.observe(record) for record in records] == [None] * 13


def test_it_can_be_turned_off() -> None:
    detector = SameErrors(None)
    assert {detector.observe(failing_alike(n)) for n in range(50)} == {None}


@dataclass
class Work:
    """Workers that take `seconds` each, and what became of them."""

    stop: StopController
    ended: list[str] = field(default_factory=list)

    async def worker(self, name: str, seconds: float, stubborn: bool = False) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.ended.append(f"{name} cancelled")
            if stubborn:
                await asyncio.sleep(30)
            raise
        self.ended.append(name)

    async def go(self, *seconds: float, stubborn: bool = False) -> float:
        started = time.monotonic()
        workers = [asyncio.create_task(self.worker(str(n), each, stubborn)) for n, each in enumerate(seconds)]
        await self.stop.supervise(workers)
        return time.monotonic() - started


def quiet(lines: list[str] | None = None, **settings: float) -> StopController:
    return StopController(say=(lines if lines is not None else []).append, **settings)  # type: ignore[arg-type]


class Timers:
    """Timers that never expire by themselves."""

    def __init__(self) -> None:
        self.made: list[Timers.One] = []

    @dataclass
    class One:
        seconds: float
        function: Any
        daemon: bool = False
        is_started: bool = False
        is_cancelled: bool = False

        def start(self) -> None:
            self.is_started = True

        def cancel(self) -> None:
            self.is_cancelled = True

    def make(self, seconds: float, function: Any) -> "Timers.One":
        self.made.append(Timers.One(seconds, function))
        return self.made[-1]


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    """What drains and what is cancelled have a timer each."""
    made = Timers()
    monkeypatch.setattr(termination, "SteadyTimer", made.make)
    fake = SimpleNamespace(Timer=made.make, main_thread=threading.main_thread, get_ident=threading.get_ident)
    monkeypatch.setattr(termination, "threading", fake)
    return made


def test_draining_gives_what_is_in_flight_its_seconds(timers: Timers) -> None:
    lines, cancelled = list[str](), list[int]()
    stop = quiet(lines, drain_seconds=12.5)
    with stop.in_flight(lambda: cancelled.append(1)), stop.in_flight(lambda: cancelled.append(2)):
        stop.drain("enough", "errors")
        stop.drain("again", "limit")
        assert stop.reason == StopReason("errors", "enough") and not stop.interrupted
        (timer,) = timers.made
        assert (timer.seconds, timer.daemon, timer.is_started, cancelled) == (12.5, True, True, [])
        timer.function()
        assert cancelled == [1, 2] and not timer.is_cancelled
        _, leaving = timers.made
        assert (leaving.seconds, leaving.daemon, leaving.is_started) == (5.0, True, True)
    assert timer.is_cancelled
    assert lines == [
        "stopping (enough): nothing new is started; what is in flight has 12.5 s to finish. To stop now: Ctrl-C"
    ]


def test_a_timer_ends_with_the_last_that_is_in_flight(timers: Timers) -> None:
    stop = quiet(drain_seconds=1.0)
    with stop.in_flight(print):
        with stop.in_flight(print):
            stop.drain("enough")
        assert not timers.made[0].is_cancelled
    assert timers.made[0].is_cancelled


def test_with_nothing_in_flight_there_is_nothing_to_wait_for_or_to_say(timers: Timers) -> None:
    lines: list[str] = []
    stop = quiet(lines)
    stop.drain("enough")
    stop.stop_now("now", "storage")
    assert (stop.reason, lines, timers.made) == (StopReason("limit", "enough"), [], [])
    other = quiet()
    other.stop_now("now", "storage")
    other.stop_now("later")
    assert other.reason == StopReason("storage", "now")
    third = quiet()
    third.stop_now("now")
    assert third.reason == StopReason("limit", "now")


@pytest.mark.parametrize(
    ("settings", "records", "reason", "cancels"),
    [
        ({}, [{}] * 20, None, False),
        ({}, [{"error": "x"}] * 20, None, False),
        (
            {}, [{"error": "no money", "error_class": "quota_or_key"}],
            StopReason(
                "server",
                "the model's provider refuses further requests: quota exhausted or key rejected (no money)",
            ),
            True,
        ),
        (
            {"fail_fast": True}, [{}, {"error": "x"}],
            StopReason("errors", "question q1 failed (x) and run.fail_fast is on"), True,
        ),
        ({"max_errors": 2}, [{"error": "x"}, {}, {"error": "y"}],
         StopReason("errors", "2 of 3 questions failed (run.max_errors=2)"), False),
        ({"max_errors": 0.25}, [{}] * 8 + [{"error": "x"}] * 3,
         StopReason("errors", "3 of 11 questions failed (run.max_errors=0.25)"), False),
        ({"max_errors": 0.25}, [{}] * 9 + [{"error": "x"}] * 3, None, False),
        (
            {"max_same_errors": 2}, [{"error": "no 1"}, {"error": "no 2"}],
            StopReason("errors", "the first 2 answers all failed in the same way: no 2 (run.max_same_errors)"), False,
        ),
        ({"max_same_errors": 2}, [{"error": "no"}, {}, {"error": "no"}, {"error": "no"}], None, False),
    ],
)  # fmt: skip
def test_a_record_may_be_a_reason_to_stop(
    settings: dict[str, Any], records: list[dict[str, str]], reason: StopReason | None, cancels: bool, timers: Timers
) -> None:
    stop, cancelled = quiet(**settings), list[int]()
    with stop.in_flight(lambda: cancelled.append(1)):
        for number, each in enumerate(records):
            assert stop.reason is None
            stop.observe(answered(f"q{number}", "17", **each))
    assert stop.reason == reason and bool(cancelled) is cancels


def test_a_first_signal_drains_a_second_cancels_and_a_third_ends_the_waiting(
    timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(termination, "time", SimpleNamespace(monotonic=lambda: clock.now))
    lines, cancelled = list[str](), list[int]()
    stop = quiet(lines)
    with stop.in_flight(lambda: cancelled.append(1)):
        stop._on_signal("Ctrl-C")
        assert (stop.reason, stop.interrupted, cancelled) == (StopReason("signal", "interrupted by Ctrl-C"), True, [])
        assert lines[0].endswith("To stop now: Ctrl-C again")
        stop._on_signal("SIGTERM")
        assert cancelled == [1] and str(stop.reason) == "interrupted by Ctrl-C"
        with pytest.raises(KeyboardInterrupt, match="SIGHUP"):
            stop._on_signal("SIGHUP")
        clock.now = 105.0
        stop._on_signal("SIGHUP")  # the run's files are being written
        clock.now = 105.1
        with pytest.raises(KeyboardInterrupt):
            stop._on_signal("SIGHUP")
    assert cancelled == [1]


def test_a_signal_after_the_waiting_has_ended_is_ignored_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(termination, "time", SimpleNamespace(monotonic=lambda: clock.now))
    stop = quiet()
    stop.end_waiting()
    clock.now = 103.0
    stop.end_waiting()  # it has ended already
    clock.now = 105.0
    stop._on_signal("Ctrl-C")
    clock.now = 105.5
    with pytest.raises(KeyboardInterrupt):
        stop._on_signal("Ctrl-C")
    stop = quiet(drain_seconds=0.1)
    stop.drain("enough")
    with stop.in_flight(print):
        stop._on_signal("Ctrl-C")
        assert stop.reason == StopReason("limit", "enough"), "it cancels at once, for it drains already"


@pytest.mark.parametrize(("is_blocked", "in_flight", "sent"), [(True, True, 1), (False, True, 0), (True, False, 0)])
def test_a_loop_that_code_blocks_is_left_by_a_signal(
    is_blocked: bool, in_flight: bool, sent: int, timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int | None, int]] = []
    monkeypatch.setattr(termination, "background_loop", lambda: SimpleNamespace(is_blocked=lambda: is_blocked))
    monkeypatch.setattr(termination.signal, "pthread_kill", lambda thread, number: signals.append((thread, number)))
    stop = quiet()
    with stop.in_flight(lambda: None):
        stop.stop_now("now")
        if in_flight:
            timers.made[0].function()
    if not in_flight:
        timers.made[0].function()
    assert signals == [(threading.main_thread().ident, signal.SIGINT)] * sent
    if sent:
        with stop.in_flight(lambda: None), pytest.raises(KeyboardInterrupt):
            stop._on_signal("Ctrl-C")


def test_the_words_of_a_stop_and_the_options_that_a_resumed_run_needs() -> None:
    error = RunStoppedError(StopReason("limit", "enough"), "name=other", "limit=3")
    assert (str(error), error.options) == ("enough", ("name=other", "limit=3"))


def test_what_is_stopping_is_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_to_stderr("stopping")
    assert capsys.readouterr() == ("", "stopping\n")


def failed_by_server(name: str, attempt: int = 1) -> Record:
    return answered(name, None, error="HTTP 500", error_class="infrastructure", attempt=attempt)


@pytest.mark.parametrize(("concurrency", "enough"), [(1, 10), (5, 10), (6, 12)])
def test_a_server_is_down_after_ten_failures_in_a_row_or_twice_as_many_as_run_at_once(
    concurrency: int, enough: int
) -> None:
    down = FailuresInARow(concurrency)
    for _ in range(2):
        assert [down.observe(failed_by_server(f"q{n}")) for n in range(enough - 1)] == [None] * (enough - 1)
        assert down.observe(answered("q", "17")) is None, "an answer ends the row"
    found = [down.observe(failed_by_server(f"q{n}")) for n in range(enough)][-1]
    assert found == f"the model's server has failed {enough} answers in a row (HTTP 500)"


@pytest.mark.parametrize(("always_failing", "enough"), [(0, 10), (9, 10), (10, 11), (14, 15)])
def test_a_server_is_down_once_so_many_questions_have_failed_again(always_failing: int, enough: int) -> None:
    down = FailuresInARow(1, always_failing)
    for n in range(enough - 1):
        for attempt in (2, 3):
            assert down.observe(failed_by_server(f"q{n}", attempt)) is None
    assert down.observe(failed_by_server("q", 2)) == (
        f"the model's server has failed {enough} questions in a row once more (HTTP 500)"
    )
    down.observe(answered("q", "17"))
    assert down.observe(failed_by_server("q", 2)) is None


def test_only_a_server_that_fails_is_no_fault_of_the_program() -> None:
    assert is_server_failure(failed_by_server("q"))
    assert not is_server_failure(answered("q", None, error="x", error_class="internal"))


def test_draining_lets_finish_what_can_and_then_cancels() -> None:
    lines: list[str] = []
    work = Work(quiet(lines, drain_seconds=0.3))

    async def run() -> float:
        asyncio.get_running_loop().call_later(0.05, work.stop.drain, "enough")
        return await work.go(0.1, 30)

    assert asyncio.run(run()) == pytest.approx(0.35, abs=0.2)
    assert work.ended == ["0", "1 cancelled"]
    assert str(work.stop.reason) == "enough"
    assert lines == [
        "stopping (enough): nothing new is started; what is in flight has 0.3 s to finish. To stop now: Ctrl-C"
    ]


def test_stopping_now_cancels_at_once_and_the_first_reason_stays() -> None:
    work = Work(quiet())

    async def run() -> float:
        asyncio.get_running_loop().call_later(0.05, work.stop.drain, "first")
        threading.Timer(0.1, work.stop.stop_now, ("second",)).start()
        return await work.go(30, 30)

    assert asyncio.run(run()) < 1
    assert (sorted(work.ended), str(work.stop.reason)) == (["0 cancelled", "1 cancelled"], "first")


def test_stopping_now_from_the_loop_lets_no_worker_take_another_step() -> None:
    """Else those whose replies came in the same turn of the loop would send more requests."""
    stop, steps = quiet(), list[str]()

    async def worker(name: str) -> None:
        while True:
            await asyncio.sleep(0)
            steps.append(name)
            if len(steps) == 10:
                stop.stop_now("used up")

    async def run() -> None:
        await stop.supervise([asyncio.create_task(worker(name)) for name in "abc"])

    asyncio.run(run())
    assert len(steps) == 10


def test_a_worker_is_cancelled_once_and_may_end_what_it_began() -> None:
    stop, ended = quiet(), list[str]()

    async def worker() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            ended.append("reported")
            raise

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.01, stop.stop_now, "used up")
        await stop.supervise([asyncio.create_task(worker())])

    asyncio.run(run())
    assert ended == ["reported"]


def test_the_time_of_a_session_ends_by_draining() -> None:
    work = Work(quiet(max_seconds=0.05))
    asyncio.run(work.go(0.2))
    assert work.ended == ["0"]
    assert str(work.stop.reason) == "the run has taken 0.05 s (run.max_seconds)"
    unhurried = Work(quiet(max_seconds=30))
    asyncio.run(unhurried.go(0.01))
    assert unhurried.stop.reason is None


def test_who_takes_no_notice_of_a_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.execution.termination._CANCEL_SECONDS", 0.1)
    work = Work(quiet())

    async def run() -> float:
        asyncio.get_running_loop().call_later(0.05, work.stop.stop_now, "enough")
        return await work.go(30, stubborn=True)

    assert asyncio.run(run()) < 5


def test_what_a_worker_raises_cancels_the_others_and_is_passed_on() -> None:
    work = Work(quiet())

    async def failing() -> None:
        raise OSError("no room")

    async def run() -> None:
        tasks = [asyncio.create_task(work.worker("0", 30)), asyncio.create_task(failing())]
        await work.stop.supervise(tasks)

    with pytest.raises(OSError, match="no room"):
        asyncio.run(run())
    assert work.ended == ["0 cancelled"]


def test_signals_are_the_stops_only_inside_and_go_back_to_whose_they_were() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    stop = quiet()
    with stop.handle_signals():
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):  # nothing runs that could be stopped
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        assert stop.interrupted
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(("sent", "expected"), [(signal.SIGTERM, "interrupted by SIGTERM"), (signal.SIGINT, CTRL_C)])
def test_a_signal_with_nothing_in_flight_is_named(sent: signal.Signals, expected: str) -> None:
    stop = quiet()

    async def send() -> None:
        os.kill(os.getpid(), sent)
        await asyncio.sleep(30)

    assert run_to_end([send()], stop) == expected
    assert stop.interrupted


def test_after_a_third_signal_nothing_is_waited_for_and_the_caller_goes_on() -> None:
    """The caller then writes the run's files."""
    stop, began = quiet(drain_seconds=30), time.monotonic()
    work = Work(stop)

    async def send() -> None:
        for seconds in (0.1, 0.3, 0.5):
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM)).start()
        await work.go(30, stubborn=True)  # takes no notice of the second signal

    assert run_to_end([send()], stop) == "interrupted by SIGTERM"
    assert stop.interrupted
    assert time.monotonic() - began < 3, "less than what a cancelled task is given to end"


def test_a_thread_other_than_the_main_one_has_no_signals_to_give() -> None:
    entered: list[bool] = []

    def enter() -> None:
        with quiet().handle_signals():
            entered.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [True]


@dataclass
class Ended:
    code: int
    out: str
    err: str
    seconds: float  # since the last signal
    folder: Path

    @property
    def answered(self) -> dict[str, str]:
        lines = (self.folder / "answers.jsonl").read_text("utf-8").splitlines()
        return {each["task_id"]: each["model_answer"] for each in map(json.loads, lines)}

    @property
    def stopped(self) -> str:
        return str(json.loads((self.folder / "summary.json").read_text("utf-8"))["stopped"])


@contextmanager
def started(
    tmp_path: Path, environment: dict[str, str], rows: list[dict[str, object]], *options: str
) -> Iterator[subprocess.Popen[str]]:
    """The real command, at the moment when its first question has ended."""
    data = dataset(tmp_path / "data", *rows)
    command = [sys.executable, str(SCRIPT), *AGENT, *data, "tracking=off", f"run.dir={tmp_path / 'run'}", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**environment, "PYTHONPATH": str(PROJECT_ROOT)}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            for line in process.stdout:
                if line.startswith("1/"):
                    break
            yield process
        finally:
            process.kill()


def ending(process: subprocess.Popen[str], tmp_path: Path) -> Ended:
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err, time.monotonic() - began, tmp_path / "run")


QUICK, NEVER = told("quick", "sleep 0 say 7"), told("never", "sleep 0 say 7")
ENDLESS = told("endless", "sleep 99 say 7")
TWO = "run.concurrency=2"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGINT, "interrupted by Ctrl-C"),
        (signal.SIGTERM, "interrupted by SIGTERM"),
        (signal.SIGHUP, "interrupted by SIGHUP (its terminal was closed)"),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_one_signal_drains(tmp_path: Path, clean_environment: dict[str, str], number: int, reason: str) -> None:
    rows = [QUICK, *(told(name, "await released say 7") for name in ("slow", *(f"later {n}" for n in range(20))))]
    with started(tmp_path, clean_environment, rows, TWO) as process:
        process.send_signal(number)
        assert process.stderr is not None
        line = next(filter(without_pauses, process.stderr))
        (tmp_path / "released").touch()
        ended = ending(process, tmp_path)
    assert (ended.code, ended.stopped) == (3, reason)
    assert ended.answered["slow"] == "7", "in flight, and it could finish"
    assert len(ended.answered) <= 4, "the later ones were not begun"
    assert line.startswith(f"stopping ({reason}): nothing new is started; what is in flight has 30 s to finish.")
    assert line.endswith("To stop now: Ctrl-C again\n") and without_pauses(ended.err) == ""
    assert ended.out.splitlines()[-1] == "continue with: python eval/run.py run.resume=run"


@pytest.mark.slow
def test_a_run_whose_output_nobody_reads_goes_on_to_its_end(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    rows = [QUICK, *(told(f"later {n}", "sleep 0.2 say 7") for n in range(4))]
    with started(tmp_path, clean_environment, rows, "run.concurrency=1") as process:
        assert process.stdout is not None
        process.stdout.close()  # as `| head` and a pager that is quit do
        code = process.wait(timeout=60)
    ended = Ended(code, "", "", 0.0, tmp_path / "run")
    assert (ended.code, len(ended.answered)) == (0, 5)
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_draining_ends_after_its_seconds(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    with started(tmp_path, clean_environment, [QUICK, ENDLESS], TWO, "run.drain_seconds=0.5") as process:
        process.send_signal(signal.SIGINT)
        ended = ending(process, tmp_path)
    assert (ended.code, list(ended.answered)) == (3, ["quick"])
    assert ended.seconds < 30


@pytest.mark.slow
def test_a_second_signal_stops_now(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    with started(tmp_path, clean_environment, [QUICK, ENDLESS, NEVER], TWO, "ids=[quick,endless]") as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert next(filter(without_pauses, process.stderr)).startswith("stopping (interrupted by Ctrl-C)")
        process.send_signal(signal.SIGINT)
        ended = ending(process, tmp_path)
    assert (ended.code, list(ended.answered)) == (3, ["quick"])
    assert ended.seconds < 25, "well before the draining would have ended"
    assert "Traceback" not in ended.err + ended.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_run_whose_event_loop_is_blocked(
    tmp_path: Path, clean_environment: dict[str, str], number: int
) -> None:
    rows = [QUICK, told("blocking", "block 600 say 7")]
    with started(tmp_path, clean_environment, rows, "run.concurrency=1", "run.drain_seconds=0.5") as process:
        time.sleep(1.0)  # the second question begins
        process.send_signal(number)
        ended = ending(process, tmp_path)
    assert (ended.code, list(ended.answered)) == (3, ["quick"])
    assert ended.seconds < 30
    assert "Traceback" not in ended.err + ended.out
    blocked = "obedient_agent.py:22 in answer (question 'blocking') has blocked the event loop for 5 s"
    assert blocked in ended.err, ended.err


@pytest.mark.slow
def test_a_command_that_was_stopped_for_longer_than_its_deadline_loses_no_question(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    rows = [QUICK, told("slow", "sleep 2 say 7")]
    with started(tmp_path, clean_environment, rows, "run.concurrency=1", "run.deadline_seconds=4") as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(8.0)
        process.send_signal(signal.SIGCONT)
        ended = ending(process, tmp_path)
    assert (ended.code, ended.answered) == (0, {"quick": "7", "slow": "7"})
    assert "warning: this process could not run for " in ended.err


DRAINING = """
import time
from eval.execution.termination import StopController
stop = StopController(drain_seconds=1.5)
with stop.in_flight(lambda: print("cancelled", flush=True)):
    stop.drain("enough")
    print("draining", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_process_that_was_stopped_while_it_drained_has_its_time_to_drain_all_the_same() -> None:
    command = [sys.executable, "-c", DRAINING]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=PROJECT_ROOT, text=True, **output) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "draining\n"
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.8)
            process.send_signal(signal.SIGCONT)
            began = time.monotonic()
            assert process.stdout.readline() == "cancelled\n"
            assert 0.5 < time.monotonic() - began < 10
        finally:
            process.kill()


@pytest.mark.slow
def test_an_interrupted_multirun_does_not_go_on_to_its_next_job(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    job = "run.dir=" + str(tmp_path / "job-${hydra:job.num}")
    sweep = f"hydra.sweep.dir={tmp_path / 'sweep'}"
    options = [job, sweep, "ids=[quick,endless],[never]", "run.drain_seconds=0", "-m"]
    with started(tmp_path, clean_environment, [QUICK, ENDLESS, NEVER], *options) as process:
        process.send_signal(signal.SIGINT)
        assert ending(process, tmp_path).code == 3
    assert (tmp_path / "job-0" / "summary.json").exists()
    assert not (tmp_path / "job-1").exists()


def errors(number: int) -> list[dict[str, object]]:
    return [told(f"e{n:02}", "sleep 0 fail always") for n in range(number)]


def test_so_many_errors_stop_a_run(eval_command: EvalCommand, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", QUICK, *errors(20))
    finished = eval_command(*AGENT, *data, "run.concurrency=1", "run.max_errors=3")
    assert finished.code == 3
    assert finished.summary["stopped"] == "3 of 4 questions failed (run.max_errors=3)"
    assert len(finished.records) == 4
    share = eval_command(*AGENT, *data, "run.concurrency=1", "run.max_errors=0.5")
    assert (share.code, len(share.records)) == (3, 10)
    assert share.summary["stopped"] == "9 of 10 questions failed (run.max_errors=0.5)"


def test_the_time_of_a_session_is_limited(eval_command: EvalCommand, tmp_path: Path) -> None:
    rows = [told(f"q{n}", "sleep 0.3 say 7") for n in range(20)]
    finished = eval_command(*AGENT, *dataset(tmp_path / "data", *rows), "run.concurrency=1", "run.max_seconds=0.5")
    assert finished.code == 3
    assert finished.summary["stopped"] == "the run has taken 0.5 s (run.max_seconds)"
    assert 1 <= len(finished.records) < 20
    assert all(record["answer"] == "7" for record in finished.records.values())


def failed(question: int = 0, attempt: int = 1) -> Record:
    return Record(
        "r", f"q{question}", 1, attempt, "t", "?", None, "1", "17", error="500", error_class="infrastructure"
    )  # fmt: skip


ANSWERED = Record("r", "q0", 1, 1, "t", "?", None, "1", "17", answer="17", score=1.0)


def observe_all(records: Sequence[Record], always_failing: int = 0) -> list[str | None]:
    """Return the reason to stop after each record."""
    failures = FailuresInARow(1, always_failing)
    return [failures.observe(record) for record in records]


def test_a_question_that_fails_again_and_again_is_no_sign_that_the_server_is_down() -> None:
    again = failed(attempt=2)
    records = [*[again] * 3 * MIN_FAILURES, *[failed()] * (MIN_FAILURES - 1), again, failed()]
    *before, last = observe_all(records)
    assert before == [None] * len(before), "nor that it is up"
    assert last == f"the model's server has failed {MIN_FAILURES} answers in a row (500)"


def test_different_questions_that_all_fail_again_are_a_sign_that_the_server_is_down() -> None:
    records = [failed(question, attempt) for question in range(MIN_FAILURES) for attempt in (2, 3)][:-1]
    *before, last = observe_all(records)
    assert before == [None] * len(before)
    assert last == f"the model's server has failed {MIN_FAILURES} questions in a row once more (500)"
    assert observe_all([*records[:-1], ANSWERED, records[-1]])[-1] is None, "one was answered in between"


def test_further_signals_do_not_keep_the_runs_files_from_being_written_for_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = quiet()
    with stop.handle_signals():
        stop.drain("enough")
        stop.end_waiting()
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        assert stop.interrupted
        monkeypatch.setattr("eval.execution.termination._FILES_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):  # it takes too long
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)


def test_a_signal_stops_the_next_run_of_a_session_as_it_does_the_first() -> None:
    stop = quiet()
    stop.end_waiting()
    with stop.handle_signals(), stop.in_flight(lambda: None):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        assert str(stop.reason) == "interrupted by SIGTERM"
