"""A published set in MLflow's Prompt Registry: one version for each agent, and the alias `champion`.

| Alias                | Names                                                                                  |
|----------------------|----------------------------------------------------------------------------------------|
| the set's name       | the set's versions, as for every set that a run has used                               |
| `champion`           | the set that was published last, by a tuning run with a real model                     |
| `champion-simulated` | the same of simulated models: their sets must not replace one of a real model       |

Only a verdict with `published: true` moves an alias, and each tuning run does so once: sent again, it keeps an alias
that somebody has moved by hand.

    promote_champion(parent, tuning)
    # then, anywhere:  mlflow.genai.load_prompt("prompts:/gaia.planner@champion").template
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from eval.mlflow_export.prompt_registry import (
    CHAMPION,
    CHAMPION_SIMULATED,
    LinkedPrompt,
    name_owner,
    register_prompts,
    set_alias,
)
from eval.mlflow_export.tracked_run import TrackedRun
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from optimize.session.tuning_store import TuningSnapshot

TUNED_FROM_TAG = "harness.tuned_from"  # of a prompt's version: the version of its parent
PROMOTED_TAG = "harness.champion"  # of the tuning run: moved


def promote_champion(parent: TrackedRun, tuning: TuningSnapshot) -> None:
    """Register the published set, and move the aliases if that is still to be done.

    Not for a run from elsewhere, or one whose winner was edited.

    Raises:
        MlflowException: MLflow cannot be reached or refuses; the next call goes on.
    """
    is_done = PROMOTED_TAG in parent.client.get_run(parent.run_id).data.tags
    if not tuning.published or not tuning.winner or not tuning.is_own or is_done:
        return
    try:
        prompts, before = tuning.get_prompts(tuning.winner), tuning.read_parent()
    except UserError:  # somebody has changed them
        return
    if digest(prompts) != tuning.verdict["winner"]["prompts_sha256"]:
        return
    for each in _register(parent, tuning, before, prompts):
        set_alias(parent, CHAMPION_SIMULATED if tuning.info.simulated else CHAMPION, each)
    parent.client.set_tag(parent.run_id, PROMOTED_TAG, "moved")


def _register(
    parent: TrackedRun, tuning: TuningSnapshot, before: PromptSet, prompts: PromptSet
) -> Sequence[LinkedPrompt]:
    """Register the set after the one that it was tuned from; a tuned text names the version of its parent."""
    system = tuning.info.config.get("system") or {}
    sets = (replace(before, name=_name_parent(tuning)), replace(prompts, name=tuning.task.name))
    named = [name_owner(each, system) for each in sets]
    linked = register_prompts(parent, *named, is_now=True)
    oldest = {each.name: each.version for each in reversed(linked)}
    newest = {each.name: each for each in linked}
    for name, each in newest.items():
        if each.version != oldest[name]:
            text = f"version {oldest[name]} ({_name_parent(tuning)})"
            parent.client.set_prompt_version_tag(name, each.version, TUNED_FROM_TAG, text)
    return list(newest.values())


def _name_parent(tuning: TuningSnapshot) -> str:
    return Path(str(tuning.info.config.get("prompts") or "parent")).name
