"""The page of a tuning run, made from folders by hand: its first sentence, its order, and what it must not show."""

import json
import re
from pathlib import Path

import pytest

from eval.runs.folder import REPORT
from mas.runtime.errors import UserError
from optimize.report import task
from optimize.reports.candidate_tree import build_tree
from optimize.reports.outcome import describe_outcome
from optimize.reports.snapshot import read_tuning
from optimize.reports.tuning_page import _draw_budget, write_tuning_page
from tests.optimize.mlflow_export.tuning_folder import LOOKS, PROPOSALS, a_proposal, a_tuning, verdict

EVIL = "</script><img src=x onerror=alert(1)>"
GIVEN = {"value": 0.0, "text": "seven", "error_class": None, "format_lost": False}
FLIP = {"id": "q3", "level": "1", "question": f"How many? {EVIL}", "target": "SECRET GOLD", "difference": 1.0}
FLIPS = [{**FLIP, "first": [GIVEN], "second": [{**GIVEN, "value": 1.0, "text": "eight"}]}]
SEALED = {**verdict()["sealed"], "level": 0.03, "level_left": 0.02}


def write_flips(folder: Path) -> None:
    (folder / "flips.json").write_text(json.dumps(FLIPS), encoding="utf-8")


def write_page(folder: Path) -> str:
    return write_tuning_page(folder).read_text("utf-8")


def test_a_published_run_says_first_how_much_better_its_prompts_are(tmp_path: Path) -> None:
    found = verdict(set="prompts/mine", gain_shrunken=0.09, sealed=SEALED, reasons=["It holds."], resumable=False)
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=found, simulated=True)
    outcome = describe_outcome(read_tuning(folder))
    assert outcome.label == "published"
    assert outcome.sentence == (
        "Published as prompts/mine: the gate's conditions hold. With c001 the accuracy on 8 sealed questions went from "
        "25.0% to 37.5%: +12.5 points (95% interval +1.0 to +24.0), p = 0.03, where at most 0.03 is required."
    )
    assert outcome.notes[:2] == [
        "Passed: better by more than gate.min_gain",
        "Estimated true gain: +9.0 points. Gains that must be significant to be published look too large on average.",
    ]
    page = write_page(folder)
    assert "Simulated model" in page and "(simulated)" in page
    assert page.index("Published as prompts/mine") < page.index("Sealed test") < page.index("Candidates")


def test_a_test_that_stopped_early_says_at_which_look_and_what_its_interval_is(tmp_path: Path) -> None:
    found = verdict(sealed={**SEALED, **LOOKS}, gain_shrunken=0.09, resumable=False)
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=found)
    outcome, page = describe_outcome(read_tuning(folder)), write_page(folder)
    assert "p = 0.03, where at most 0.0012 is required. Stopped at look 2 of 4, after 8 of 16" in outcome.sentence
    assert any("more so where the test stopped early." in note for note in outcome.notes)
    assert "both sides; look 2 of 4" in page and "gain, in points; intervals adjusted for the looks" in page


def test_a_refused_and_an_early_run_say_why(tmp_path: Path) -> None:
    refused = a_tuning(tmp_path / "refused", PROPOSALS, verdict=verdict(False, sealed=SEALED, resumable=False))
    outcome = describe_outcome(read_tuning(refused))
    assert outcome.label == "not published"
    assert outcome.sentence.startswith("The sealed test does not show that it is better. With c001 the accuracy")
    early = {"published": False, "finish_reason": "no_accepted_candidate", "reasons": ["none was better"]}
    found = describe_outcome(
        read_tuning(a_tuning(tmp_path / "early", PROPOSALS, verdict={**early, "resumable": False}))
    )
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


def test_targets_of_sealed_questions_are_shown_only_after_a_final_verdict(tmp_path: Path) -> None:
    for name, found in (("none", None), ("budget", verdict(False, winner=None, resumable=True))):
        folder = a_tuning(tmp_path / name, PROPOSALS, verdict=found)
        write_flips(folder)
        assert "SECRET GOLD" not in write_page(folder)
        assert read_tuning(folder).read_flips() == []
    final = a_tuning(tmp_path / "final", PROPOSALS, verdict=verdict(resumable=False))
    write_flips(final)
    assert "SECRET GOLD" in write_page(final)


