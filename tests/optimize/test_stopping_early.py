"""Tuning runs that end before their verdict: signals in each phase, a model server that dies, a run that is resumed."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.command import tuning_command
from tests.killed_run import Moment
from tests.optimize.tuned import MINI_BOOTSTRAP, MINI_GEPA, SimulatedServer, TunedRun, over_http, simulated_server

pytestmark = pytest.mark.slow  # whole runs, in processes of their own

CONCURRENCY = 8
GOING_ON = re.compile(r"^continue with: python \S*optimize/run\.py resume=\S+$", re.MULTILINE)

NewRun = Callable[..., TunedRun]


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with simulated_server() as server:
        yield server


@pytest.fixture
def new_run(tmp_path: Path, server: SimulatedServer) -> NewRun:
    return lambda name, *options: TunedRun(tmp_path / name / "run", over_http(server, *options), server)


# ---------------------------------------------------------------- signals


def interrupted(run: TunedRun, moment: Moment, number: signal.Signals) -> int:
    """The exit code of a session that gets this signal; the requests of the moment are those since the phase began."""
    with run.started() as running:
        assert running.wait_until(lambda: run.has_come(Moment(phase=moment.phase), running)), running.out + running.err
        moment = replace(moment, requests=run.server.asked + (moment.requests or 0))
        assert running.wait_until(lambda: run.has_come(moment, running)), running.out + running.err
        time.sleep(moment.then_seconds)
        return running.end(number).code


def test_a_signal_in_any_phase_lets_finish_what_is_in_flight_and_says_how_to_go_on(
    new_run: NewRun, server: SimulatedServer
) -> None:
    alone = new_run("alone", *MINI_GEPA)
    assert alone.session() == 0
    left_alone = dict(server.counted)
    server.counted.clear()
    server.latency_seconds = 0.05
    run = new_run("run", *MINI_GEPA, "run.drain_seconds=3600")
    phases = {"baseline": 2, "search": 70, "shortlist": 2, "sealed": 10}  # and how many requests are sent in it
    for number, (phase, more) in enumerate(phases.items()):
        how = signal.SIGTERM if number % 2 else signal.SIGINT
        code = interrupted(run, Moment(0.02, more, phase), how)
        said = run.printed[-1]
        assert (code, run.read("verdict"), run.phase) == (3, None, phase), said
        assert f"interrupted by {'SIGTERM' if number % 2 else 'Ctrl-C'}" in said
        assert GOING_ON.search(said), said
        if phase != "baseline":
            assert run.proposals
            assert {each["candidate_id"] for each in run.proposals} < set(run.candidates())
    rows = run.sealed_rows()
    assert 0 < rows < 32
    server.latency_seconds = 0.0
    assert run.session() == 0, run.printed[-1]
    assert dict(server.counted) == left_alone, "nothing was in flight when it ended: each request was sent once"
    assert {**run.verdict, "spend": None} == {**alone.verdict, "spend": None}
    assert run.openings() == 1


def test_a_reflection_in_flight_is_broken_off_after_the_time_for_draining(
    new_run: NewRun, server: SimulatedServer
) -> None:
    run = new_run("run", *MINI_GEPA, "run.drain_seconds=0.5")
    reflecting, is_over = threading.Event(), threading.Event()

    def hold(messages: list[dict[str, Any]]) -> bool:
        if "new_instruction" in str(messages):
            reflecting.set()
            is_over.wait()
        return False

    server.always_fails = hold
    with run.started() as running:
        assert running.wait_until(reflecting.is_set), running.out + running.err
        assert running.end(signal.SIGTERM).code == 3
    is_over.set()
    assert GOING_ON.search(run.printed[-1])


# ---------------------------------------------------------------- the model's server


@pytest.mark.parametrize(("fault", "after"), [("401", 45), ("quota", 250)])
def test_a_refused_key_or_quota_stops_the_run_and_is_no_wrong_answer(fault: str, after: int, tmp_path: Path) -> None:
    """The 45th request is the search's, the 250th the sealed test's."""
    with simulated_server(schedule={"faults": ["ok"] * after, "every": 1, "fault": fault}) as server:
        run = tuning_command(tmp_path, *over_http(server, *MINI_GEPA))
        assert run.code == 3
        reasons = "(the model's provider refuses further requests|the reflection model gave no)"
        assert re.search(f"^stopped: {reasons}", run.err, re.MULTILINE)
        assert {"401": "Incorrect API key", "quota": "exceeded your current quota"}[fault] in run.err
        assert GOING_ON.search(run.err)
        assert run.read("verdict") is None
        assert after <= server.asked <= after + CONCURRENCY + 1
        server.start_over([])
        assert tuning_command(tmp_path, f"resume={run.folder}").code == 0
        assert run.verdict["baseline"]["errors"].keys() <= {"malformed"}
        # What was cut off on its way may have been sent, as far as the run can tell.
        assert run.verdict["spend"]["lm_calls"] <= server.asked + CONCURRENCY


@pytest.mark.parametrize(("after", "failures"), [(30, 6), (45, 10)], ids=["the search gives up", "it goes on"])
def test_a_server_that_only_fails_stops_the_run_before_the_search_is_led_by_it(
    after: int, failures: int, tmp_path: Path
) -> None:
    """Bootstrap asks no reflection model, which would have noticed it."""
    schedule = {"faults": ["ok"] * after, "every": 1, "fault": "500"}
    with simulated_server(schedule=schedule) as server:
        fewer = ("model.num_retries=1", "run.concurrency=4")
        run = tuning_command(tmp_path / "run", *over_http(server, *MINI_BOOTSTRAP, *fewer))
        assert run.code == 3
        assert f"stopped: the model's server has failed {failures} answers in a row (LMServerError: " in run.err
        assert GOING_ON.search(run.err)
        server.start_over([])
        assert tuning_command(tmp_path / "run", f"resume={run.folder}").code == 0
        with simulated_server() as whole:
            alone = tuning_command(tmp_path / "alone", *over_http(whole, *MINI_BOOTSTRAP))
    assert run.verdict["finish_reason"] == alone.verdict["finish_reason"]
    assert run.verdict["gain"] == alone.verdict["gain"]
    told = [(each["candidate_id"], each["val_score"], each["decision"]) for each in run.proposals]
    assert told == [(each["candidate_id"], each["val_score"], each["decision"]) for each in alone.proposals]
    assert run.candidates() == alone.candidates()
