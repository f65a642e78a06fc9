"""Differences between two runs' options, prompts and tools.

setup = read_setup(folder, store.read_info())
find_differences(setup, other).prompts      # {"planner": "3f2a90b1c7d2 → 91bc04e5aa10"}
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eval.config.measured import find_changes
from eval.runs.folder import read_kept_prompts
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet

_DIGEST_CHARS = 12
_NOTHING = "none"


@dataclass(frozen=True)
class Setup:
    """The parts that a run was made of."""

    system: str
    model: str
    config: Mapping[str, object]
    prompts: PromptSet | None  # used last; None: none were kept
    n_prompt_sets: int  # more than one: it was resumed with others
    tools: Mapping[str, list[str]]  # agent → names
    tools_are_seen: bool  # as they were offered; False: as configured, by a run that did not record what was offered


@dataclass(frozen=True)
class Differences:
    """Options, prompts and tools that differ: name → "of the first → of the second"."""

    options: dict[str, str]
    prompts: dict[str, str]
    tools: dict[str, str]


def read_setup(folder: Path, info: RunInfo) -> Setup:
    """Return the setup of a run.

    Raises:
        UserError: the prompts that the run has kept cannot be read.
    """
    kept = list(read_kept_prompts(folder, info.prompts).values())
    return Setup(
        system=info.system or str(info.part("system").get("name", "")),
        model=info.model or str(info.part("model").get("name", "")),
        config=info.config,
        prompts=kept[-1] if kept else None,
        n_prompt_sets=len(kept),
        tools=_read_configured_tools(info) if info.tools is None else info.tools,
        tools_are_seen=info.tools is not None,
    )


def find_differences(first: Setup, second: Setup) -> Differences:
    """Return the differences between two setups."""
    return Differences(
        options=find_changes(first.config, second.config),
        prompts=_compare_values(_digest_prompts(first.prompts), _digest_prompts(second.prompts)),
        tools=_compare_values(_join_tools(first), _join_tools(second)),
    )


def _read_configured_tools(info: RunInfo) -> dict[str, list[str]]:
    agents = info.part("system").get("agents") or {}
    return {name: sorted(each["tools"]) for name, each in agents.items() if each and each.get("tools")}


def _compare_values(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    pairs = {key: (before.get(key, _NOTHING), now.get(key, _NOTHING)) for key in {**before, **now}}
    return {key: f"{old} → {new}" for key, (old, new) in pairs.items() if old != new}


def _digest_prompts(prompts: PromptSet | None) -> dict[str, str]:
    """Return agent → digest of its text, and the number of its demos."""
    if prompts is None:
        return {}
    return {agent: _digest_prompt(text, prompts.demos.get(agent, [])) for agent, text in prompts.texts.items()}


def _digest_prompt(text: str, demos: list[dict[str, object]]) -> str:
    content = text + ("\n" + json.dumps(demos) if demos else "")
    with_demos = f" with {len(demos)} demos" if demos else ""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS] + with_demos


def _join_tools(setup: Setup) -> dict[str, str]:
    return {agent: ", ".join(names) or _NOTHING for agent, names in setup.tools.items()}
