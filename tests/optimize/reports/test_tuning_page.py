"""The page of a tuning run, made from folders by hand: its first sentence, its order, and what it must not show."""

from pathlib import Path
from typing import Any

import pytest

from eval.reports.html.page import Point
from mas.runtime.errors import UserError
from optimize.reports.outcome import describe_outcome
from optimize.reports.tuning_page import _build_page, write_tuning_page
from optimize.session.tuning_store import read_tuning
from tests.command import keep_result
from tests.eval.foreign_folder import forget_run
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_proposal, a_tuning, verdict

EVIL = "</script><img src=x onerror=alert(1)>"
SEALED = verdict()["sealed"]


def write_page(folder: Path) -> str:
    return write_tuning_page(folder).read_text("utf-8")


def test_a_refused_and_an_early_run_say_why(tmp_path: Path) -> None:
    refused = a_tuning(tmp_path / "refused", PROPOSALS, verdict=verdict(False, sealed=SEALED, resumable=False))
    outcome = describe_outcome(read_tuning(refused))
    assert outcome.label == "not published"
    assert outcome.sentence.startswith("The sealed test does not show that it is better. Sealed test: accuracy 25.0%")
    early = verdict(False, None, finish_reason="no_accepted_candidate", reasons=["none was better"])
    found = describe_outcome(read_tuning(a_tuning(tmp_path / "early", PROPOSALS, verdict=early)))
    assert found.sentence == "Nothing better was found: none was better. The sealed questions were not used."


def test_a_run_without_a_verdict_claims_no_result(tmp_path: Path) -> None:
    stopped = a_tuning(tmp_path / "stopped", PROPOSALS, phase="search", stopped="interrupted by Ctrl-C")
    assert describe_outcome(read_tuning(stopped)).sentence == (
        "Stopped in the phase search: interrupted by Ctrl-C. The sealed questions were not used. What is below is how "
        "far it came, and no result."
    )
    killed = a_tuning(tmp_path / "killed", PROPOSALS, phase="search", ended_at=None)
    assert "its process ended without notice" in describe_outcome(read_tuning(killed)).sentence
    assert "no verdict" in write_page(killed)


def test_a_candidate_that_was_cut_off_has_no_score(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", [a_proposal(1, "cut_off", val_score=0.1234)])
    page = write_page(folder)
    assert "not scored whole" in page and "12.3%" not in page


def test_a_foreign_folder_is_marked_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(resumable=False))
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


def test_the_sealed_test_is_drawn_with_both_sides_and_each_interval_of_the_gain(tmp_path: Path) -> None:
    sealed = {**SEALED, "gain_interval": [0.005, 0.245]}
    found = verdict(sealed=sealed, metric="f1", resumable=False)
    scores, gains = build(a_tuning(tmp_path / "run", PROPOSALS, verdict=found))["test_charts"]
    assert scores.title == "f1 on the sealed questions" and scores.points == [
        Point("starting prompts", 0.25, low=0.2, high=0.3, tone="quiet", note="25.0%"),
        Point("c001", 0.375, low=0.3, high=0.45, tone="accent", note="37.5%"),
    ]
    assert gains.title == "gain, in points" and gains.points == [
        Point("95% interval", 0.125, low=0.01, high=0.24, tone="right", note="+12.5"),
        Point("97% interval (decides)", 0.125, low=0.005, high=0.245, tone="right", note="+0.5 to +24.5"),
    ]


def test_the_shortlist_is_drawn_with_the_tested_candidate_and_a_line_at_the_starting_prompts(tmp_path: Path) -> None:
    shortlist = [
        {"candidate_id": "parent", "fresh_score": 0.3, "fresh_ci95": [0.2, 0.4], "val_score": 0.25},
        {"candidate_id": "c001", "fresh_score": 0.5, "fresh_ci95": [0.4, 0.6], "val_score": 0.75},
        {"candidate_id": "c003", "fresh_score": 0.4, "fresh_ci95": None, "val_score": None},
    ]
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(resumable=False), shortlist=shortlist)
    chart = build(folder)["shortlist"]
    assert chart.x_mark == 0.3 and chart.points == [
        Point("starting prompts", 0.3, low=0.2, high=0.4, tone="quiet", note="30.0%; 25.0% in the search"),
        Point("c001 (tested)", 0.5, low=0.4, high=0.6, tone="accent", note="50.0%; 75.0% in the search"),
        Point("c003", 0.4, tone="", note="40.0%; n/a in the search"),
    ]
    without = build(a_tuning(tmp_path / "without the start", shortlist=shortlist[1:]))["shortlist"]
    assert [each.label for each in without.points] == ["c001", "c003"] and without.x_mark is None
    assert build(a_tuning(tmp_path / "none"))["shortlist"] is None


def test_the_difference_shown_is_that_of_the_tested_candidate_and_of_each_that_was_kept(tmp_path: Path) -> None:
    proposals = [a_proposal(1), a_proposal(2, "rejected", val_score=0.99), a_proposal(3)]
    page = build(a_tuning(tmp_path / "run", proposals, verdict=verdict(winner="c003", resumable=False)))
    assert "as c003 of" in str(page["difference"])
    assert [bool(each["difference"]) for each in page["candidates"]] == [False, True, False, True]
    untested = build(a_tuning(tmp_path / "untested", proposals))
    assert untested["winner"] is None and untested["difference"] is None


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
        ("ended", "2026-11-21 11:00 UTC"),
        ("command", "python optimize/run.py a=1 b=2"),
        ("folder", "run"),
        ("run", "r1"),
    ]
    assert (page["title"], page["parent_set"]) == ("Tuning of toy: mine (simulated)", "toy_baseline")


def test_the_leaks_of_each_candidate_are_listed(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(resumable=False))
    hit = {"kind": "gold", "split": "val", "agent": "finalizer", "place": "text line 1", "sample_id": "q2",
           "status": "blocking", "note": ""}  # fmt: skip
    report = {"blocked": True, "checked": {"train": 1}, "hits": [hit]}
    keep_result(folder, "leaks", {"c001": report})
    assert build(folder)["leaks"] == {"c001": report}
    assert "blocking: val gold in finalizer, text line 1" in write_page(folder)
