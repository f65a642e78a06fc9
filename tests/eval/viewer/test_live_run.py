"""A live run: counts, interval, projection, and the steps of what is under way, while another process writes."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.store import RunStore
from eval.viewer import live_run as module
from eval.viewer.live_run import Follower, LiveRun, LogTail
from eval.viewer.steps import describe_event
from tests.eval.stored_run import CONFIG, answered, question


def line(event: str, sample_id: str = "q3", **fields: object) -> str:
    names = {"task_id": sample_id, "epoch": 1, "attempt": 1, "timestamp": datetime.now(UTC).isoformat()}
    return json.dumps({**names, "event": event, **fields}) + "\n"


def write_log(folder: Path, *lines: str) -> None:
    (folder / "logs").mkdir(exist_ok=True)
    with (folder / "logs" / "multi_agent_system.log").open("a") as file:
        file.writelines(lines)


def test_a_run_is_followed_while_it_goes_on(tmp_path: Path) -> None:
    began = (datetime.now(UTC) - timedelta(seconds=60)).isoformat()
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([question(f"q{n}", None) for n in range(10)])
        store.write_info(RunInfo(run_id="r", config={**CONFIG, "run": {"concurrency": 2}}))
        store.write_state(RunState(sessions=[SessionInfo(began)], finished=False))
        live = LiveRun(tmp_path)
        first = live.poll()
        assert (first["state"], first["done"], first["total"]) == ("running", 0, 10)
        assert (first["eta_seconds"], first["projected_cost_usd"], first["interval"]) == (None, None, None)
        now = datetime.now(UTC).isoformat()
        for n, answer in enumerate(("17", "17", "x", "17")):
            store.write(answered(f"q{n}", answer, started_at=now))
        store.write(answered("q4", None, error="down", score=None, started_at=now))
        arguments = {"arguments": {"expression": "2+2"}, "observation": "4"}
        write_log(
            tmp_path,
            line("question started", "q5"),
            line("tool finished", "q5", component="calculator", agent="expert", **arguments),
        )
        write_log(tmp_path, line("agent started", "q1", component="planner"))  # is done: a late line
        state = live.poll()
        assert (state["done"], state["correct"], state["wrong"], state["errors"], state["share"]) == (5, 3, 1, 1, 0.6)
        assert state["interval"] is not None
        assert state["cost_usd"] == pytest.approx(2.5)
        assert state["projected_cost_usd"] == pytest.approx(5.0)
        assert state["eta_seconds"] == pytest.approx(60, abs=5)
        (running,) = state["running"]  # type: ignore[misc]
        assert (running["id"], running["agent"], running["steps"]) == (
            "q5",
            "expert",
            ['calculator(expression="2+2") → 4'],
        )
        write_log(tmp_path, line("question finished", "q5"))
        assert live.poll()["running"] == []
        live.close()


def test_an_answer_that_is_tried_again_counts_once_and_costs_twice(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([question("q1", None)])
        store.write_info(RunInfo(run_id="r", config=CONFIG))
        store.write(answered("q1", None, error="down", score=None))
        live = LiveRun(tmp_path)
        assert live.poll()["errors"] == 1
        store.write(answered("q1", "17", attempt=2))
        state = live.poll()
        assert (state["done"], state["errors"], state["correct"], state["cost_usd"]) == (1, 0, 1, 1.0)
        live.close()
    live = LiveRun(tmp_path)
    assert live.poll()["state"] == "ended"
    live.close()


def test_all_browsers_share_one_reading_a_poll(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([question("q1", None)])
        store.write_info(RunInfo(run_id="r", config=CONFIG))
        follower = Follower(LiveRun(tmp_path), poll_seconds=60)
        assert follower.read() is follower.read() is follower.read()
        assert follower.n_polls == 1
        follower.close()


def test_a_log_is_read_in_pieces_whatever_it_holds(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    tail = LogTail(log)
    assert list(tail.read()) == []
    log.write_text('{"a": 1}\nno json\n[1]\n{"a": 2')
    assert list(tail.read()) == [{"a": 1}]
    with log.open("a") as file:
        file.write("}\n")
    assert list(tail.read()) == [{"a": 2}]
    with log.open("a") as file:
        file.write("[" * 200_000 + "\n" + '{"pad": "' + "x" * 1_200_000 + '"}\n{"a": 3}\n')
    assert list(tail.read())[-1] == {"a": 3}


def test_a_log_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"a": 1}\n')
    (tmp_path / "link.log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe.log")
    assert list(LogTail(tmp_path / "link.log").read()) == []
    assert list(LogTail(tmp_path / "pipe.log").read()) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"event": "agent finished", "component": "planner", "seconds": 1.25}, "planner finished, 1.2 s"),
        ({"event": "decision", "component": "critic", "decision": "reject", "feedback": "no"}, "critic: reject: no"),
        ({"event": "tool finished", "component": "x", "arguments": "cut text", "observation": "4"}, "x(…) → 4"),
        ({"event": "lm finished", "component": "m", "input_tokens": 5, "output_tokens": 2}, "m: 5 + 2 tokens"),
        ({"event": "tool failed", "component": "x", "error": "E: down"}, "x: tool failed: E: down"),
        ({"event": "message", "component": "orchestrator"}, ""),
        ({"event": {"a": 1}, "component": None}, ": {'a': 1}"),
    ],
)
def test_a_line_of_the_log_in_words(fields: dict[str, object], text: str) -> None:
    assert describe_event(fields) == text


class Clock(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: object = None) -> "Clock":
        return cls(2026, 11, 21, 10, tzinfo=UTC)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Of every look whether the run goes on, which it does; the clock stands still."""
    seen: list[Path] = []
    monkeypatch.setattr(module, "datetime", Clock)
    monkeypatch.setattr(module, "is_in_use", lambda path: seen.append(path) or True)
    return seen


