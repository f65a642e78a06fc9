"""The proposals of a search as a tree."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.run_info import TuningInfo
from mas.prompt_sets.prompt_set import PromptSet, name_prompt_file, write_prompt_set
from optimize.reports import candidate_tree
from optimize.reports.candidate_tree import Branch, build_tree, render_difference
from optimize.reports.snapshot import ProposalRow, TuningSnapshot


def tuning(folder: Path, *rows: ProposalRow, **parts: Any) -> TuningSnapshot:
    info = TuningInfo(run_id="r1", parent_set="default")
    return TuningSnapshot(folder, info, list(rows), **{"verdict": {}, "shortlist": {}, "redact": str, **parts})


def row(candidate_id: str, parent: str | None = None, decision: str = "accepted", **parts: Any) -> ProposalRow:
    return ProposalRow(candidate_id, decision, [parent] if parent else [], **parts)


def shape(branches: list[Branch]) -> list[tuple[str, int, list[str]]]:
    return [(each.row.candidate_id, each.depth, [leaf.row.candidate_id for leaf in each.folded]) for each in branches]


def test_a_proposal_stands_below_what_it_was_derived_from(tmp_path: Path) -> None:
    (tmp_path / "baseline.json").write_text('{"val_score": 0.25}')
    found = build_tree(tuning(tmp_path, row("c1"), row("c2", "c1", "rejected"), row("c3", "parent"), row("c4", "c1")))
    assert shape(found) == [("parent", 0, []), ("c1", 1, []), ("c2", 2, []), ("c4", 2, []), ("c3", 1, [])]
    assert (found[0].row.decision, found[0].row.origin, found[0].row.val_score) == ("start", "default", 0.25)


def test_what_names_a_parent_that_does_not_come_before_it_is_put_below_the_first_prompts(tmp_path: Path) -> None:
    found = build_tree(tuning(tmp_path, row("c1", "c2"), row("c2", "c1"), row("c3", "nobody"), row("c4", "c4")))
    assert shape(found) == [("parent", 0, []), ("c1", 1, []), ("c2", 2, []), ("c3", 1, []), ("c4", 1, [])]


def test_three_rejected_proposals_without_offspring_are_folded(tmp_path: Path) -> None:
    two = [row(f"c{n}", "parent", "rejected") for n in range(2)]
    assert shape(build_tree(tuning(tmp_path, *two)))[0] == ("parent", 0, [])
    three = [*two, row("c2", "parent", "cut_off"), row("c3", "parent", "rejected"), row("c4", "c3", "rejected")]
    assert shape(build_tree(tuning(tmp_path, *three))) == [
        ("parent", 0, ["c0", "c1", "c2"]),
        ("c3", 1, []),
        ("c4", 2, []),
    ]


def test_marks_say_what_was_tested_and_published(tmp_path: Path) -> None:
    rows = [row("c1"), row("c2")]
    parts = {"verdict": {"winner": {"candidate_id": "c2"}, "published": True}, "shortlist": {"c1": {}, "c2": {}}}
    found = build_tree(tuning(tmp_path, *rows, **parts))
    assert [list(each.marks) for each in found] == [[], ["shortlist"], ["published", "shortlist"]]
    parts["verdict"]["published"] = False
    assert list(build_tree(tuning(tmp_path, *rows, **parts))[2].marks) == ["tested", "shortlist"]


@pytest.mark.parametrize(("score", "width"), [(None, 0), (-1.0, 0), (0.25, 25), (1.0, 100), (3.0, 100)])
def test_a_bar_is_as_wide_as_the_score(score: float | None, width: float) -> None:
    assert Branch(row("c1", val_score=score)).score_width == width


@pytest.fixture
def written(tmp_path: Path) -> TuningSnapshot:
    (tmp_path / "candidates").mkdir()
    for name in ("parent", "c1", "c2", "c3"):
        prompts = PromptSet(name, "toy", {"plan": f"Text of {name}."}, tmp_path)
        write_prompt_set(tmp_path / "candidates" / name, prompts)
    return tuning(tmp_path, row("c1", None, "rejected"), row("c2", "c1"), row("c3", "c1", "rejected"))


def test_a_difference_is_that_to_the_first_parent(written: TuningSnapshot) -> None:
    found = {each.row.candidate_id: str(each.difference) for each in build_tree(written)}
    assert found["parent"] == "None"
    assert "c1" in found["c1"] and "parent" in found["c1"] and "parent" not in found["c2"]
    assert render_difference(written, "parent", "c9") is None and render_difference(written, "c9", "c1") is None
    (written.folder / "candidates" / "c1" / name_prompt_file("plan")).write_bytes(b"\xff\xfe")
    assert render_difference(written, "parent", "c1") is None


def test_accepted_proposals_get_the_room_first(written: TuningSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(snapshot: TuningSnapshot) -> list[str]:
        return [each.row.candidate_id for each in build_tree(snapshot) if each.difference is not None]

    monkeypatch.setattr(candidate_tree, "MAX_DIFFS", 1)
    assert shown(written) == ["c2"]
    assert shown(replace(written, shortlist={"c3": {}})) == ["c3"], "what is marked comes before that"
    monkeypatch.setattr(candidate_tree, "MAX_DIFFS", 100)
    monkeypatch.setattr(candidate_tree, "MAX_DIFF_CHARS", 1)
    assert shown(written) == ["c2"]
    monkeypatch.setattr(candidate_tree, "MAX_ROWS", 1)
    assert shape(build_tree(written)) == [("parent", 0, []), ("c1", 1, [])]


def test_differences_are_shown_until_they_are_longer_than_the_room(
    written: TuningSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(room: int) -> list[str]:
        monkeypatch.setattr(candidate_tree, "MAX_DIFF_CHARS", room)
        return sorted(each.row.candidate_id for each in build_tree(written) if each.difference is not None)

    sizes = {each.row.candidate_id: len(each.difference or "") for each in build_tree(written)}
    assert sizes["parent"] == 0 and min(sizes["c1"], sizes["c2"], sizes["c3"]) > 10
    assert shown(sizes["c2"] - 1) == ["c2"]
    assert shown(sizes["c2"]) == ["c1", "c2"]
    assert shown(sizes["c2"] + sizes["c1"] - 1) == ["c1", "c2"]
    assert shown(sizes["c2"] + sizes["c1"]) == ["c1", "c2", "c3"]


def test_accepted_proposals_are_not_folded_with_the_rejected_ones_among_them(tmp_path: Path) -> None:
    rows = [
        row("c1", "parent"),
        row("c2", "c1", "rejected"),
        row("c3", "c1"),
        row("c4", "c1", "cut_off"),
        row("c5", "c3", "rejected"),
        row("c6", "c1", "rejected"),
        row("c7", "c5"),
        row("c8", "c1"),
    ]
    found = build_tree(tuning(tmp_path, *rows))
    assert shape(found) == [
        ("parent", 0, []),
        ("c1", 1, ["c2", "c4", "c6"]),
        ("c3", 2, []),
        ("c5", 3, []),
        ("c7", 4, []),
        ("c8", 2, []),
    ]
    assert [each.depth for each in found[1].folded] == [0, 0, 0]


def test_only_the_first_parent_counts_and_without_a_measure_the_first_prompts_have_no_score(tmp_path: Path) -> None:
    both = ProposalRow("c3", "accepted", ["c2", "c1"])
    found = build_tree(tuning(tmp_path, row("c1"), row("c2"), both))
    assert shape(found) == [("parent", 0, []), ("c1", 1, []), ("c2", 1, []), ("c3", 2, [])]
    assert found[0] == Branch(ProposalRow("parent", "start", origin="default"))
    assert (candidate_tree.MAX_DIFF_CHARS, candidate_tree.MAX_DIFFS, candidate_tree.MAX_ROWS) == (1_500_000, 100, 2_000)
