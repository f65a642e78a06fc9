"""The prompts that a run was made with, kept in its folder: the set itself may be edited later.

`prompts/` has those of its first session; a run that was resumed with others (run.allow_config_change) keeps each
further set beside it, in `prompts_2/` and so on. The store's `prompts_kept` says how each set was called.

    keep_prompts(folder, store, prompts)
    kept_prompts(folder, store.meta())          # {"prompts": PromptSet("baseline", …)}, the last used last
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from eval.runs.store import RunStore
from eval.runs.whole_file import whole_file
from mas.prompt_sets.prompt_set import SET_FILE, SUFFIX, PromptSet, digest, read_prompt_set, write_prompt_set
from mas.prompt_sets.tuned_on import TUNED_ON_FILE

KEPT = "prompts_kept"  # in the store's meta: folder → name of the set, the last used last
FIRST = "prompts"


def keep_prompts(folder: Path, store: RunStore, prompts: PromptSet) -> None:
    """Keep what this session uses, unless the run has it already. To be called before the store has its new facts."""
    meta = store.meta()
    names = _names(folder, meta)
    known = kept_prompts(folder, meta)
    place = next((name for name, kept in known.items() if digest(kept) == digest(prompts)), None)
    if place is None:
        place = next(name for number in range(1, len(names) + 2) if (name := _place(number)) not in known)
        write_prompt_set(folder / place, prompts)
        names[place] = prompts.name
    elif prompts.tuned_on and (marks := prompts.tuned_on | known[place].tuned_on) != known[place].tuned_on:
        with whole_file(folder / place / TUNED_ON_FILE, "ascii") as file:  # kept by an older version, or restored since
            file.write(marks.to_json())
    store.set_meta(
        KEPT, json.dumps({**{name: each for name, each in names.items() if name != place}, place: names[place]})
    )


def kept_prompts(folder: Path, meta: Mapping[str, str]) -> dict[str, PromptSet]:
    """Folder in the run's → the set in it."""
    return {
        place: _read(folder / place, name)
        for place, name in _names(folder, meta).items()
        if (folder / place / SET_FILE).is_file()
    }


def _names(folder: Path, meta: Mapping[str, str]) -> dict[str, str]:
    if KEPT in meta:
        names: dict[str, str] = json.loads(meta[KEPT])
        return names
    config = yaml.safe_load(meta.get("config", "")) or {}
    return {FIRST: Path(str(config.get("prompts") or FIRST)).name} if (folder / FIRST / SET_FILE).is_file() else {}


def _place(number: int) -> str:
    return FIRST if number == 1 else f"{FIRST}_{number}"


def _read(kept: Path, name: str) -> PromptSet:
    system = str(yaml.safe_load((kept / SET_FILE).read_text("utf-8"))["system"])
    agents = [path.name.removesuffix(SUFFIX) for path in sorted(kept.glob(f"*{SUFFIX}"))]
    return replace(read_prompt_set(kept.absolute(), agents, system, kept), name=name)