def begin(folder: Path, *sessions: SessionInfo, n: int = 4, epochs: int = 2, at_once: object = 1, **state: Any) -> None:
    config = {**CONFIG, "run": {"concurrency": at_once}}
    with RunStore(folder / "run.db") as store:
        store.write_plan([question(f"q{at}", None) for at in range(n)])
        store.write_info(RunInfo(run_id="r", config=config, epochs=epochs))
        store.write_state(RunState(sessions=list(sessions), **state))


def add(folder: Path, *records: Record) -> None:
    with RunStore(folder / "run.db") as store:
        for each in records:
            store.write(each)


BEFORE, LATER = "2026-11-21T09:00:00+00:00", "2026-11-21T09:59:10+00:00"
SESSION = SessionInfo("2026-11-21T09:59:00+00:00")
PARTLY = answered("q2", "16", score=0.5, started_at=LATER, question="Which?\nOne", wall_seconds=1.26)
RECORDS = [
    answered("q0", "17", started_at=BEFORE),
    answered("q0", "3", epoch=2, started_at=LATER),
    answered("q1", "17", started_at=LATER),
    PARTLY,
    answered("q3", None, score=None, error="it\nbroke", started_at=LATER),
]


def test_the_whole_state_of_a_run_that_goes_on(tmp_path: Path, looks: list[Path]) -> None:
    begin(tmp_path, SESSION)
    add(tmp_path, *RECORDS)
    when = {"timestamp": "2026-11-21T09:59:30"}
    lines = [line("agent started", "q1", epoch=2, component=f"a{n}", agent=f"a{n}", **when) for n in range(7)]
    write_log(tmp_path, *lines, line("lm finished", "q1", epoch=2, component="m", **when))
    write_log(tmp_path, line("question started", "q2", epoch=2, timestamp="2026-11-21T09:59:20+00:00"))
    live = LiveRun(tmp_path)
    state = live.poll()
    recent = state.pop("recent")
    assert state == {
        "state": "running", "stopped": "", "done": 5, "total": 8, "correct": 2, "wrong": 2, "errors": 1, "scored": 5,
        "share": 0.4, "interval": list(compute_clustered_interval([(1, 2), (1, 1), (0, 1), (0, 1)]) or ()),
        "cost_usd": 2.5, "is_cost_known": True, "projected_cost_usd": pytest.approx(4.0), "eta_seconds": 45.0,
        "elapsed_seconds": 60.0, "n_running": 2,
        "running": [
            {"id": "q2", "question": "What is q2?", "epoch": 2, "agent": "", "seconds": 40.0, "steps": []},
            {"id": "q1", "question": "What is q1?", "epoch": 2, "agent": "a6", "seconds": 30.0,
             "steps": ["a2 …", "a3 …", "a4 …", "a5 …", "a6 …", "m: ? + ? tokens"]},
        ],
    }  # fmt: skip
    shown = [tuple(each.values()) for each in recent]  # type: ignore[attr-defined]
    assert shown == [
        ("q3", "What is q3?", "error", "it broke", "17", 0.0),
        ("q2", "Which? One", "partial", "16", "17", 1.3),
        ("q1", "What is q1?", "right", "17", "17", 0.0),
        ("q0", "What is q0?", "wrong", "3", "17", 0.0),
        ("q0", "What is q0?", "right", "17", "17", 0.0),
    ]
    assert looks == [tmp_path / "run.db"]
    live.close()


