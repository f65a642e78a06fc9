"""A run's prompts as versions in MLflow's Prompt Registry, one prompt per agent, linked to the run.

`prompts/` in git stays the authority: a text is registered when a run has used it, and only if no version of that
prompt has the same text. All sets of a system or of a user's program share its prompts, since MLflow compares versions
of one prompt only; an alias names the version that a set has now. MLflow links by tags: `mlflow.linkedPrompts` of the
run, and the experiments of a prompt, which its pages filter by.

A version's template is the agent's text, and after `DEMOS_MARK` its worked examples (demos) as JSON.

    register_prompts(run, read_prompt_set("baseline", AGENTS, "gaia", root))
    # [LinkedPrompt(name="gaia.planner", version="3"), …]        with the alias "baseline", if is_now=True
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from eval.mlflow_export.tracked_run import TrackedRun, break_pictures, read_pages
from mas.prompt_sets.prompt_set import PromptSet

if TYPE_CHECKING:
    from mlflow.entities.model_registry import PromptVersion

LINKED_PROMPTS_TAG = "mlflow.linkedPrompts"
EXPERIMENTS_TAG = "_mlflow_experiment_ids"  # ",1,7,": commas on both sides, since pages search for ",1,"
DEMOS_MARK = "\n\n<!-- worked examples (demos.json): sent before each question, as turns of the conversation -->\n\n"
_MAX_TEMPLATE_CHARS = 100_000  # MLflow's limit
_PAGE_VERSIONS = 100


class LinkedPrompt(NamedTuple):
    name: str
    version: str


def register_prompts(run: TrackedRun, *prompts: PromptSet, is_now: bool = False) -> list[LinkedPrompt]:
    """Register new texts, and link all to the run; doing it again changes nothing.

    Args:
        run: in MLflow.
        prompts: all sets that the run has used, the last one last.
        is_now: the last set is as it is used now, so its alias is set to these versions.

    Raises:
        MlflowException: MLflow cannot be reached or refuses; a text of more than 100,000 characters is refused.
    """
    linked: list[LinkedPrompt] = []
    for prompt_set in prompts:
        for agent in prompt_set.texts:
            linked.append(found := _register(run, prompt_set, agent))
            if is_now and prompt_set is prompts[-1]:
                run.client.set_prompt_alias(found.name, build_alias(prompt_set.name), int(found.version))
    linked = list(dict.fromkeys(linked))
    run.client.set_tag(run.run_id, LINKED_PROMPTS_TAG, json.dumps([each._asdict() for each in linked]))
    return linked


def name_owner(prompts: PromptSet, system: Mapping[str, object]) -> PromptSet:
    """Return the set as the registry names it: prompts of a user's program (`system.target`) belong to that program."""
    target = system.get("target")
    return replace(prompts, system=f"{prompts.system}.{target}") if target else prompts


def build_alias(set_name: str) -> str:
    """Return the alias of a set. MLflow reserves `latest` and `v1`."""
    alias = re.sub(r"[^A-Za-z0-9_-]", "_", set_name)
    return f"set-{alias}" if re.fullmatch(r"latest|v\d+", alias, re.IGNORECASE) else alias


def build_template(prompts: PromptSet, agent: str) -> str:
    """Return the agent's text, and its demos after `DEMOS_MARK`; only their number if they are too long for MLflow."""
    text, demos = break_pictures(prompts.texts[agent]), prompts.demos.get(agent)
    if not demos:
        return text
    whole = f"{text}{DEMOS_MARK}```json\n{break_pictures(json.dumps(demos, indent=2, ensure_ascii=False))}\n```"
    if len(whole) <= _MAX_TEMPLATE_CHARS:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()
    return f"{text}{DEMOS_MARK}{len(demos)} examples, too long for MLflow (SHA-256 of the whole: {digest})"


def _register(run: TrackedRun, prompts: PromptSet, agent: str) -> LinkedPrompt:
    """Return the version with the agent's text, made if there is none, of a prompt that the experiment's page lists."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{prompts.system}.{agent}")  # MLflow allows no other characters
    text, client, experiment = build_template(prompts, agent), run.client, run.experiment_id
    if (prompt := client.get_prompt(name)) is None:
        client.create_prompt(name, None, {EXPERIMENTS_TAG: f",{experiment},"})
    elif experiment not in (listed := str(prompt.tags.get(EXPERIMENTS_TAG, "")).strip(",").split(",")):
        client.set_prompt_tag(name, EXPERIMENTS_TAG, f",{','.join([*filter(None, listed), experiment])},")
    versions: Iterator[PromptVersion] = read_pages(
        lambda token: client.search_prompt_versions(name, _PAGE_VERSIONS, token)
    )
    same = [int(each.version) for each in versions if each.template == text]
    if same:
        return LinkedPrompt(name, str(max(same)))
    message, tags = f"prompts={prompts.name}: {prompts.description}", {"harness.prompts": prompts.name}
    return LinkedPrompt(name, str(client.create_prompt_version(name, text, message, tags).version))
