"""A live tuning run: its candidates and its spend, and nothing of the sealed answers but their number."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.folder import DATABASE
from eval.runs.run_info import TUNING_PROGRESS
from eval.runs.store import RunStore
from eval.viewer.live_tuning import LiveTuning
from tests.eval.stored_run import answered
from tests.eval.stored_tuning import make_tuning, name_proposals, write


def propose(number: int, decision: str = "accepted") -> dict[str, Any]:
    return {"candidate_id": f"c{number:03}", "decision": decision, "agents": ["solve"], "val_score": number / 100}


def poll(folder: Path) -> dict[str, Any]:
    live = LiveTuning(folder)
    try:
        return live.poll()
    finally:
        live.close()


def test_a_search_shows_its_candidates_its_spend_and_the_newest_progress(tmp_path: Path) -> None:
    folder = make_tuning(tmp_path / "t", results=name_proposals(propose(1), propose(3, "rejected"), propose(2)))
    write(folder, TUNING_PROGRESS, {"spend": {"lm_calls": 90, "metric_calls": 45, "cost_usd": 0.7}, "eta_seconds": 9.0})
    state = poll(folder)
    assert (state["state"], state["title"], state["sealed"], state["verdict"]) == ("ended", "search · t", None, "")
    assert [each[0] for each in state["candidates"]] == ["c002", "c003", "c001"]
    assert (state["n_candidates"], state["n_accepted"], state["best"], state["baseline"]) == (3, 2, 0.03, 0.4)
    assert (state["requests"], state["answers"], state["cost_usd"]) == (90, 45, 0.7), "the newer of both"
    assert state["eta_seconds"] is None, "a run that has ended needs no more time"
    marks = {each["name"]: (each["mark"], each["requests"]) for each in state["phases"]}
    assert (marks["baseline"], marks["search"], marks["gate"]) == (("done", 1), ("now", 89), ("next", 0))


@pytest.mark.parametrize("phase", ["sealed", "gate"])
def test_nothing_of_a_sealed_score_is_shown_before_the_verdict(tmp_path: Path, phase: str) -> None:
    shown = []
    for name, answer in (("good", "17"), ("bad", "3")):
        ended = {"resumable": True, "published": False, "finish_reason": "budget", "gain": 0.2}
        folder = make_tuning(tmp_path / name, phase, {"judged": {"p": 0.01}, "verdict": ended})
        with RunStore(folder / DATABASE) as store:
            for side in ("parent", "winner"):
                for each in ("q1", "q2"):
                    store.write(replace(answered(each, answer), variant=side))
        shown.append(poll(folder))
    assert shown[0]["sealed"] == {"done": 4, "total": 12, "eta_seconds": None}
    good, bad = ({name: value for name, value in state.items() if name != "title"} for state in shown)
    assert good == bad, "all right and all wrong look the same"
    assert shown[0]["verdict"] == ""
