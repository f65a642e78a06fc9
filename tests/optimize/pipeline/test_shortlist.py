"""Candidates that are re-evaluated, and the one that is tested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.store import open_run
from optimize.search.optimizer import Proposal, SearchOutcome, SearchTask
from tests.optimize.planted_runs import ALWAYS, SLIGHTLY, Planted, planted_run


@dataclass
class Scored(Planted):
    """Each candidate with its own score and fate: (text of the finalizer, score on validation, decision)."""

    found: Sequence[tuple[str, float | None, Any]] = ()

    def search(self, task: SearchTask) -> SearchOutcome:
        parent = task.student.initial_prompts
        for number, (text, score, decision) in enumerate(self.found, start=1):
            texts: Mapping[str, str] = {**parent.texts, "finalize": text or parent.texts["finalize"]}
            prompts = replace(parent, texts=dict(texts))
            task.report(Proposal(f"c{number:03}", prompts, decision, "planted", agents=("finalize",), val_score=score))
        return SearchOutcome()


def listed(place: Path, *overrides: str, found: Sequence[tuple[str, float | None, Any]]) -> list[str]:
    tuned = planted_run(place, *overrides, optimizer=Scored([], found=found))
    return [each["candidate_id"] for each in tuned.read("shortlist")]


@pytest.mark.slow
def test_the_best_come_first_each_only_once_and_none_that_was_cut_off(tmp_path: Path) -> None:
    found = [
        (SLIGHTLY, 0.3, "accepted"),
        (ALWAYS, 0.9, "accepted"),
        ("Half.", None, "rejected"),  # never scored on validation
        (ALWAYS, 0.9, "accepted"),  # the same as c002
        ("Much.", 1.0, "cut_off"),
        ("", 1.0, "accepted"),  # the parent itself
        ("Some.", 0.5, "accepted"),
        ("Bad.", 0.2, "accepted"),  # as the parent
    ]
    assert listed(tmp_path, found=found) == ["parent", "c002", "c007", "c001"]
    assert listed(tmp_path / "two", "shortlist.size=1", found=found) == ["parent", "c002"]


def test_it_is_the_fresh_answers_that_decide(tmp_path: Path) -> None:
    found = [("Lucky.", 1.0, "accepted"), (ALWAYS, 0.5, "accepted")]
    tuned = planted_run(tmp_path, "shortlist.epochs=2", optimizer=Scored([], found=found))
    first, second, third = tuned.read("shortlist")
    assert [each["fresh_score"] for each in (first, second, third)] == [0.2, 0.2, 1.0]
    assert (second["val_score"], third["val_score"]) == (1.0, 0.5)
    assert tuned.verdict["winner"]["candidate_id"] == "c002"
    assert tuned.verdict["best_val"]["candidate_id"] == "c001"
    assert "  c001: accuracy 20.0% re-evaluated (100.0% in the search)" in tuned.out


@pytest.mark.slow
def test_the_best_and_the_parent_which_is_a_null_control_are_answered_as_often_as_asked_for(tmp_path: Path) -> None:
    found = [("Lucky.", 1.0, "accepted"), (ALWAYS, 0.5, "accepted")]
    tuned = planted_run(tmp_path, "shortlist.epochs=3", optimizer=Scored([], found=found))
    parent, _, _ = tuned.read("shortlist")
    with open_run(tuned.folder) as store:
        assert sum(not each.target for each in store.records()) == 10 + (3 + 3 + 3) * 10
    assert tuned.verdict["null_gain"] == parent["fresh_score"] - parent["val_score"] == 0.0
    assert "null control: an unchanged copy of the starting prompts gained +0.0 points" in tuned.out


@pytest.mark.slow
def test_a_small_fresh_gain_does_not_open_the_sealed_set(tmp_path: Path) -> None:
    found = [(SLIGHTLY, 0.9, "accepted")]
    tuned = planted_run(tmp_path, "shortlist.min_gain=0.11", optimizer=Scored([], found=found))
    assert (tuned.code, tuned.verdict["finish_reason"]) == (0, "no_accepted_candidate")
    assert "gained +10.0 points" in tuned.verdict["reasons"][0] and "min_gain=0.11" in tuned.verdict["reasons"][0]
    assert tuned.read("sealed") is None and "sealed" not in tuned.verdict
    opened = planted_run(tmp_path / "two", "shortlist.min_gain=0.1", optimizer=Scored([], found=found))
    assert opened.read("sealed") is not None
