from dataclasses import replace
from pathlib import Path

from eval.runs.folder import keep_prompts, read_kept_prompts
from mas.prompt_sets.prompt_set import PromptSet, digest, write_prompt_set
from mas.prompt_sets.tuned_on import TunedOn

OLD = PromptSet("baseline", "toy", {"planner": "Plan."}, Path("baseline"))
NEW = PromptSet("careful", "toy", {"planner": "Plan well."}, Path("careful"))


def kept(folder: Path, names: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {place: (each.name, each.texts["planner"]) for place, each in read_kept_prompts(folder, names).items()}


def test_a_run_resumed_with_other_prompts_keeps_both_under_their_own_names(tmp_path: Path) -> None:
    names = keep_prompts(tmp_path, {}, OLD)
    assert kept(tmp_path, names) == {"prompts": ("baseline", "Plan.")}
    names = keep_prompts(tmp_path, keep_prompts(tmp_path, names, OLD), NEW)
    assert kept(tmp_path, names) == {"prompts": ("baseline", "Plan."), "prompts_2": ("careful", "Plan well.")}
    names = keep_prompts(tmp_path, names, OLD)
    assert list(kept(tmp_path, names).values())[-1] == ("baseline", "Plan.")  # the last used
    assert len(list(tmp_path.glob("prompts*"))) == 2


def test_a_copy_that_a_process_left_before_its_run_began_is_not_replaced(tmp_path: Path) -> None:
    write_prompt_set(tmp_path / "prompts", OLD)
    assert keep_prompts(tmp_path, {}, OLD) == {"prompts": "baseline"}
    assert list(kept(tmp_path, keep_prompts(tmp_path, {}, NEW))) == ["prompts", "prompts_2"]


def test_the_copy_keeps_the_examples_and_other_examples_are_other_prompts(tmp_path: Path) -> None:
    demos = {"planner": [{"problem": "Größe?\r\n ", "steps": ["a ", ""]}]}
    published = replace(OLD, demos=demos, edited=("demos.json",), provenance={"gated": True})
    names: dict[str, str] = {}
    for prompts in (OLD, published, replace(published, edited=())):
        names = keep_prompts(tmp_path, names, prompts)
    copies = read_kept_prompts(tmp_path, names)
    assert list(copies) == ["prompts", "prompts_2"]
    copy = copies["prompts_2"]
    assert (copy.demos, digest(copy)) == (demos, digest(published))
    assert (copy.edited, dict(copy.provenance)) == ((), {})  # the files are not those that were published


def test_a_copy_without_marks_gets_those_of_the_same_prompts_and_loses_none(tmp_path: Path) -> None:
    first, more = TunedOn(frozenset({"aa"}), frozenset()), TunedOn(frozenset(), frozenset({"bb"}))
    names: dict[str, str] = {}
    for marks in (None, first, more, None):
        names = keep_prompts(tmp_path, names, replace(OLD, tuned_on=marks))
    copies = read_kept_prompts(tmp_path, names)
    assert {place: each.tuned_on for place, each in copies.items()} == {"prompts": first | more}
