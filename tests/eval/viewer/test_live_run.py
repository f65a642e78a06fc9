"""A live run: counts, interval, projection, and the steps of what is under way, while another process writes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.store import RunStore
from eval.viewer.live_run import LiveRun, read_running
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
        write_log(
            tmp_path,
            line("question started", "q5"),
            line("tool finished", "q5", component="calculator", agent="expert", message="Calculator result: 4"),
        )
        write_log(tmp_path, line("agent started", "q1", component="planner"))  # is done: a late line
        state = live.poll()
        assert (state["done"], state["correct"], state["wrong"], state["errors"], state["share"]) == (5, 3, 1, 1, 0.6)
        assert state["interval"] is not None
        assert state["cost_usd"] == pytest.approx(2.5)
        assert state["projected_cost_usd"] == pytest.approx(5.0)
        assert state["eta_seconds"] == pytest.approx(60, abs=5)
        (running,) = state["running"]  # type: ignore[misc]
        assert (running.sample_id, running.agent) == ("q5", "expert")
        assert running.steps[-1] == "calculator: Calculator result: 4"
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


def test_a_log_is_read_from_its_end_whatever_it_holds(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert read_running(log) == {}
    log.write_text("no json\n[1]\n" + line("started", "a", pad="x" * 400_000) + "[" * 99_000 + "\n" + line("step", "b"))
    assert [key[0] for key in read_running(log)] == ["b"]
    (tmp_path / "link.log").symlink_to(log)
    assert read_running(tmp_path / "link.log") == {}
