"""A live tuning run: phases, spend, candidates, and nothing of the sealed answers but their number."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval.runs.run_info import TUNING_FILE, TUNING_PROGRESS
from eval.viewer import live_tuning as module
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


class Clock(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: object = None) -> "Clock":
        return cls(2026, 11, 21, 11, tzinfo=UTC)


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is held by a process, at eleven o'clock."""
    monkeypatch.setattr(module, "datetime", Clock)
    monkeypatch.setattr(module, "is_in_use", lambda path: path.name == TUNING_FILE)


def row(name: str, mark: str, requests: float) -> dict[str, object]:
    return {"name": name, "mark": mark, "requests": requests}


def test_the_whole_state_of_a_search_that_goes_on(tmp_path: Path, goes_on: None) -> None:
    folder = make_tuning(tmp_path / "t", stopped=None)
    full = {
        "candidate_id": "c2", "decision": "accepted", "agents": ["solve", 5, ""], "parent_ids": ["c1"], "origin": "own",
        "reason": "better", "val_score": 0.5, "minibatch_before": 0.25, "minibatch_after": 0.75,
    }  # fmt: skip
    (folder / "proposals.jsonl").write_text(propose(1, "rejected") + json.dumps(full) + "\n")
    write(
        folder, "shortlist.json", [{"candidate_id": "c2", "val_score": 0.5, "fresh_score": 0.4, "fresh_ci95": [0, 1]}]
    )
    progress = {"eta_seconds": 9.0, "projected_cost_usd": 2.5, "spend": {"lm_calls": 6, "cost_usd": 9.0}}
    write(folder, TUNING_PROGRESS, progress)
    empty = {"parents": [], "origin": "", "reason": "", "before": None, "after": None}
    first = {**empty, "id": "c001", "decision": "rejected", "agents": ["solve"], "val_score": 0.01}
    assert poll(folder) == {
        "state": "running", "stopped": "", "verdict": "", "published": False, "phase": "search",
        "phases": [row("preflight", "done", 0), row("baseline", "done", 1), row("search", "now", 6),
                   row("shortlist", "next", 0), row("sealed", "next", 0), row("gate", "next", 0)],
        "elapsed_seconds": 3_605.0, "eta_seconds": 9.0, "projected_cost_usd": 2.5, "requests": 7, "cost_usd": 0.5,
        "is_cost_known": True, "budget_usd": 5.0, "metric_calls": 30, "budget_metric_calls": 600, "baseline": 0.4,
        "baseline_ci95": (0.3, 0.5), "n_candidates": 2, "n_accepted": 1, "best": 0.5, "sealed": None,
        "candidates": [
            {"id": "c2", "decision": "accepted", "agents": ["solve"], "parents": ["c1"], "origin": "own",
             "reason": "better", "val_score": 0.5, "before": 0.25, "after": 0.75},
            first,
        ],
        "shortlist": [{"id": "c2", "val_score": 0.5, "fresh_score": 0.4, "fresh_ci95": (0, 1)}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "eta", "is_sealed"),
    [("preflight", None, False), ("baseline", 9.0, False), ("shortlist", None, False), ("gate", None, True)],
)
def test_time_left_is_of_the_search_and_answers_are_counted_from_the_sealed_test_on(
    tmp_path: Path, goes_on: None, phase: str, eta: float | None, is_sealed: bool
) -> None:
    folder = make_tuning(tmp_path / "t", phase)
    write(folder, TUNING_PROGRESS, {"eta_seconds": 9.0, "projected_cost_usd": 2.5})
    state = poll(folder)
    assert (state["eta_seconds"], state["projected_cost_usd"]) == (eta, eta and 2.5)
    assert (state["sealed"] is not None) is is_sealed


def test_the_time_left_of_a_sealed_test_is_as_its_answers_so_far(tmp_path: Path, goes_on: None) -> None:
    folder = make_tuning(tmp_path / "t", "sealed")
    stored_run(folder / "sealed" / "parent", [answered(each, "17") for each in ("q1", "q2", "q3")])
    live = LiveTuning(folder)
    state = live.poll()
    assert state["sealed"] == {"done": 3, "total": 12, "eta_seconds": None}, "as many answers as run at once"
    assert state["cost_usd"] == pytest.approx(0.1 + 3 * 0.5)
    stored_run(folder / "sealed" / "winner", [answered("q1", "17")])
    state = live.poll()
    assert state["sealed"] == {"done": 4, "total": 12, "eta_seconds": pytest.approx((3_605 - 1) * 2)}
    assert state["cost_usd"] == pytest.approx(0.1 + 4 * 0.5)
    live.close()
    write(folder, "splits.json", {"sealed": ["q1"]})
    assert poll(folder)["sealed"] == {"done": 4, "total": 4, "eta_seconds": 0.0}
    bare = make_tuning(tmp_path / "bare", "sealed")
    data = json.loads((bare / TUNING_FILE).read_text())
    write(bare, TUNING_FILE, {**data, "config": {"run": {"concurrency": 0}}})
    stored_run(bare / "sealed" / "a", [answered(each, "17") for each in ("q1", "q2", "q3")])
    assert poll(bare)["sealed"] == {"done": 3, "total": 6, "eta_seconds": 3_604.0}, "one epoch, one answer at a time"


