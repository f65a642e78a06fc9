"""Which versions of the Prompt Registry a tuning run makes, and which aliases it may move."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export.prompt_registry import (
    CHAMPION,
    CHAMPION_SIMULATED,
    DEMOS_MARK,
    find_aliased_version,
    register_prompts,
)
from eval.mlflow_export.tracked_run import open_run
from mas.prompt_sets.prompt_set import PromptSet
from optimize.mlflow_export.champion import PROMOTED_TAG, TUNED_FROM_TAG
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, client, send, verdict

pytestmark = pytest.mark.slow  # whole runs, or whole stores

LATER: dict[str, Any] = {"started_at": "2026-11-22T10:00:00+00:00", "ended_at": "2026-11-22T11:00:00+00:00"}


def version(settings: LocalTracking, system: str, agent: str, alias: str) -> Any:
    return find_aliased_version(client(settings), f"{system}.{agent}", alias)


def test_a_published_set_is_registered_and_champion(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), system="crown_a", name="tuned")
    sent = send(folder, local)
    for agent, text in {"planner": "You plan.", "finalizer": "You answer, as c001 of crown_a does."}.items():
        named = {alias: version(local, "crown_a", agent, alias) for alias in (CHAMPION, "tuned")}
        assert {each.template for each in named.values()} == {text}
        tuned_from = {"planner": None, "finalizer": "version 1 (parent)"}  # the planner's text is its parent's
        assert {each.tags.get(TUNED_FROM_TAG) for each in named.values()} == {tuned_from[agent]}
        assert {each.version for each in named.values()} == {1 if agent == "planner" else 2}
        assert version(local, "crown_a", agent, CHAMPION_SIMULATED) is None
    tags = client(local).get_run(sent.run.run_id).data.tags
    assert tags[PROMOTED_TAG] == "moved"
    assert sorted((each["name"], each["version"]) for each in json.loads(tags["mlflow.linkedPrompts"])) == [
        ("crown_a.finalizer", "1"),
        ("crown_a.finalizer", "2"),
        ("crown_a.planner", "1"),
    ]


def test_a_simulated_champion_displaces_no_real_one(tmp_path: Path, local: LocalTracking) -> None:
    send(a_tuning(tmp_path / "real", PROPOSALS, verdict=verdict(), system="crown_c"), local)
    simulated = a_tuning(
        tmp_path / "sim", PROPOSALS, verdict=verdict(winner="c002"), system="crown_c", simulated=True, **LATER
    )
    send(simulated, local)
    assert "c001" in version(local, "crown_c", "finalizer", CHAMPION).template
    assert "c002" in version(local, "crown_c", "finalizer", CHAMPION_SIMULATED).template


def test_a_later_champion_takes_over_and_a_hand_s_choice_stands(tmp_path: Path, local: LocalTracking) -> None:
    old = a_tuning(tmp_path / "old", PROPOSALS, verdict=verdict(), system="crown_e")
    new = a_tuning(tmp_path / "new", PROPOSALS, verdict=verdict(winner="c002"), system="crown_e", **LATER)
    for folder in (old, new, old):
        send(folder, local)
    assert "c002" in version(local, "crown_e", "finalizer", CHAMPION).template
    client(local).set_prompt_alias("crown_e.finalizer", CHAMPION, 2)  # 1 is that of their parent
    send(new, local)
    assert "c001" in version(local, "crown_e", "finalizer", CHAMPION).template


def test_demos_are_a_part_of_the_version_that_an_evaluation_of_the_set_finds_again(
    tmp_path: Path, local: LocalTracking
) -> None:
    demos = {"finalizer": [{"answer_request": "2 + 2 {{ x }}?", "final_answer": "4 ä"}]}
    send(a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), system="crown_f", demos=demos), local)
    crowned = version(local, "crown_f", "finalizer", CHAMPION)
    text, _, samples = crowned.template.partition(DEMOS_MARK)
    assert text == "You answer, as c001 of crown_f does."
    assert json.loads(samples.removeprefix("```json\n").removesuffix("\n```")) == demos["finalizer"]
    assert version(local, "crown_f", "planner", CHAMPION).template == "You plan."
    run = open_run(local, "an evaluation", name="any", start_ms=0, has_traces=False)
    published = PromptSet("tuned", "crown_f", {"planner": "You plan.", "finalizer": text}, Path("tuned"), demos=demos)
    assert {each.name: each.version for each in register_prompts(run, published)} == {
        "crown_f.planner": "1",
        "crown_f.finalizer": str(crowned.version),
    }
