"""A live tuning run: phases, spend, candidates, and nothing of the sealed answers but their number."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.runs.run_info import TUNING_FILE, TUNING_PROGRESS
from eval.viewer.live_tuning import MAX_SHOWN, LiveTuning
from tests.eval.stored_run import answered, stored_run

STARTED = "2026-11-21T10:00:00+00:00"


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def make_tuning(folder: Path, phase: str = "search", **state: Any) -> Path:
    begun = {
        name: {"lm_calls": n, "seconds": 1.0 * n, "cost_usd": 0.1 * n} for n, name in enumerate(("baseline", phase))
    }
    known = {"phase": phase, "session_started_at": STARTED, "session_seconds_before": 5.0, "ended_at": STARTED}
    config = {"budget": {"metric_calls": 600, "usd": 5.0}, "gate": {"epochs": 2}, "run": {"concurrency": 4}}
    about = {"run_id": "r", "system": "toy", "model": "small", "optimizer": "gepa", "simulated": True}
    spent = {"lm_calls": 7, "metric_calls": 30, "cost_usd": 0.5, "seconds": 60.0}
    write(
        folder,
        TUNING_FILE,
        {**about, "config": config, "state": {**known, "spend_by_phase": begun, "spend": spent, **state}},
    )
    write(folder, "splits.json", {"train": ["a"], "val": ["b"], "sealed": ["q1", "q2", "q3"]})
    write(folder, "baseline.json", {"val_score": 0.4, "ci95": [0.3, 0.5]})
    return folder


def propose(number: int, decision: str = "accepted") -> str:
    facts = {"candidate_id": f"c{number:03}", "decision": decision, "agents": ["solve"], "val_score": number / 100}
    return json.dumps(facts) + "\n"


def poll(folder: Path) -> dict[str, Any]:
    live = LiveTuning(folder)
    try:
        return live.poll()
    finally:
        live.close()


def test_a_search_shows_its_candidates_its_spend_and_the_newest_progress(tmp_path: Path) -> None:
    folder = make_tuning(tmp_path / "t")
    (folder / "proposals.jsonl").write_text(propose(1) + propose(3, "rejected") + propose(2) + '{"candidate_id": "c0')
    write(folder, TUNING_PROGRESS, {"spend": {"lm_calls": 90, "metric_calls": 45, "cost_usd": 0.7}, "eta_seconds": 9.0})
    state = poll(folder)
    assert (state["state"], state["phase"], state["sealed"], state["verdict"]) == ("ended", "search", None, "")
    assert [each["id"] for each in state["candidates"]] == ["c002", "c003", "c001"]
    assert (state["n_candidates"], state["n_accepted"], state["best"], state["baseline"]) == (3, 2, 0.03, 0.4)
    assert (state["requests"], state["metric_calls"], state["cost_usd"]) == (90, 45, 0.7), "the newer of both"
    assert state["eta_seconds"] is None, "a run that has ended needs no more time"
    marks = {each["name"]: (each["mark"], each["requests"]) for each in state["phases"]}
    assert (marks["baseline"], marks["search"], marks["gate"]) == (("done", 1), ("now", 89), ("next", 0))


@pytest.mark.parametrize("phase", ["sealed", "gate"])
def test_nothing_of_a_sealed_score_is_shown_before_the_verdict(tmp_path: Path, phase: str) -> None:
    shown = []
    for name, answer in (("good", "17"), ("bad", "3")):
        folder = make_tuning(tmp_path / name, phase)
        for arm in ("parent", "winner"):
            stored_run(folder / "sealed" / arm, [answered(each, answer) for each in ("q1", "q2")])
        (folder / "sealed" / "judged.json").write_text('{"p": 0.01}')
        write(folder, "verdict.json", {"resumable": True, "published": False, "finish_reason": "budget", "gain": 0.2})
        shown.append(poll(folder))
    assert shown[0]["sealed"] == {"done": 4, "total": 12, "eta_seconds": None}
    assert shown[0] == shown[1], "all right and all wrong look the same"
    assert shown[0]["verdict"] == ""
    if phase == "sealed":
        assert shown[0]["cost_usd"] == pytest.approx(0.1 + 4 * 0.5), "money is no score"


def test_a_final_verdict_is_named(tmp_path: Path) -> None:
    folder = make_tuning(tmp_path / "t", "gate")
    write(folder, "verdict.json", {"published": True, "set": "prompts/tuned", "resumable": False})
    state = poll(folder)
    assert (state["verdict"], state["published"]) == ("published as prompts/tuned", True)
    assert {each["mark"] for each in state["phases"]} == {"done"}


def test_a_hostile_folder_is_data(tmp_path: Path) -> None:
    folder = make_tuning(
        tmp_path / "t", "sealed", session_started_at=7, spend_by_phase=[1], spend={"cost_usd": 10**400}
    )
    (folder / "proposals.jsonl").write_text("[]\n7\n" + '{"candidate_id": {}, "agents": 3, "val_score": "x"}\n' * 99)
    write(folder, "shortlist.json", [7, {"candidate_id": "c1", "fresh_ci95": [1]}])
    (folder / "sealed").symlink_to(tmp_path)
    (folder / "splits.json").unlink()
    (folder / "splits.json").symlink_to("/dev/zero")
    state = poll(folder)
    assert len(state["candidates"]) == MAX_SHOWN and state["sealed"]["done"] == 0
    json.dumps(state, allow_nan=False)
    (folder / TUNING_FILE).write_text("[]")
    assert poll(folder)["phase"] == ""
