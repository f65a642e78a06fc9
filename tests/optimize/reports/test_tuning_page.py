"""The page of a tuning run, made from folders by hand: its first sentence, its order, and what it must not show."""

from pathlib import Path
from typing import Any

import pytest

from mas.runtime.errors import UserError
from optimize.reports.tuning_page import _build_page, describe_outcome, write_tuning_page
from optimize.session.tuning_store import read_tuning
from tests.command import keep_result
from tests.eval.foreign_folder import forget_run
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_proposal, a_tuning, verdict

EVIL = "</script><img src=x onerror=alert(1)>"
SEALED = verdict()["sealed"]


def write_page(folder: Path) -> str:
    return write_tuning_page(folder).read_text("utf-8")


def test_a_refused_and_an_early_run_say_why(tmp_path: Path) -> None:
    refused = a_tuning(tmp_path / "refused", PROPOSALS, verdict=verdict(False, sealed=SEALED))
    outcome = describe_outcome(read_tuning(refused))
    assert outcome.label == "not published"
    assert outcome.sentence.startswith("Sealed test: accuracy 25.0%")
    early = verdict(False, None, finish_reason="no_accepted_candidate", reasons=["none was better"])
    found = describe_outcome(read_tuning(a_tuning(tmp_path / "early", PROPOSALS, verdict=early)))
    assert found.sentence == "none was better. The sealed questions were not used."


def test_the_level_of_a_second_test_with_the_same_questions_is_explained(tmp_path: Path) -> None:
    second = {**SEALED, "opened_before": 1, "level": 0.0075, "level_left": 0.0125}
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(False, sealed=second))
    note = "1 earlier sealed test used sealed questions of this run: the gate requires p of at most 0.0075"
    assert any(each.startswith(note) for each in describe_outcome(read_tuning(folder)).notes)


def test_a_run_without_a_verdict_claims_no_result(tmp_path: Path) -> None:
    stopped = a_tuning(tmp_path / "stopped", PROPOSALS, phase="search", stopped="interrupted by Ctrl-C")
    assert describe_outcome(read_tuning(stopped)).sentence == (
        "Stopped: interrupted by Ctrl-C. Its last phase is search. The sealed questions were not used. What is below "
        "is how far it came, and no result."
    )
    killed = a_tuning(tmp_path / "killed", PROPOSALS, phase="search", ended_at=None)
    assert "It goes on, or was killed." in describe_outcome(read_tuning(killed)).sentence
    assert "no verdict" in write_page(killed)


def test_a_candidate_that_was_cut_off_has_no_score(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", [a_proposal(1, "cut_off", val_score=0.1234)])
    page = write_page(folder)
    assert "not scored whole" in page and "12.3%" not in page


def test_a_foreign_folder_is_marked_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict())
    assert "made elsewhere" not in write_page(folder)
    forget_run(folder)
    assert "This run was made elsewhere" in write_page(folder)
    keep_result(folder, "verdict", {"winner": "c001", "reasons": 7})
    with pytest.raises(UserError, match="was made elsewhere, or moved since, and cannot be read"):
        write_tuning_page(folder)
    (folder / "verdict.json").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match=r"verdict.json is a link or a special file"):
        write_tuning_page(folder)


def build(folder: Path) -> dict[str, Any]:
    """What the template is given."""
    return _build_page(read_tuning(folder))


@pytest.mark.parametrize(
    ("spend", "simulated", "remark"),
    [
        ({"cost_usd": 0.5}, False, "$0.5000"),
        ({}, False, "$0.0000"),
        ({"cost_usd": 0.5, "unknown_cost_calls": 1}, False, "at least $0.5000"),
        ({"cost_usd": 0.0, "unknown_cost_calls": 1}, False, "cost n/a"),
        ({"unknown_cost_calls": 1}, False, "cost n/a"),
        ({"cost_usd": 0.5, "unknown_cost_calls": 1}, True, "nothing paid"),
    ],
)
def test_what_a_run_cost_is_said_as_far_as_it_is_known(
    tmp_path: Path, spend: dict[str, float], simulated: bool, remark: str
) -> None:
    folder = a_tuning(tmp_path / "run", spend={"lm_calls": 1, **spend}, simulated=simulated)
    assert build(folder)["tiles"][-1] == ("1", "requests", f"{remark}, 0 tokens, 0 s")


