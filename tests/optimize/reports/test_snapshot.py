"""A tuning run's folder as it is read: complete, half written, killed, changed, and without secrets."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.runs.run_info import TuningInfo, TuningState
from mas.prompt_sets.prompt_set import PromptSet, write_prompt_set
from mas.runtime.errors import UserError
from optimize.reports.snapshot import TuningSnapshot, read_file_states, read_tuning
from optimize.session.signed_files import SignedFiles

STARTED = "2026-11-21T08:00:00+00:00"
INFO = TuningInfo(run_id="r1", started_at=STARTED, name="tuned", command=["api_key=s3cret"])


def tuning(folder: Path, info: TuningInfo = INFO, redact: Any = str, **files: Any) -> TuningSnapshot:
    """`files`: content of `<name>.json`."""
    (folder / "tuning.json").write_text(info.to_json())
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return read_tuning(folder, redact)


def proposal(candidate_id: str, decision: str = "accepted", **parts: Any) -> str:
    return json.dumps({"candidate_id": candidate_id, "decision": decision, **parts}) + "\n"


def test_a_run_that_has_only_begun_is_empty(tmp_path: Path) -> None:
    found = tuning(tmp_path)
    assert (found.run_id, found.name, found.proposals, found.verdict, found.shortlist) == ("r1", "tuned", [], {}, {})
    assert not (found.published or found.is_final or found.sealed_opened or found.simulated)
    assert found.opened_ms is None and found.read_part("baseline", {"a": 1}) == {"a": 1} and found.read_flips() == []


def test_a_folder_without_a_run_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no tuning run: it has no tuning\.json\.$"):
        read_tuning(tmp_path)


def test_each_candidate_is_there_once_with_the_decision_that_stays(tmp_path: Path) -> None:
    lines = [
        proposal("c001", "cut_off", reason="stopped", val_score=None),
        proposal("c002", "rejected", agents=["plan"], spend={"metric_calls": 3}, unknown="of a later version"),
        proposal("c001", "accepted", val_score=0.5, iteration=1),
        proposal("c002", "accepted"),
        proposal("c003")[:-20],
    ]
    (tmp_path / "proposals.jsonl").write_text("".join(lines))
    first, second = tuning(tmp_path).proposals
    assert (first.candidate_id, first.decision, first.val_score, first.iteration) == ("c001", "accepted", 0.5, 1)
    assert (second.candidate_id, second.decision, second.agents) == ("c002", "rejected", ["plan"])
    assert second.spend == {"metric_calls": 3} and second.reason == ""


def test_what_was_cut_off_has_no_score_on_validation_whatever_its_line_says(tmp_path: Path) -> None:
    (tmp_path / "proposals.jsonl").write_text(proposal("c001", "cut_off", val_score=0.5, minibatch_after=0.25))
    [found] = tuning(tmp_path).proposals
    assert (found.val_score, found.minibatch_after) == (None, 0.25)


def test_a_damaged_line_or_file_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "proposals.jsonl").write_text("{\n")
    with pytest.raises(UserError, match=r"/proposals\.jsonl is not complete: .*; let the run end first\.$"):
        tuning(tmp_path)
    (tmp_path / "proposals.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(UserError, match=r"proposals\.jsonl cannot be read \(.*; check its permissions\.$"):
        tuning(tmp_path)


@pytest.mark.parametrize(
    ("verdict", "published", "final"),
    [
        ({}, False, False),
        ({"published": True}, True, True),
        ({"published": False}, False, True),
        ({"published": "yes"}, False, True),
        ({"published": False, "resumable": True}, False, False),
    ],
)
def test_sealed_questions_are_shown_only_when_no_session_can_change_the_verdict(
    tmp_path: Path, verdict: dict[str, Any], published: bool, final: bool
) -> None:
    found = tuning(tmp_path, verdict=verdict, flips=[{"id": "q1"}])
    assert (found.published, found.is_final) == (published, final)
    assert found.read_flips() == ([{"id": "q1"}] if final else [])


def test_sealed_questions_were_opened_if_anything_says_so(tmp_path: Path) -> None:
    assert tuning(tmp_path, verdict={"sealed": {"n": 1}}).sealed_opened
    (tmp_path / "verdict.json").unlink()
    opened = replace(INFO, state=TuningState(sealed_opened_at="2026-11-21T08:00:05+00:00"))
    found = tuning(tmp_path, opened)
    assert found.sealed_opened and found.opened_ms == found.start_ms + 5_000
    (tmp_path / "sealed").mkdir()
    found = tuning(tmp_path)
    assert found.sealed_opened and found.opened_ms == found.start_ms


def test_a_run_that_was_killed_ended_when_it_last_wrote_anything(tmp_path: Path) -> None:
    ended = replace(INFO, state=TuningState(ended_at="2026-11-21T08:00:09+00:00"))
    assert tuning(tmp_path, ended).end_ms == tuning(tmp_path, ended).start_ms + 9_000
    killed = tuning(tmp_path)
    (tmp_path / "proposals.jsonl").write_text("")
    os.utime(tmp_path / "tuning.json", (100, 100))
    os.utime(tmp_path / "proposals.jsonl", (200.5, 200.5))
    assert killed.end_ms == 200_500


def test_a_simulation_says_so_wherever_its_name_stands(tmp_path: Path) -> None:
    found = tuning(tmp_path, replace(INFO, simulated=True, name=""))
    assert found.name == f"{tmp_path.name} (simulated)" and tuning(tmp_path).mark_simulated("x") == "x"


def test_a_place_names_no_machine(tmp_path: Path) -> None:
    found = tuning(tmp_path)
    assert found.place == tmp_path.name
    assert replace(found, folder=PROJECT_ROOT / "outputs" / "optimize" / "x").place == "outputs/optimize/x"


def test_a_run_is_intact_while_its_signed_files_are(tmp_path: Path) -> None:
    assert not tuning(tmp_path).is_intact, "not signed"
    info = INFO.sign()
    signed = SignedFiles(tmp_path, "r1")
    signed.expect("verdict.json", json.dumps({"published": True}))
    assert tuning(tmp_path, info, verdict={"published": True}).is_intact
    assert not tuning(tmp_path, info, verdict={"published": False}).is_intact


def test_secrets_are_taken_out_of_everything_that_is_read(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("s3cret", "***")

    (tmp_path / "proposals.jsonl").write_text(proposal("c001", reason="s3cret", agents=["s3cret"]))
    prompts = PromptSet("c001", "toy", {"plan": "say s3cret"}, tmp_path, demos={"plan": [{"question": "s3cret"}]})
    (tmp_path / "candidates").mkdir()
    write_prompt_set(tmp_path / "candidates" / "c001", prompts)
    found = tuning(
        tmp_path, INFO, redact, verdict={"s3cret": ["s3cret"]}, shortlist=[{"candidate_id": "c001", "why": "s3cret"}]
    )
    assert found.info.command == ["api_key=***"] and found.verdict == {"***": ["***"]}
    assert (found.proposals[0].reason, found.proposals[0].agents) == ("***", ["***"])
    assert found.shortlist == {"c001": {"candidate_id": "c001", "why": "***"}}
    read = found.read_prompts("c001")
    assert (
        read is not None and read.texts["plan"].strip() == "say ***" and read.demos == {"plan": [{"question": "***"}]}
    )
    assert read.name == "c001" and found.read_parent_prompts(found.proposals[0]) is None


@pytest.mark.parametrize("name", ["c009", "../c001", "..", ""])
def test_prompts_that_are_not_there_or_elsewhere_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "candidates").mkdir()
    write_prompt_set(tmp_path / "c001", PromptSet("c001", "toy", {"plan": "text"}, tmp_path))
    assert tuning(tmp_path).read_prompts(name) is None


def test_a_file_that_was_written_changes_the_state_of_the_folder(tmp_path: Path) -> None:
    tuning(tmp_path)
    before = read_file_states(tmp_path)
    assert [name for name, _, _ in before] == ["tuning.json"] and read_file_states(tmp_path) == before
    (tmp_path / "report.md").write_text("x")
    assert read_file_states(tmp_path) != before
