"""The list of runs: states and numbers from small files, and folders that are not what they say."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.run_list.read_runs import read_entry, read_runs
from eval.reports.run_report.page import write_reports
from eval.runs.folder import DATABASE, RunLock
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from tests.eval.stored_run import SESSION, answered, stored_run
from tests.eval.stored_tuning import TASK, store_tuning

FACTS = {"system": "toy", "model": "gpt-4o-mini", "prompts_name": "baseline", "finished": True}
TUNING = RunInfo(
    run_id="t1", system="toy", model="offline", simulated=True, config={"data": {"name": "toy"}}, tuning=TASK
)


def finished(folder: Path, **facts: object) -> Path:
    stored_run(folder, [answered("q1", "17"), answered("q2", "18")], **{**FACTS, **facts})  # type: ignore[arg-type]
    with RunStore(folder / DATABASE, read_only=True) as store:
        write_reports(folder, store)
    return folder


def tuning(folder: Path, verdict: dict[str, object] | None = None, **state: Any) -> Path:
    info = replace(TUNING, started_at=state.pop("began", "2026-11-21T08:00:00+00:00"))
    known = {"phase": "search", "spend": {"cost_usd": 0.5, "seconds": 60.0}, **state}
    return store_tuning(folder, info, {"verdict": verdict} if verdict else {}, **known)


def test_a_run_whose_records_are_newer_than_its_summary_is_read_from_its_store(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run")
    os.utime(folder / "summary.json", (1, 1))
    run = read_entry(folder)
    assert (run.state, run.score, run.n, run.cost_usd) == ("complete", 0.5, 2, 1.0)


def test_a_stopped_a_killed_and_a_running_run_are_told_apart(tmp_path: Path) -> None:
    records = [answered("q1", "17")]
    stopped = stored_run(
        tmp_path / "a", records, ["q1", "q2"], sessions=[{**SESSION, "stopped": "Ctrl-C"}], finished=False
    )
    assert (read_entry(stopped).state, read_entry(stopped).reason) == ("stopped", "Ctrl-C")
    killed = stored_run(tmp_path / "b", records, ["q1", "q2"], sessions=[{**SESSION, "ended_at": None}], finished=False)
    run = read_entry(killed)
    assert (run.state, run.reason, run.is_floor, run.n) == ("crashed", "its process ended without notice", True, 2)
    lock = RunLock(killed / DATABASE)
    lock.take()
    try:
        assert read_entry(killed).state == "running"
    finally:
        lock.release()


def test_tuning_runs_show_gain_outcome_and_phase(tmp_path: Path) -> None:
    numbers = {"gain": 0.1, "gain_ci95": [0.02, 0.18], "winner": {"score": 0.6}, "sealed": {"n_questions": 40}}
    published = {"published": True, "finish_reason": "improved", "set": "prompts/tuned", **numbers}
    run = read_entry(tuning(tmp_path / "a", published))
    assert (run.state, run.reason, run.gain, run.gain_ci95) == (
        "complete",
        "published as prompts/tuned",
        0.1,
        (0.02, 0.18),
    )
    assert (run.n, run.simulated, run.prompts, run.seconds) == (40, True, "tuned", 60.0)
    refused = {**published, "published": False, "finish_reason": "not_significant"}
    assert read_entry(tuning(tmp_path / "b", refused)).reason == "not published: not significant"
    stopped = read_entry(tuning(tmp_path / "c", stopped="interrupted by Ctrl-C"))
    assert (stopped.state, stopped.reason) == ("stopped", "interrupted by Ctrl-C")
    killed = read_entry(tuning(tmp_path / "d", ended_at=None))
    assert (killed.state, killed.reason) == ("crashed", "its process ended without notice, in its phase search")
    assert [run.name for run in read_runs([tmp_path])] == ["d", "c", "b", "a"]


def test_folders_of_others_are_rows_that_say_what_is_wrong(tmp_path: Path) -> None:
    linked = finished(tmp_path / "linked")
    (linked / "more").symlink_to("/etc")
    assert "more is a link or a special file" in read_entry(linked).reason
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.db").write_bytes(b"SQLite format 3\x00" + b"\x00" * 200)
    assert read_entry(other).state == "refused"
    none = stored_run(tmp_path / "none", [answered("q1", "17")])
    (none / "splits.json").write_text("{}")
    assert "names no tuning run" in read_entry(none).reason
    odd = tuning(tmp_path / "odd", {"published": 7, "gain": "much", "gain_ci95": [1], "winner": [], "sealed": "x"})
    assert read_entry(odd).gain is None
    assert {run.name for run in read_runs([tmp_path])} == {"linked", "other", "none", "odd"}


@pytest.mark.parametrize("agent", ["expert", "control"])
def test_a_part_of_a_proof_has_no_score(tmp_path: Path, agent: str) -> None:
    folder = finished(tmp_path / "attribution" / "night" / agent, gold_informed=agent)
    run = read_entry(folder)
    assert (run.state, run.score, run.score_ci95, run.n) == ("complete", None, None, 2)
    assert "measures no system" in run.no_measurement and run.remark == run.no_measurement
    os.utime(folder / "summary.json", (1, 1))
    assert read_entry(folder).no_measurement == run.no_measurement, "without a summary, from its store"
    assert read_entry(finished(tmp_path / "run")).no_measurement == ""