def test_answers_without_a_target_are_no_share_and_the_newest_twelve_are_shown(
    tmp_path: Path, looks: list[Path]
) -> None:
    begin(tmp_path, SESSION, n=14, epochs=1, at_once=0)
    add(tmp_path, *(answered(f"q{n}", None, gold=None, started_at=LATER) for n in range(13)))
    live = LiveRun(tmp_path)
    state = live.poll()
    assert [state[name] for name in ("done", "scored", "correct", "wrong", "share", "interval")] == [
        13, 0, 0, 0, None, None
    ]  # fmt: skip
    recent: Any = state["recent"]
    assert [each["id"] for each in recent] == [f"q{n}" for n in range(12, 0, -1)]
    assert (recent[0]["mark"], recent[0]["answer"], recent[0]["target"]) == ("unscored", "(none)", "")
    assert state["eta_seconds"] == pytest.approx(60 / 13), "at least one answer at a time"
    live.close()


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        (Usage(2, cost_usd=None, known_cost_usd=0.25), False),
        (Usage(0, cost_usd=None), True),
        (Usage(1, cost_usd=0.5), True),
    ],
)
def test_a_cost_is_projected_where_the_price_of_every_call_is_known(
    tmp_path: Path, looks: list[Path], usage: Usage, known: bool
) -> None:
    begin(tmp_path, SESSION, epochs=1)
    add(tmp_path, *(answered(f"q{n}", "17", started_at=LATER, usage=usage) for n in range(3)))
    live = LiveRun(tmp_path)
    state = live.poll()
    assert (state["is_cost_known"], state["cost_usd"]) == (known, 3 * usage.at_least_usd)
    assert state["projected_cost_usd"] == (pytest.approx(4 * usage.at_least_usd) if known else None)
    live.close()


def test_a_judges_calls_cost_too_and_earlier_sessions_say_nothing_of_the_time_left(
    tmp_path: Path, looks: list[Path]
) -> None:
    begin(tmp_path, SESSION, epochs=1)
    judged = answered("q0", "17", started_at=BEFORE, scorer_usage=Usage(1, cost_usd=0.25))
    add(tmp_path, judged, *(answered(f"q{n}", "17", started_at=BEFORE) for n in (1, 2)))
    live = LiveRun(tmp_path)
    state = live.poll()
    assert (state["cost_usd"], state["eta_seconds"], state["projected_cost_usd"]) == (1.75, None, None)
    add(tmp_path, answered("q3", "17", started_at=LATER))
    state = live.poll()
    assert (state["eta_seconds"], state["projected_cost_usd"]) == (0.0, 2.25)
    live.close()


def test_a_run_that_has_ended_shows_its_own_time_and_nothing_under_way(tmp_path: Path) -> None:
    ended = SessionInfo(BEFORE, LATER, "a budget")
    begin(tmp_path, ended, wall_seconds=12.5)
    add(tmp_path, *RECORDS)
    write_log(tmp_path, line("question started", "q1", epoch=2))
    live = LiveRun(tmp_path)
    state = live.poll()
    names = ("state", "stopped", "elapsed_seconds", "running", "n_running", "eta_seconds", "projected_cost_usd")
    assert [state[name] for name in names] == ["ended", "a budget", 12.5, [], 0, None, None]
    live.close()


def test_a_run_whose_process_died_has_the_time_of_its_ended_sessions(tmp_path: Path) -> None:
    begin(tmp_path, SESSION, wall_seconds=3.5)
    live = LiveRun(tmp_path)
    assert [live.poll()[name] for name in ("state", "elapsed_seconds")] == ["ended", 3.5]
    live.close()
    (tmp_path / "new").mkdir()
    begin(tmp_path / "new")
    live = LiveRun(tmp_path / "new")
    assert [live.poll()[name] for name in ("elapsed_seconds", "stopped", "done")] == [0.0, "", 0]
    live.close()


