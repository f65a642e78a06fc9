"""Tuning runs that end before their verdict: signals in each phase, a model server that dies, a run that is resumed."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.optimize.tuned import (
    MINI_BOOTSTRAP,
    MINI_GEPA,
    Moment,
    SimulatedServer,
    TunedFolder,
    TunedRun,
    over_http,
    simulated_server,
    tuned_here,
)

pytestmark = pytest.mark.slow  # whole runs, in processes of their own

CONCURRENCY = 8
GOING_ON = re.compile(r"^continue with: python \S*optimize/run\.py resume=\S+$", re.MULTILINE)
WITHOUT_DSPY = """
import sys
from optimize.run import main
code = main()
print(sorted({"dspy", "hydra", "gepa"} & set(sys.modules)), file=sys.stderr)
raise SystemExit(code)
"""

NewRun = Callable[..., TunedRun]


@pytest.fixture(autouse=True)
def openings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is noted that a sealed set was opened, by runs in this process."""
    monkeypatch.setattr("optimize.gate.sealed_log.find_log", lambda: tmp_path / "sealed_tests.jsonl")
    return tmp_path / "sealed_tests.jsonl"


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with simulated_server() as server:
        yield server


@pytest.fixture
def new_run(tmp_path: Path, server: SimulatedServer, clean_environment: dict[str, str]) -> NewRun:
    def made(name: str, *options: str) -> TunedRun:
        return TunedRun(tmp_path / name, over_http(server, *options), clean_environment, server)

    return made


# ---------------------------------------------------------------- signals


def interrupted(
    run: TunedRun, moment: Moment, *signals: signal.Signals, apart_seconds: float = 0.3
) -> tuple[int, float]:
    """The exit code of a session that is sent these signals, and the seconds from the first of them to its end.

    The requests of the moment are those since the phase began.
    """
    with run.started() as process:
        output = run.folder.with_suffix(".out")
        assert run.wait(process, Moment(phase=moment.phase)), output.read_text("utf-8")
        moment = replace(moment, requests=run.server.asked + (moment.requests or 0))
        assert run.wait(process, moment), output.read_text("utf-8")
        began = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(apart_seconds)
        process.wait(60)
        took = time.monotonic() - began
    return process.returncode, took


def test_a_signal_in_any_phase_lets_finish_what_is_in_flight_and_says_how_to_go_on(
    new_run: NewRun, server: SimulatedServer
) -> None:
    alone = new_run("alone", *MINI_GEPA)
    assert alone.session() == 0
    left_alone = dict(server.counted)
    server.counted.clear()
    server.latency_seconds = 0.05
    run = new_run("run", *MINI_GEPA)
    phases = {"baseline": 2, "search": 70, "shortlist": 2, "sealed": 10}  # and how many requests are sent in it
    for number, (phase, more) in enumerate(phases.items()):
        how = signal.SIGTERM if number % 2 else signal.SIGINT
        code, took = interrupted(run, Moment(0.02, more, phase), how)
        said = run.printed[-1]
        assert (code, run.read("verdict"), run.phase) == (3, None, phase), said
        assert f"interrupted by {'SIGTERM' if number % 2 else 'Ctrl-C'}" in said
        assert GOING_ON.search(said), said
        assert took < 20
        if phase != "baseline":
            assert run.proposals()
            assert {each["candidate_id"] for each in run.proposals()} < set(run.candidates())
    rows = run.sealed_rows()
    assert 0 < rows < 32
    server.latency_seconds = 0.0
    assert run.session() == 0, run.printed[-1]
    assert dict(server.counted) == left_alone, "nothing was in flight when it ended: each request was sent once"
    assert {**run.verdict, "spend": None} == {**alone.verdict, "spend": None, "cost": run.verdict["cost"]}
    assert run.openings() == 1