def test_only_folders_with_a_store_are_sides_of_the_sealed_test(tmp_path: Path, goes_on: None) -> None:
    folder = make_tuning(tmp_path / "t", "sealed")
    stored_run(tmp_path / "elsewhere", [answered("q1", "17")])
    for n in range(11):
        stored_run(folder / "sealed" / f"side-{n:02}", [answered("q1", "17")])
    assert poll(folder)["sealed"]["done"] == 10, "ten are read"
    other = make_tuning(tmp_path / "u", "sealed")
    (other / "sealed" / "broken").mkdir(parents=True)
    (other / "sealed" / "broken" / "run.db").write_text("no store")
    (other / "sealed" / "empty").mkdir()
    (other / "sealed" / "link").symlink_to(tmp_path / "elsewhere")
    stored_run(other / "sealed" / "whole", [answered("q1", "17")])
    assert poll(other)["sealed"]["done"] == 1


def test_a_verdict_that_may_still_change_is_none_and_costs_that_are_not_known_are_said(
    tmp_path: Path, goes_on: None
) -> None:
    folder = make_tuning(tmp_path / "t", "gate", spend={"lm_calls": 3, "unknown_cost_calls": 1}, stopped="a budget")
    write(folder, "verdict.json", {"resumable": True, "published": True, "set": "prompts/tuned"})
    state = poll(folder)
    assert (state["verdict"], state["published"], state["stopped"]) == ("", False, "a budget")
    assert (state["is_cost_known"], state["cost_usd"], state["best"]) == (False, None, None)
    write(folder, "verdict.json", {"published": False, "finish_reason": "no gain"})
    state = poll(folder)
    assert state["published"] is False and state["verdict"]


def test_phases_count_the_requests_between_their_beginnings(tmp_path: Path) -> None:
    begun = {"preflight": {"lm_calls": 0}, "baseline": {"lm_calls": 4}, "shortlist": {"lm_calls": 10}}
    folder = make_tuning(tmp_path / "t", "shortlist", spend_by_phase=begun, spend={"lm_calls": 9})
    assert poll(folder)["phases"] == [
        row("preflight", "done", 4), row("baseline", "done", 6), row("search", "done", 0), row("shortlist", "now", 0),
        row("sealed", "next", 0), row("gate", "next", 0),
    ]  # fmt: skip
    odd = make_tuning(tmp_path / "odd", "unheard of", spend_by_phase={})
    assert [each["mark"] for each in poll(odd)["phases"]] == ["done"] * 6


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        ({}, 3_605.0),
        ({"session_started_at": "2026-11-21T10:00:00"}, 3_605.0),
        ({"session_started_at": "2026-11-21T12:00:00+00:00"}, 5.0),
        ({"session_started_at": "odd"}, 60.0),
        ({"session_seconds_before": None}, 3_600.0),
    ],
)
def test_the_time_of_all_sessions_goes_on(tmp_path: Path, goes_on: None, state: dict[str, Any], seconds: float) -> None:
    assert poll(make_tuning(tmp_path / "t", **state))["elapsed_seconds"] == seconds


def test_the_time_of_a_run_that_has_ended_is_what_it_spent(tmp_path: Path) -> None:
    assert poll(make_tuning(tmp_path / "t"))["elapsed_seconds"] == 60.0
    assert poll(make_tuning(tmp_path / "u", spend={}))["elapsed_seconds"] == 0.0


def test_of_a_candidate_twenty_agents_are_named(tmp_path: Path) -> None:
    folder = make_tuning(tmp_path / "t")
    (folder / "proposals.jsonl").write_text(json.dumps({"agents": [f"a{n}" for n in range(21)]}) + "\n")
    (only,) = poll(folder)["candidates"]
    assert only["agents"] == [f"a{n}" for n in range(20)]
