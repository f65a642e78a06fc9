"""Runs that end before their questions do: the mechanism by itself, then real processes that are sent signals."""

import asyncio
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.execution.termination import SameErrors, StopController, exceeds_errors
from eval.runs.record import Record, build_blank_record
from mas.runtime.sample_context import SampleKey
from optimize.search.trials import MIN_FAILURES, FailuresInARow
from tests.command import Finished
from tests.eval.command_line import EvalCommand, dataset
from tests.eval.obedient_agent import AGENT, told
from tests.process import Running, started


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


def test_draining_lets_finish_what_can_and_then_cancels() -> None:
    lines: list[str] = []
    work = Work(quiet(lines, drain_seconds=1.0))

    async def run() -> float:
        asyncio.get_running_loop().call_later(0.05, work.stop.drain, "enough")
        return await work.go(0.1, 30)

    assert 1.0 <= asyncio.run(run()) < 25
    assert work.ended == ["0", "1 cancelled"]
    assert str(work.stop.reason) == "enough"
    assert lines == [
        "stopping (enough): nothing new is started; what is in flight has 1 s to finish. To stop now: Ctrl-C"
    ]


def test_stopping_now_cancels_at_once_and_the_first_reason_stays() -> None:
    work = Work(quiet())

    def stop() -> None:
        work.stop.drain("first")
        threading.Timer(0.05, work.stop.stop_now, ("second",)).start()

    async def run() -> float:
        asyncio.get_running_loop().call_later(0.05, stop)
        return await work.go(60, 60)

    assert asyncio.run(run()) < 25
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


def test_no_worker_begins_once_the_run_is_stopped() -> None:
    """Else the first request of a question would be sent, broken off, and paid again by the next session."""
    work = Work(quiet())
    work.stop.start_nothing("interrupted")
    asyncio.run(work.go(0))
    assert work.ended == []


@contextmanager
def begun(tmp_path: Path, rows: list[dict[str, object]], *options: str) -> Iterator[Running]:
    """The real command, at the moment when its first question has ended."""
    given = [*AGENT, *dataset(tmp_path / "data", *rows), "tracking=off", *options]
    with started(Path("run"), *given, cwd=tmp_path) as running:
        assert running.wait_until(lambda: re.search("^1/", running.out, re.MULTILINE))
        yield replace(running, folder=tmp_path / "run")


def list_answered(finished: Finished) -> dict[str, str]:
    return {each["task_id"]: each["model_answer"] for each in finished.answers}


QUICK = told("quick", "sleep 0 say 7")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGINT, "interrupted by Ctrl-C"),
        (signal.SIGTERM, "interrupted by SIGTERM"),
        (signal.SIGHUP, "interrupted by SIGHUP (its terminal was closed)"),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_one_signal_drains(tmp_path: Path, number: int, reason: str) -> None:
    rows = [QUICK, *(told(name, "await released say 7") for name in ("slow", *(f"later {n}" for n in range(20))))]
    with begun(tmp_path, rows, "run.concurrency=2") as running:
        running.process.send_signal(number)
        assert running.wait_until(lambda: running.err.endswith("\n"))
        (tmp_path / "released").touch()
        ended = running.end()
    assert (ended.code, ended.summary["stopped"]) == (3, reason)
    assert list_answered(ended)["slow"] == "7", "in flight, and it could finish"
    assert len(ended.answers) <= 4, "the later ones were not begun"
    (line,) = ended.err.splitlines()
    assert line.startswith(f"stopping ({reason}): nothing new is started; what is in flight has 30 s to finish.")
    assert line.endswith("To stop now: Ctrl-C again")
    assert ended.out.splitlines()[-1] == "continue with: python eval/run.py run.resume=run"


@pytest.mark.slow
def test_a_run_whose_output_nobody_reads_goes_on_to_its_end(tmp_path: Path) -> None:
    rows = [QUICK, *(told(f"later {n}", "sleep 0.2 say 7") for n in range(4))]
    given = [*AGENT, *dataset(tmp_path / "data", *rows), "tracking=off", "run.concurrency=1"]
    with started(tmp_path / "run", *given, stdout=subprocess.PIPE) as running:
        assert running.process.stdout is not None
        running.process.stdout.readline()
        running.process.stdout.close()  # as `| head` and a pager that is quit do
        ended = running.end()
    assert (ended.code, len(ended.answers)) == (0, 5)
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_run_whose_event_loop_is_blocked(tmp_path: Path, number: int) -> None:
    rows = [QUICK, told("blocking", "block 600 say 7")]
    with begun(tmp_path, rows, "run.concurrency=1", "run.drain_seconds=0.5") as running:
        time.sleep(1.0)  # the second question begins
        ended = running.end(number)  # ten minutes would be too long
    assert (ended.code, list(list_answered(ended))) == (3, ["quick"])
    assert "Traceback" not in ended.err + ended.out


def errors(number: int) -> list[dict[str, object]]:
    return [told(f"e{n:02}", "sleep 0 fail always") for n in range(number)]


def test_so_many_errors_stop_a_run(eval_command: EvalCommand, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", QUICK, *errors(20))
    finished = eval_command(*AGENT, *data, "run.concurrency=1", "run.max_errors=3")
    assert finished.code == 3
    assert finished.summary["stopped"] == "3 of 4 questions failed (run.max_errors=3)"
    assert len(finished.records) == 4


def test_the_time_of_a_session_is_limited(eval_command: EvalCommand, tmp_path: Path) -> None:
    rows = [told(f"q{n}", "sleep 0.3 say 7") for n in range(20)]
    finished = eval_command(*AGENT, *dataset(tmp_path / "data", *rows), "run.concurrency=1", "run.max_seconds=0.5")
    assert finished.code == 3
    assert finished.summary["stopped"] == "the run has taken 0.5 s (run.max_seconds)"
    assert 1 <= len(finished.records) < 20
    assert all(record["answer"] == "7" for record in finished.records.values())


def failed() -> Record:
    return Record("r", "q0", 1, 1, "t", "?", None, "1", "17", error="500", error_class="infrastructure")


ANSWERED = Record("r", "q0", 1, 1, "t", "?", None, "1", "17", answer="17", score=1.0)


def test_a_server_that_fails_more_answers_in_a_row_than_it_may_is_down() -> None:
    failures = FailuresInARow(1)
    for record in [*[failed()] * (MIN_FAILURES - 1), ANSWERED, *[failed()] * (MIN_FAILURES - 1)]:
        assert failures.observe(record) is None
    assert failures.observe(failed()) == f"the model's server has failed {MIN_FAILURES} answers in a row (500)"
