"""Names of prompt sets on their shelf, `prompts/`, and what a published one there says of itself."""

import re
from collections.abc import Mapping
from pathlib import Path

from mas.prompt_sets.prompt_set import PromptSet, list_files
from mas.prompt_sets.provenance import read_provenance
from mas.runtime.errors import UserError

_SET_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")


class NameTakenError(UserError):
    """Another set has that name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder.parent.name}/{folder.name} is there already, and no prompt set is ever overwritten; choose "
            "another name, or remove that folder first."
        )


def check_set_name(name: str) -> None:
    """Check that a name is a plain folder name; UserError: it is not."""
    if not _SET_NAME.fullmatch(name):
        raise UserError(
            f"name={name} is no plain name of a folder; use up to 100 letters, digits, '-', '_' and '.', with a "
            "letter or digit first and no '.' at the end."
        )


def check_name_is_free(name: str, shelf: Path, run: str | None = None) -> Path:
    """Return the folder for a set to be published; it may exist if the run in a folder `run` made it.

    UserError: the name is not a plain folder name. NameTakenError: something has that name, in any letter case.
    """
    check_set_name(name)
    names = list_files(shelf) if shelf.exists() else set()
    taken = next((each for each in names if each.lower() == name.lower()), None)
    if taken and not (run and taken == name and _was_published_by(shelf / name, run)):
        raise NameTakenError(shelf / taken)
    return shelf / name


def _was_published_by(folder: Path, run: str) -> bool:
    try:
        provenance = read_provenance(folder)
    except UserError:
        return False
    return provenance.get("run") == run and provenance.get("gated") is True


def is_gated(prompt_set: PromptSet) -> bool:
    """Return whether a set passed the gate, without leaks, and is still as it was published then."""
    facts = prompt_set.provenance
    leaks = facts.get("leaks")
    return (
        facts.get("gated") is True
        and isinstance(leaks, Mapping)
        and leaks.get("blocked") is False
        and "checksums" in facts
        and not prompt_set.edited
    )
