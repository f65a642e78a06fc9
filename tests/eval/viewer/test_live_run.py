"""A live run: counts, interval, projection, and the latest steps, while another process writes."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eval.analysis.summary.summary import Counts
from eval.runs.logs import Log
from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.store import RunStore
from eval.viewer.live_run import LiveRun, read_steps
from tests.eval.stored_run import CONFIG, answered, question


def line(sample_id: str = "q3", **fields: object) -> str:
    return json.dumps({"task_id": sample_id, "component": "calculator", **fields}) + "\n"


def poll(live: LiveRun) -> tuple[dict[str, object], Counts]:
    state = live.poll()
    counts = state["counts"]
    assert isinstance(counts, Counts)
    return state, counts


def test_a_run_is_followed_while_it_goes_on(tmp_path: Path) -> None:
    began = (datetime.now(UTC) - timedelta(seconds=60)).isoformat()
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([question(f"q{n}", None) for n in range(10)])
        store.write_info(RunInfo(run_id="r", config={**CONFIG, "run": {"concurrency": 2}}))
        store.write_state(RunState(sessions=[SessionInfo(began)], finished=False))
        live = LiveRun(tmp_path)
        with closing(live.store):
            first, counts = poll(live)
            assert (first["is_running"], counts.n, first["total"]) == (True, 0, 10)
            assert (first["eta_seconds"], first["projected_cost_usd"]) == (None, None)
            now = datetime.now(UTC).isoformat()
            for n, answer in enumerate(("17", "17", "x", "17")):
                store.write(answered(f"q{n}", answer, started_at=now))
            store.write(answered("q4", None, error="down", score=None, started_at=now))
            with closing(Log(tmp_path, "multi_agent_system")) as log:
                log.write("info", "tool started", task_id="q5", component="calculator", agent="expert")
                log.write("warning", "agent failed", task_id="q5", component="expert", agent="expert", error="no reply")
            state, counts = poll(live)
            assert (counts.n, counts.n_correct, counts.n_wrong, counts.n_error, counts.accuracy) == (5, 3, 1, 1, 0.6)
            assert counts.accuracy_ci95 is not None
            assert (state["cost_usd"], state["projected_cost_usd"]) == (pytest.approx(2.5), pytest.approx(5.0))
            assert state["eta_seconds"] == pytest.approx(60, abs=5)
            said = ["expert: agent failed: no reply", "expert: calculator: tool started"]
            assert state["steps"] == [("What is q5?", each) for each in said], "the newest first"


def test_a_page_that_is_open_before_the_plan_is_written_has_it_later(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        live = LiveRun(tmp_path)
        with closing(live.store):
            assert live.poll()["total"] == 0
            store.write_plan([question("q1", None)])
            store.write_info(RunInfo(run_id="r", config=CONFIG))
            assert live.poll()["total"] == 1


def test_an_answer_that_is_tried_again_counts_once_and_costs_twice(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([question("q1", None)])
        store.write_info(RunInfo(run_id="r", config=CONFIG))
        store.write(answered("q1", None, error="down", score=None))
        live = LiveRun(tmp_path)
        assert poll(live)[1].n_error == 1
        store.write(answered("q1", "17", attempt=2))
        state, counts = poll(live)
        assert (counts.n, counts.n_error, counts.n_correct, state["cost_usd"]) == (1, 0, 1, 1.0)
    assert not live.poll()["is_running"]
    live.store.close()


def test_a_log_is_read_from_its_end_whatever_it_holds(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert read_steps(log) == []
    log.write_text("no json\n[1]\n" + line("a", pad="x" * 400_000) + "[" * 99_000 + "\n" + line("b"))
    assert read_steps(log) == [("b", "calculator")]
    (tmp_path / "link.log").symlink_to(log)
    assert read_steps(tmp_path / "link.log") == []
