"""In what two runs differ beside their answers: options, prompts, and the tools that their agents really had.

setup = setup_of(folder, store.read_info())
differences(setup, other)["prompts"]      # {"planner": "3f2a90b1c7d2 → 91bc04e5aa10"}
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.config.measured import changes
from eval.runs.folder import read_kept_prompts
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet

_DIGEST_CHARS = 12
_NOTHING = "none"
_RUNS_OWN = ("run.epochs",)  # told beside the numbers


@dataclass(frozen=True)
class Setup:
    """What a run was made with."""

    system: str
    model: str
    config: Mapping[str, Any]
    prompts: PromptSet | None  # that it used last; None: none were kept
    n_prompt_sets: int  # more than one: it was resumed with others
    tools: Mapping[str, list[str]]  # agent → names
    tools_are_seen: bool  # as they were offered; false: as configured, by a run that did not note what was offered


def read_setup(folder: Path, info: RunInfo) -> Setup:
    """
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
        tools=_configured(info) if info.tools is None else info.tools,
        tools_are_seen=info.tools is not None,
    )


def find_differences(first: Setup, second: Setup) -> dict[str, dict[str, str]]:
    """`options`, `prompts` and `tools`: name → "of the first → of the second"."""
    options = changes(first.config, second.config)
    return {
        "options": {key: change for key, change in options.items() if key not in _RUNS_OWN},
        "prompts": _between(_digests(first.prompts), _digests(second.prompts)),
        "tools": _between(_names(first), _names(second)),
    }


def _configured(info: RunInfo) -> dict[str, list[str]]:
    agents = info.part("system").get("agents") or {}
    return {name: sorted(each["tools"]) for name, each in agents.items() if each and each.get("tools")}


def _between(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    pairs = {key: (before.get(key, _NOTHING), now.get(key, _NOTHING)) for key in {**before, **now}}
    return {key: f"{old} → {new}" for key, (old, new) in pairs.items() if old != new}


def _digests(prompts: PromptSet | None) -> dict[str, str]:
    """Agent → digest of its text, and how many demos it has."""
    if prompts is None:
        return {}
    return {agent: _digest(text, prompts.demos.get(agent, [])) for agent, text in prompts.texts.items()}


def _digest(text: str, demos: list[dict[str, Any]]) -> str:
    content = text + ("\n" + json.dumps(demos) if demos else "")
    with_demos = f" with {len(demos)} demos" if demos else ""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS] + with_demos


def _names(setup: Setup) -> dict[str, str]:
    return {agent: ", ".join(names) or _NOTHING for agent, names in setup.tools.items()}