def test_the_sealed_test_is_shown_with_both_sides_and_the_interval_of_the_gain(tmp_path: Path) -> None:
    found = verdict(sealed=SEALED, metric="f1")
    tiles = build(a_tuning(tmp_path / "run", PROPOSALS, verdict=found))["tiles"]
    assert tiles[:3] == [
        ("+12.5", "points gained in f1", "95% interval +1.0 to +24.0"),
        ("25.0%", "starting prompts on sealed questions", "95% interval 20.0% to 30.0%"),
        ("37.5%", "c001 on sealed questions", "95% interval 30.0% to 45.0%"),
    ]


def test_the_shortlist_has_the_tested_candidate_and_the_starting_prompts(tmp_path: Path) -> None:
    shortlist = [
        {"candidate_id": "parent", "fresh_score": 0.3, "fresh_ci95": [0.2, 0.4], "val_score": 0.25},
        {"candidate_id": "c001", "fresh_score": 0.5, "fresh_ci95": [0.4, 0.6], "val_score": 0.75},
        {"candidate_id": "c003", "fresh_score": 0.4, "fresh_ci95": None, "val_score": None},
    ]
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), shortlist=shortlist)
    assert build(folder)["shortlist"] == [
        ("starting prompts", "25.0%", "30.0% (20.0% to 40.0%)"),
        ("c001 (tested)", "75.0%", "50.0% (40.0% to 60.0%)"),
        ("c003", "n/a", "40.0%"),
    ]
    assert "50.0% (40.0% to 60.0%)" in write_page(folder)


def test_the_difference_shown_is_that_of_the_tested_candidate_and_of_each_that_was_kept(tmp_path: Path) -> None:
    proposals = [a_proposal(1), a_proposal(2, "rejected", val_score=0.99), a_proposal(3)]
    folder = a_tuning(tmp_path / "run", proposals, verdict=verdict(winner="c003"))
    page = build(folder)
    assert any("as c003 of" in text for each in page["winner_difference"] for _, text in each.lines)
    assert [bool(each["difference"]) for each in page["candidates"]] == [False, True, False, True]
    assert "as c003 of" in write_page(folder)
    untested = build(a_tuning(tmp_path / "untested", proposals))
    assert untested["winner"] is None and untested["winner_difference"] is None


def test_the_facts_of_a_run_are_those_that_it_has(tmp_path: Path) -> None:
    about = {"system": "toy", "run_id": "r1", "name": "mine", "prompts_name": "toy_baseline", "command": ["a=1", "b=2"]}
    config = {"data": {"name": "sample"}}
    folder = a_tuning(tmp_path / "run", config=config, simulated=True, **about)
    page = build(folder)
    assert page["facts"] == [
        ("system", "toy"),
        ("model", "gpt-4o-mini (simulated)"),
        ("reflection model", "gpt-4o"),
        ("data", "sample"),
        ("questions", "1 training, 1 validation, 1 sealed test"),
        ("optimizer", "gepa, seed 7"),
        ("starting prompts", "toy_baseline"),
        ("began", "2026-11-21 10:00 UTC"),
        ("command", "python optimize/run.py a=1 b=2"),
        ("run", "run (id r1)"),
    ]
    assert (page["title"], page["parent_set"]) == ("Tuning of toy: mine (simulated)", "toy_baseline")


def test_the_leaks_of_each_candidate_are_listed(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict())
    hit = {"kind": "gold", "split": "val", "agent": "finalizer", "place": "text line 1", "sample_id": "q2"}
    report = {"blocked": True, "checked": {"train": 1}, "hits": [hit]}
    keep_result(folder, "leaks", {"c001": report})
    assert build(folder)["leaks"] == {"c001": report}
    assert "blocking: val gold in finalizer, text line 1" in write_page(folder)
