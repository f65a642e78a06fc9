"""A run's prompts as versions in MLflow's Prompt Registry, one prompt per agent, linked to the run.

`prompts/` in git stays the authority: a text is registered when a run has used it, and only if no version of that
prompt has the same text. All sets of a system or of a user's program share its prompts, since MLflow compares versions
of one prompt only; an alias names the version that a set has now. MLflow links by tags: `mlflow.linkedPrompts` of the
run, and the experiments of a prompt, which its pages filter by. `MlflowClient.link_prompt_version_to_run` and
`register_prompt` do the same, but use the process's own tracking URI and active experiment.

An agent's worked examples (demos) are a part of its prompt, so they are a part of the version: its template is the
text, a line that says what follows, and the examples as JSON. `template.partition(DEMOS_MARK)` gives the text alone.

    register_prompts(run, read_prompt_set("baseline", AGENTS, "gaia", root))
    # [LinkedPrompt(name="gaia.planner", version="3"), …]        with the alias "baseline", if is_now=True
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from eval.mlflow_export.tracked_run import TrackedRun, read_pages
from eval.mlflow_export.values import break_pictures
from mas.prompt_sets.prompt_set import PromptSet

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import PromptVersion

LINKED_PROMPTS_TAG = "mlflow.linkedPrompts"
EXPERIMENTS_TAG = "_mlflow_experiment_ids"  # ",1,7,": commas on both sides, since pages search for ",1,"
DIGEST_TAG = "harness.sha256"
DEMOS_MARK = "\n\n<!-- worked examples (demos.json): sent before each question, as turns of the conversation -->\n\n"
_RESERVED = r"latest|v\d+"
_MAX_TEMPLATE_CHARS = 100_000  # MLflow's limit
_PAGE_VERSIONS = 100


class LinkedPrompt(NamedTuple):
    name: str
    version: str


def register_prompts(run: TrackedRun, *prompts: PromptSet, is_now: bool = False) -> list[LinkedPrompt]:
    """Register new texts, and link all to the run; doing it again changes nothing.

    Args:
        prompts: all sets that the run has used, the last one last.
        is_now: the last set is as it is used now, so its alias is set to these versions. Not for a run that is only
            completed: the set may have newer texts by now.

    Raises:
        MlflowException: MLflow cannot be reached or refuses; a text of more than 100,000 characters is refused.
    """
    linked = list(dict.fromkeys(_version(run, each, agent) for each in prompts for agent in each.texts))
    wanted = json.dumps([each._asdict() for each in linked])
    if run.client.get_run(run.run_id).data.tags.get(LINKED_PROMPTS_TAG) != wanted:
        run.client.set_tag(run.run_id, LINKED_PROMPTS_TAG, wanted)
    if is_now:
        for agent in prompts[-1].texts:
            _set_alias(run, build_alias(prompts[-1].name), _version(run, prompts[-1], agent))
    return linked


def name_owner(prompts: PromptSet, system: Mapping[str, object]) -> PromptSet:
    """Return the set as the registry names it: prompts of a user's program belong to that program.

    Args:
        prompts: of a run.
        system: its part of the run's configuration.
    """
    target = system.get("target")
    return replace(prompts, system=f"{prompts.system}.{target}") if target else prompts


def build_prompt_name(system: str, agent: str) -> str:
    """Return `<system>.<agent>`; MLflow allows no other characters than these."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{system}.{agent}")


def build_alias(set_name: str) -> str:
    """Return the alias of a set. MLflow reserves `latest` and `v1`."""
    alias = re.sub(r"[^A-Za-z0-9_-]", "_", set_name)
    return f"set-{alias}" if re.fullmatch(_RESERVED, alias, re.IGNORECASE) else alias


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


def _version(run: TrackedRun, prompts: PromptSet, agent: str) -> LinkedPrompt:
    name, text = build_prompt_name(prompts.system, agent), build_template(prompts, agent)
    _show_in_experiment(run, name)
    version = next((each for each in _list_versions(run.client, name) if each.template == text), None)
    if version is None:
        tags = {DIGEST_TAG: hashlib.sha256(text.encode()).hexdigest(), "harness.prompts": prompts.name}
        version = run.client.create_prompt_version(name, text, f"prompts={prompts.name}: {prompts.description}", tags)
    return LinkedPrompt(name, str(version.version))


def _set_alias(run: TrackedRun, alias: str, linked: LinkedPrompt) -> None:
    """Set the alias to that version, if it is not yet: a search does not return aliases."""
    from mlflow import MlflowException

    try:
        version = str(run.client.get_prompt_version_by_alias(linked.name, alias).version)
    except MlflowException:  # there is no such alias yet; after any other failure the next call raises
        version = ""
    if version != linked.version:
        run.client.set_prompt_alias(linked.name, alias, linked.version)


def _show_in_experiment(run: TrackedRun, name: str) -> None:
    """Create the prompt if there is none, and list it on the experiment's page."""
    prompt = run.client.get_prompt(name)
    if prompt is None:
        run.client.create_prompt(name, None, {EXPERIMENTS_TAG: f",{run.experiment_id},"})
        return
    listed = [each for each in str(prompt.tags.get(EXPERIMENTS_TAG, "")).split(",") if each]
    if run.experiment_id not in listed:
        run.client.set_prompt_tag(name, EXPERIMENTS_TAG, f",{','.join([*listed, run.experiment_id])},")


def _list_versions(client: "MlflowClient", name: str) -> "Sequence[PromptVersion]":
    """Return all versions of a prompt, the newest first."""
    found: Iterator[PromptVersion] = read_pages(
        lambda token: client.search_prompt_versions(name, _PAGE_VERSIONS, token)
    )
    return sorted(found, key=lambda each: int(each.version), reverse=True)