def test_a_reflection_in_flight_is_broken_off_after_the_time_for_draining(
    new_run: NewRun, server: SimulatedServer
) -> None:
    run = new_run("run", *MINI_GEPA, "run.drain_seconds=0.5")
    server.latency_seconds = 20.0  # the first request is the reflection's, in the preflight
    code, took = interrupted(run, Moment(0.2, 1), signal.SIGTERM)
    assert (code, server.asked) == (3, 1), run.printed[-1]
    assert took < 8
    assert GOING_ON.search(run.printed[-1])


# ---------------------------------------------------------------- the model's server


@pytest.mark.parametrize("fault", ["401", "quota"])
@pytest.mark.parametrize("after", [45, 250])
def test_a_refused_key_or_quota_stops_the_run_and_is_no_wrong_answer(
    fault: str, after: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The 45th request is the search's, the 250th the sealed test's."""
    with simulated_server(schedule={"faults": ["ok"] * after, "every": 1, "fault": fault}) as server:
        run, asked = TunedFolder(tmp_path / "run"), over_http(server, *MINI_GEPA)
        assert tuned_here(run.folder, asked, tmp_path / "shelf") == 3
        said = capsys.readouterr().err
        assert re.search(
            r"^stopped: (the model's provider refuses further requests|the reflection model gave no)", said
        )
        assert {"401": "Incorrect API key", "quota": "exceeded your current quota"}[fault] in said
        assert GOING_ON.search(said)
        assert run.read("verdict") is None
        assert after <= server.asked <= after + CONCURRENCY + 1
        server.start_over([])
        assert tuned_here(run.folder, asked, tmp_path / "shelf") == 0
        assert run.verdict["baseline"]["errors"].keys() <= {"malformed"}
        # What was cut off on its way may have been sent, as far as the run can tell.
        assert run.verdict["spend"]["lm_calls"] <= server.asked + CONCURRENCY


@pytest.mark.parametrize(("after", "failures"), [(30, 6), (45, 10)], ids=["the search gives up", "it goes on"])
def test_a_server_that_only_fails_stops_the_run_before_the_search_is_led_by_it(
    after: int, failures: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bootstrap asks no reflection model, which would have noticed it."""
    schedule = {"faults": ["ok"] * after, "every": 1, "fault": "500"}
    with simulated_server(schedule=schedule) as server:
        run, asked = (
            TunedFolder(tmp_path / "run"),
            over_http(server, *MINI_BOOTSTRAP, "model.num_retries=1", "run.concurrency=4"),
        )
        assert tuned_here(run.folder, asked, tmp_path / "shelf") == 3
        said = capsys.readouterr().err
        assert re.search(
            rf"^stopped: the model's server has failed {failures} answers in a row \(LMServerError: ", said
        ), said
        assert GOING_ON.search(said)
        server.start_over([])
        assert tuned_here(run.folder, asked, tmp_path / "shelf") == 0
        with simulated_server() as whole:
            alone = TunedFolder(tmp_path / "alone")
            tuned_here(alone.folder, over_http(whole, *MINI_BOOTSTRAP), tmp_path / "shelf")
    assert run.verdict["finish_reason"] == alone.verdict["finish_reason"]
    assert run.verdict["gain"] == alone.verdict["gain"]
    told = [(each["candidate_id"], each["val_score"], each["decision"]) for each in run.proposals()]
    assert told == [(each["candidate_id"], each["val_score"], each["decision"]) for each in alone.proposals()]
    assert run.candidates() == alone.candidates()


# ---------------------------------------------------------------- going on


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TunedFolder, list[str]]]:
    """A run that has come to its verdict, and its options."""
    folder = tmp_path_factory.mktemp("ended")
    with simulated_server() as server, pytest.MonkeyPatch.context() as patched:
        patched.setattr("optimize.gate.sealed_log.find_log", lambda: folder / "sealed_tests.jsonl")
        asked = over_http(server, *MINI_BOOTSTRAP)
        assert tuned_here(folder / "run", asked, folder / "shelf") == 0
        yield TunedFolder(folder / "run"), asked


def resume(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_DSPY, *arguments], capture_output=True, text=True, timeout=60, cwd=PROJECT_ROOT
    )
