import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eval.mlflow_export.prompt_registry import (
    DEMOS_MARK,
    EXPERIMENTS_TAG,
    LINKED_PROMPTS_TAG,
    LinkedPrompt,
    build_alias,
    build_prompt_name,
    build_template,
    name_owner,
    register_prompts,
)
from eval.mlflow_export.tracked_run import TrackedRun
from mas.prompt_sets.prompt_set import PromptSet

Opened = Callable[..., TrackedRun]


def prompts(system: str, set_name: str = "first", **texts: str) -> PromptSet:
    """A set of a system of the test's own: all tests share one registry."""
    return PromptSet(set_name, system, texts, Path(set_name), "The first.")


def test_only_a_new_text_becomes_a_new_version(opened: Opened) -> None:
    run = opened()
    first = register_prompts(run, prompts("set_a", planner="Plan.", finalizer="End."))
    assert first == [LinkedPrompt("set_a.planner", "1"), LinkedPrompt("set_a.finalizer", "1")]
    assert register_prompts(run, prompts("set_a", planner="Plan.", finalizer="End.")) == first
    other = opened("run-2")
    second = register_prompts(other, prompts("set_a", planner="Plan well.", finalizer="End."))
    assert second == [LinkedPrompt("set_a.planner", "2"), LinkedPrompt("set_a.finalizer", "1")]
    third = register_prompts(opened("run-3"), prompts("set_a", planner="Plan.", finalizer="End."))
    assert third == first
    assert run.client.get_prompt_version("set_a.planner", "2").template == "Plan well."


def test_mlflow_finds_the_run_s_prompts_and_the_experiment_s(opened: Opened) -> None:
    run = opened()
    register_prompts(run, prompts("set_b", planner="Plan {{ nothing }}.", finalizer="End."))
    linked = run.client.get_run(run.run_id).data.tags[LINKED_PROMPTS_TAG]
    assert json.loads(linked) == [{"name": f"set_b.{agent}", "version": "1"} for agent in ("planner", "finalizer")]
    for agent in ("planner", "finalizer"):  # MLflow's own way finds its links there already
        run.client.link_prompt_version_to_run(run.run_id, f"prompts:/set_b.{agent}/1")
    assert run.client.get_run(run.run_id).data.tags[LINKED_PROMPTS_TAG] == linked
    assert run.client.load_prompt("prompts:/set_b.planner/1").template == "Plan {{ nothing }}."
    assert EXPERIMENTS_TAG in run.client.get_prompt("set_b.planner").tags
    found = run.client.search_prompts(f"experiment_id = '{run.experiment_id}'")
    assert {each.name for each in found} == {"set_b.planner", "set_b.finalizer"}


def test_a_prompt_is_listed_in_every_experiment_that_used_it(opened: Opened, tmp_path: Path) -> None:
    from eval.config.tracking import LocalTracking
    from eval.mlflow_export.tracked_run import open_run

    run = opened()
    register_prompts(run, prompts("set_c", planner="Plan."))
    folder = run.shown_uri.removeprefix("sqlite:///").removesuffix("/mlflow.db")
    settings = LocalTracking(experiment="another for set_c", folder=folder)
    other = open_run(settings, "run-1", name="run-1", start_ms=0)
    register_prompts(other, prompts("set_c", planner="Plan."))
    tag = run.client.get_prompt("set_c.planner").tags[EXPERIMENTS_TAG]
    assert tag == f",{run.experiment_id},{other.experiment_id},"


def test_all_sets_of_a_system_are_versions_of_its_prompts_and_an_alias_names_a_set_s(opened: Opened) -> None:
    run = opened()
    old = prompts("set_d", planner="Plan.", finalizer="End.")
    register_prompts(run, old, is_now=True)
    other = prompts("set_d", "v2", planner="Plan.", finalizer="End well.")
    linked = register_prompts(opened("run-2"), other, is_now=True)
    assert linked == [LinkedPrompt("set_d.planner", "1"), LinkedPrompt("set_d.finalizer", "2")]
    named = {alias: run.client.load_prompt(f"prompts:/set_d.finalizer@{alias}") for alias in ("first", "set-v2")}
    assert {alias: prompt.template for alias, prompt in named.items()} == {"first": "End.", "set-v2": "End well."}
    edited = prompts("set_d", planner="Plan.", finalizer="End well.")
    assert register_prompts(opened("run-3"), edited, is_now=True) == linked
    assert register_prompts(run, old)[1].version == "1"  # completed later: the set has newer texts by now
    assert run.client.get_prompt_version_by_alias("set_d.finalizer", "first").template == "End well."


def test_an_alias_that_is_right_is_not_written_again(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    run = opened()
    register_prompts(run, prompts("set_e", planner="Plan."), is_now=True)
    written: list[object] = []
    monkeypatch.setattr(run.client, "set_prompt_alias", lambda *given: written.append(given))
    register_prompts(run, prompts("set_e", planner="Plan."), is_now=True)
    assert written == []


def test_a_run_that_was_resumed_with_other_prompts_is_linked_to_both(opened: Opened) -> None:
    run = opened()
    both = (prompts("set_f", planner="Plan.", finalizer="End."), prompts("set_f", "b", planner="Plan.", finalizer="Z."))
    linked = register_prompts(run, *both, is_now=True)
    assert [(each.name, each.version) for each in linked] == [
        ("set_f.planner", "1"), ("set_f.finalizer", "1"), ("set_f.finalizer", "2"),
    ]  # fmt: skip


def test_names_have_only_what_mlflow_allows() -> None:
    assert build_prompt_name("my set/ü", "planner") == "my_set__.planner"


def test_names_that_mlflow_reserves_are_no_alias_of_a_set() -> None:
    names = ["mine", "my set", "latest", "LATEST", "v1", "v12", "v", "champion", "champion-simulated", "champions"]
    assert [build_alias(name) for name in names] == [
        "mine", "my_set", "set-latest", "set-LATEST", "set-v1", "set-v12", "v", "set-champion",
        "set-champion-simulated", "champions",
    ]  # fmt: skip


def test_worked_examples_stand_behind_the_text_as_long_as_mlflow_takes_them(tmp_path: Path) -> None:
    demos = [{"question": "é ![x](http://a)"}]
    made = PromptSet("s", "toy", {"planner": "Plan."}, tmp_path, demos={"planner": demos})  # type: ignore[dict-item]
    text = build_template(made, "planner")
    begin = f"Plan.{DEMOS_MARK}```json\n"
    assert text.startswith(begin) and text.endswith("\n```") and "é !\u200b[x]" in text
    assert text.removeprefix(begin).splitlines()[:3] == ["[", "  {", '    "question": "é !\u200b[x](http://a)"']
    assert build_template(replace(made, demos={}), "planner") == "Plan."
    room = 100_000 - len(build_template(replace(made, texts={"planner": ""}), "planner"))
    longest = build_template(replace(made, texts={"planner": "p" * room}), "planner")
    assert len(longest) == 100_000 and longest.endswith("```")
    cut = build_template(replace(made, texts={"planner": "p" * (room + 1)}), "planner")
    assert cut.startswith("p" * (room + 1) + DEMOS_MARK + "1 examples, too long for MLflow (SHA-256 of the whole: ")


def test_prompts_of_a_users_program_belong_to_it() -> None:
    made = prompts("toy", planner="Plan.")
    assert name_owner(made, {"target": "my.module:build"}).system == "toy.my.module:build"
    assert name_owner(made, {}) is made and name_owner(made, {"target": None}) is made
