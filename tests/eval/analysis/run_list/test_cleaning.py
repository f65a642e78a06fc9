"""Which runs a cleaning deletes, and why it keeps the others."""

from pathlib import Path

import pytest

from eval.analysis.run_list.cleaning import plan_cleaning, read_protection
from eval.analysis.run_list.read_runs import COMPLETE, REFUSED, RUNNING, RunEntry
from mas.runtime.errors import UserError


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    (tmp_path / "outputs").mkdir()
    return tmp_path / "outputs"


def entry(folder: Path, state: str = COMPLETE, run_id: str = "", size: int = 10) -> RunEntry:
    folder.mkdir(parents=True, exist_ok=True)
    return RunEntry(folder=folder, kind="eval", state=state, run_id=run_id, size_bytes=size)


def test_complete_runs_are_chosen_and_a_running_one_stays(outputs: Path) -> None:
    old, going = entry(outputs / "a"), entry(outputs / "b", RUNNING)
    plan = plan_cleaning([old, going, entry(outputs / "c", size=5)], {}, outputs)
    assert [each.name for each in plan.chosen] == ["a", "c"] and plan.n_bytes == 15
    assert [(each.run.name, each.why) for each in plan.kept] == [("b", "it is running")]


def test_a_protected_run_stays_by_folder_name_run_name_or_id(outputs: Path) -> None:
    runs = [
        entry(outputs / "whole_name"),
        entry(outputs / "2026-11-21_08-30-00_short"),
        entry(outputs / "x", run_id="1f"),
    ]
    for name, kept in (
        ("whole_name", "whole_name"),
        ("1f", "x"),
        ("2026-11-21_08-30-00_short", "2026-11-21_08-30-00_short"),
    ):
        plan = plan_cleaning(runs, {name: "somebody needs it"}, outputs)
        assert [(each.run.name, each.why) for each in plan.kept] == [(kept, "somebody needs it")]
        assert len(plan.chosen) == 2


def test_what_is_elsewhere_or_a_link_stays(outputs: Path, tmp_path: Path) -> None:
    elsewhere = entry(tmp_path / "mine")
    (outputs / "link").symlink_to(elsewhere.folder)
    refused = entry(outputs / "damaged", REFUSED)
    (refused.folder / "inside").symlink_to(tmp_path)
    plan = plan_cleaning(
        [elsewhere, RunEntry(folder=outputs / "link", kind="eval", state=COMPLETE), refused], {}, outputs
    )
    assert plan.chosen == [] and [each.run.name for each in plan.kept] == ["mine", "link", "damaged"]
    assert "remove it by hand" in plan.kept[0].why and "link" in plan.kept[2].why
    (refused.folder / "inside").unlink()
    assert plan_cleaning([refused], {}, outputs).chosen == [refused]


def test_runs_that_published_a_set_are_protected(tmp_path: Path, outputs: Path) -> None:
    for name, text in (
        ("tuned", "run: night_3\n"),
        ("own", "note: mine\n"),
        ("list", "- run\n"),
        ("empty", "run: ''\n"),
    ):
        (tmp_path / "prompts" / name).mkdir(parents=True)
        (tmp_path / "prompts" / name / "provenance.yaml").write_text(text)
    assert read_protection(tmp_path / "prompts", outputs) == {"night_3": "prompts/tuned was published by it"}
    (tmp_path / "prompts" / "own" / "provenance.yaml").write_text("run: [")
    with pytest.raises(UserError, match=r"yaml cannot be read \(.*\), and may name a run that must stay"):
        read_protection(tmp_path / "prompts", outputs)