def test_the_lock_is_looked_at_when_nothing_is_new_for_a_while(tmp_path: Path, looks: list[Path]) -> None:
    begin(tmp_path, SESSION)
    live, counted = LiveRun(tmp_path), []
    for _ in range(11):
        live.poll()
        counted.append(len(looks))
    assert counted == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3]
    add(tmp_path, RECORDS[0])
    live.poll()
    assert len(looks) == 3, "a new answer shows that it goes on"
    live.poll()
    assert len(looks) == 4
    with RunStore(tmp_path / "run.db") as store:
        store.write_state(RunState(sessions=[SessionInfo(BEFORE, LATER)]))
    live.poll()
    live.poll()
    assert len(looks) == 6, "whether the session that has ended was the last"
    live.close()


def test_what_is_under_way_follows_the_log(tmp_path: Path, looks: list[Path]) -> None:
    begin(tmp_path, SESSION, n=70, epochs=1)
    live = LiveRun(tmp_path)

    def running() -> list[tuple[str, int]]:
        found: Any = live.poll()["running"]
        return [(each["id"], each["epoch"]) for each in found]

    odd = [line("agent started", "q1", **{name: "x"}) for name in ("epoch", "attempt")]
    write_log(tmp_path, *odd, line("agent started", 5))  # type: ignore[arg-type]
    assert running() == []
    write_log(tmp_path, line("agent started", "q1", attempt=2), line("agent started", "q2"))
    assert running() == [("q1", 1), ("q2", 1)]
    write_log(tmp_path, line("question failed", "q1"), line("question failed", "q2"))
    assert running() == [("q1", 1)], "the first attempt has failed, and the second goes on"
    add(tmp_path, answered("q1", "17", attempt=2))
    assert running() == []
    write_log(tmp_path, line("agent started", "q1", attempt=1), line("agent started", "q1", attempt=2))
    assert running() == [], "late lines"
    write_log(tmp_path, line("agent started", "q1", attempt=3))
    assert running() == [("q1", 1)]
    write_log(tmp_path, *(line("agent started", f"q{n}", timestamp=f"2026-11-21T09:{n:02}:00") for n in range(2, 67)))
    state = live.poll()
    assert (state["n_running"], len(state["running"])) == (66, 64)  # type: ignore[arg-type]
    live.close()


def test_times_that_are_odd_are_none_and_an_agent_stays_until_another_is_named(
    tmp_path: Path, looks: list[Path]
) -> None:
    begin(tmp_path, SESSION)
    moments = ["", "odd", "2026-11-21T11:00:00+00:00", "2026-11-21T09:59:59.26", "2026-11-21T10:59:00+01:00"]
    for n, each in enumerate(moments):
        write_log(tmp_path, line("agent started", f"q{n}", timestamp=each, agent="x" * 61), line("step", f"q{n}"))
    live = LiveRun(tmp_path)
    running: Any = live.poll()["running"]
    assert {each["id"]: each["seconds"] for each in running} == {"q0": 0.0, "q1": 0.0, "q2": 0.0, "q3": 0.7, "q4": 60.0}
    assert {each["agent"] for each in running} == {"x" * 59 + "…"}
    assert [each["question"] for each in running if each["id"] == "q4"] == [""], "it is not in the plan"
    live.close()


def test_of_a_long_piece_of_a_log_the_end_is_read_and_a_new_log_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 18)
    log = tmp_path / "x.log"
    two, three = '{"a": 1}\n{"a": 2}\n', '{"a": 1}\n{"a": 2}\n{"a": 3}\n'
    log.write_text(two)
    tail = LogTail(log)
    assert list(tail.read()) == [{"a": 1}, {"a": 2}] and list(tail.read()) == []
    log.write_text(three)
    assert list(LogTail(log).read()) == [{"a": 2}, {"a": 3}]
    assert list(tail.read()) == [{"a": 3}]
    log.write_text('{"b": 1}\n')
    assert list(tail.read()) == [{"b": 1}], "it was begun anew"
    log.write_text('{"b": 1}\n{"c":')
    assert list(tail.read()) == []
    log.write_text('{"b": 1}\n{"c": 5}\n')
    assert list(tail.read()) == [{"c": 5}]


def test_a_snapshot_is_read_again_when_it_is_as_old_as_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [10.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: moments[0]))

    class Counted:
        n = closed = 0

        def poll(self) -> dict[str, object]:
            self.n += 1
            return {"n": self.n}

        def close(self) -> None:
            self.closed += 1

    live = Counted()
    follower = Follower(live)
    found = []
    for moment in (10.0, 10.9, 11.0, 11.5, 12.0):
        moments[0] = moment
        found.append(follower.read()["n"])
    assert (found, follower.n_polls) == ([1, 1, 2, 2, 3], 3)
    follower.close()
    assert live.closed == 1
