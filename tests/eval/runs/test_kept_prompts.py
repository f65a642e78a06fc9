from dataclasses import replace
from pathlib import Path

import yaml

from eval.runs.folder import keep_prompts, kept_prompts
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet, digest, write_prompt_set
from mas.prompt_sets.tuned_on import TunedOn

OLD = PromptSet("baseline", "toy", {"planner": "Plan."}, Path("baseline"))
NEW = PromptSet("careful", "toy", {"planner": "Plan well."}, Path("careful"))


def kept(folder: Path, store: RunStore) -> dict[str, tuple[str, str]]:
    return {place: (each.name, each.texts["planner"]) for place, each in kept_prompts(folder, store.meta()).items()}


def test_a_run_resumed_with_other_prompts_keeps_both_under_their_own_names(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        keep_prompts(tmp_path, store, OLD)
        assert kept(tmp_path, store) == {"prompts": ("baseline", "Plan.")}
        keep_prompts(tmp_path, store, OLD)
        keep_prompts(tmp_path, store, NEW)
        assert kept(tmp_path, store) == {"prompts": ("baseline", "Plan."), "prompts_2": ("careful", "Plan well.")}
        keep_prompts(tmp_path, store, OLD)
        assert list(kept(tmp_path, store).values())[-1] == ("baseline", "Plan.")  # the last used
        assert len(list(tmp_path.glob("prompts*"))) == 2


def test_a_run_that_does_not_say_yet_how_its_set_was_called(tmp_path: Path) -> None:
    write_prompt_set(tmp_path / "prompts", OLD)
    with RunStore(tmp_path / "run.db") as store:
        store.set_meta("config", yaml.safe_dump({"prompts": "prompts/baseline"}))
        assert kept(tmp_path, store) == {"prompts": ("baseline", "Plan.")}
        keep_prompts(tmp_path, store, NEW)
        assert list(kept(tmp_path, store)) == ["prompts", "prompts_2"]


def test_the_copy_keeps_the_examples_and_other_examples_are_other_prompts(tmp_path: Path) -> None:
    demos = {"planner": [{"problem": "Größe?\r\n ", "steps": ["a ", ""]}]}
    published = replace(OLD, demos=demos, edited=("demos.json",), provenance={"gated": True})
    with RunStore(tmp_path / "run.db") as store:
        for prompts in (OLD, published, replace(published, edited=())):
            keep_prompts(tmp_path, store, prompts)
        copies = kept_prompts(tmp_path, store.meta())
        assert list(copies) == ["prompts", "prompts_2"]
        copy = copies["prompts_2"]
        assert (copy.demos, digest(copy)) == (demos, digest(published))
        assert (copy.edited, dict(copy.provenance)) == ((), {})  # the files are not those that were published


def test_a_copy_without_marks_gets_those_of_the_same_prompts_and_loses_none(tmp_path: Path) -> None:
    first, more = TunedOn(frozenset({"aa"}), frozenset()), TunedOn(frozenset(), frozenset({"bb"}))
    with RunStore(tmp_path / "run.db") as store:
        for marks in (None, first, more, None):
            keep_prompts(tmp_path, store, replace(OLD, tuned_on=marks))
        copies = kept_prompts(tmp_path, store.meta())
    assert {place: each.tuned_on for place, each in copies.items()} == {"prompts": first | more}
