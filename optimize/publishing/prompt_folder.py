"""Prompt sets as people name them, whatever system they are made for: by name, by path, or as a run's candidate.

find_set("tuned")            # prompts/tuned
find_set("./my_prompts")     # a folder
find_set("latest:c004")      # candidate c004 of the tuning run that was started last
"""

from dataclasses import replace
from pathlib import Path

import yaml

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import SET_FILE, SUFFIX, PromptSet, read_prompt_set
from mas.runtime.errors import UserError
from optimize.session.resuming import find_tuning_run

CANDIDATES = "candidates"


def find_set(name: str, root: Path = PROJECT_ROOT) -> PromptSet:
    """
    Args:
        name: of a set, path of its folder, or RUN:ID.
        root: the folder that `prompts/` is in.

    Raises:
        UserError: there is no such set, or it cannot be read.
    """
    run, colon, candidate_id = name.rpartition(":")
    if colon and run and candidate_id and not Path(name).exists():
        return candidate_of(find_tuning_run(run), candidate_id)
    path = Path(name).expanduser()
    places = [path, root / path] if "/" in name or path.is_absolute() else [root / "prompts" / name]
    folder = next((each for each in places if name and each.is_dir()), None)
    return (
        read_prompt_set(name, [], "", root) if folder is None else read_folder(folder)
    )  # the former says what is wrong


def candidate_of(run: Path, candidate_id: str) -> PromptSet:
    """
    Raises:
        UserError: the run has no such candidate.
    """
    known = sorted(each.parent.name for each in (run / CANDIDATES).glob(f"*/{SET_FILE}"))
    if candidate_id not in known:
        there = f"choose one of: {', '.join(known)}" if known else "it has none yet"
        raise UserError(f"{run.name} has no candidate {candidate_id}; {there}.")
    return replace(read_folder(run / CANDIDATES / candidate_id), name=candidate_id)


def read_folder(folder: Path) -> PromptSet:
    """The set in a folder, its agents taken from the files there.

    Raises:
        UserError: it holds no set.
    """
    folder = folder.absolute()
    agents = [path.name.removesuffix(SUFFIX) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return read_prompt_set(folder, agents, _system(folder), folder)


def _system(folder: Path) -> str:
    """What its set.yaml says; anything where that cannot be read: `read_prompt_set` then tells what is wrong."""
    try:
        about = yaml.safe_load((folder / SET_FILE).read_text("utf-8-sig"))
    except (OSError, ValueError, yaml.YAMLError):
        return ""
    return str(about.get("system") or "").strip() if isinstance(about, dict) else ""