def test_no_text_of_a_run_becomes_markup(tmp_path: Path) -> None:
    proposals = [a_proposal(1, reason=EVIL, agents=[EVIL], origin=EVIL)]
    found = verdict(False, reasons=[EVIL], resumable=False)
    folder = a_tuning(tmp_path / "run", proposals, verdict=found, name=EVIL, model=EVIL, command=[EVIL])
    write_flips(folder)
    page = write_page(folder)
    assert "<img" not in page and page.count("</script>") == page.count("<script")
    assert re.search(r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-", page)


def test_candidates_are_listed_below_those_that_they_were_derived_from(tmp_path: Path) -> None:
    proposals = [
        a_proposal(1),
        *(a_proposal(number, "rejected", parent="c001") for number in (2, 3, 4)),
        a_proposal(5, parent="c001"),
        a_proposal(6, "rejected", parent="c005"),
        a_proposal(7),
        a_proposal(8, parent="c009"),  # of nobody: a folder of others
    ]
    tree = build_tree(read_tuning(a_tuning(tmp_path / "run", proposals, verdict=verdict(resumable=False))))
    assert [(each.row.candidate_id, each.depth) for each in tree] == [
        ("parent", 0),
        ("c001", 1),
        ("c005", 2),
        ("c006", 3),
        ("c007", 1),
        ("c008", 1),
    ]
    assert [each.row.candidate_id for each in tree[1].folded] == ["c002", "c003", "c004"]
    assert tree[1].marks == ["published"]
    assert "as c001 of" in str(tree[1].difference)


def test_the_budget_is_shown_by_phase_and_against_the_best_score(tmp_path: Path) -> None:
    began = {"baseline": {"lm_calls": 1}, "search": {"lm_calls": 11, "metric_calls": 10}, "shortlist": {"lm_calls": 51}}
    phases = {name: {"cost_usd": 0.0, "seconds": 0.0, **spend} for name, spend in began.items()}
    spend = {"lm_calls": 60, "cost_usd": 0.0, "seconds": 9.0, "input_tokens": 5, "output_tokens": 5}
    facts = {"spend_by_phase": phases, "spend": spend, "phase": "shortlist", "stopped": "a budget"}
    folder = a_tuning(tmp_path / "run", [a_proposal(1), a_proposal(2, "rejected"), a_proposal(3)], **facts)
    (folder / "baseline.json").write_text(json.dumps({"val_score": 0.2, "ci95": [0.1, 0.3], "n_questions": 10}))
    by_phase, by_answers, by_requests = _draw_budget(read_tuning(folder))
    assert [(each.label, each.x) for each in by_phase.points] == [("baseline", 10), ("search", 40), ("shortlist", 9)]
    assert [(each.x, each.y) for each in by_answers.points][:3] == [(10, 0.2), (13, 0.2), (13, 0.25)]
    assert [(each.x, each.y) for each in by_requests.points][-1] == (11 + 1 + 2 + 3, 0.75)
    assert "20.0%" in write_page(folder) and "95% interval 10.0% to 30.0%" in write_page(folder)


def test_a_candidate_that_was_cut_off_has_no_score(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", [a_proposal(1, "cut_off", val_score=0.1234)])
    page = write_page(folder)
    assert "not scored whole" in page and "12.3%" not in page


def test_a_changed_and_a_foreign_folder_are_marked_and_a_broken_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(resumable=False))
    assert "changed since" not in write_page(folder)
    (folder / "verdict.json").write_text(json.dumps({**verdict(resumable=False), "gain": 0.9}))
    assert "files that decide its verdict were changed since" in write_page(folder)
    info = json.loads((folder / "tuning.json").read_text("utf-8"))
    (folder / "tuning.json").write_text(json.dumps({**info, "signature": ""}))
    (folder / "verdict.json").write_text(json.dumps({"winner": "c001", "reasons": 7}))
    with pytest.raises(UserError, match="was made elsewhere, or changed since, and cannot be read"):
        write_tuning_page(folder)
    (folder / "leaks.json").unlink()
    (folder / "leaks.json").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match=r"leaks.json is a link or a special file"):
        write_tuning_page(folder)


def test_the_command_names_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS)
    assert task([str(folder)]) == 0
    assert str(folder / REPORT) in capsys.readouterr().out.replace("\n", "")


def test_the_page_says_what_the_headroom_preflight_could_show(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), simulated=True)
    found = {"worth_it": False, "n_questions": 30, "n_answers": 60, "rewrites": [], "smallest_gain": 0.061}
    (folder / "headroom.json").write_text(json.dumps(found))
    page = write_page(folder)
    assert "30 training questions, before the search; the sealed questions can show 6.1 points or more" in page
    (folder / "headroom.json").write_text(json.dumps({**found, "smallest_gain": None, "reflection_failed": True}))
    assert "before the search; the reflection failed; the sealed questions can show no gain" in write_page(folder)
