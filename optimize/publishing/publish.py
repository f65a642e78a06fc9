"""A prompt set is published whole or not at all, and never over another one.

    shelf = PROJECT_ROOT / "prompts"
    check_free("tuned", shelf)                                  # before anything is spent
    publish(candidate.prompts, shelf / "tuned", provenance)     # texts, demos, set.yaml, tuned_on.json, provenance.yaml
    reject(candidate.prompts, run_folder, "c004", provenance)   # the same, in the run's rejected/c004

A set is made in a hidden folder beside its place and then moved there: a kill leaves no half of one.
"""

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mas.prompt_sets.prompt_set import SET_FILE, SUFFIX, PromptSet, digest, read_prompt_set, write_prompt_set
from mas.prompt_sets.provenance import PROVENANCE_FILE, read_provenance
from mas.runtime.errors import UserError
from optimize.publishing.provenance import Provenance, describe_provenance, format_provenance

REJECTED = "rejected"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")


class NameTakenError(UserError):
    """Another name would do."""


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


def check_name(name: str) -> None:
    """
    Raises:
        UserError: it is no plain folder's name.
    """
    if not _NAME.fullmatch(name):
        raise UserError(
            f"name={name} is no plain name of a folder; use up to 100 letters, digits, '-', '_' and '.', with a "
            "letter or digit first and no '.' at the end."
        )


def check_free(name: str, shelf: Path, run: str | None = None) -> Path:
    """
    Args:
        name: of the set that is to be published.
        shelf: the folder of all sets.
        run: name of the folder of the run that publishes; the set may be there if that run has published it.

    Returns:
        Where it will be.

    Raises:
        UserError: it is no plain folder's name.
        NameTakenError: there is something of that name, be it in other letter case.
    """
    check_name(name)
    try:
        taken = next((each.name for each in shelf.iterdir() if each.name.lower() == name.lower()), None)
    except FileNotFoundError:
        taken = None
    except OSError as error:
        raise UserError(f"{shelf} cannot be read ({_cause(error)}); check its permissions.") from error
    if taken and not (run and taken == name and _is_of(shelf / name, run)):
        raise _taken(shelf / taken)
    return shelf / name


def _is_of(folder: Path, run: str) -> bool:
    try:
        told = read_provenance(folder)
    except UserError:
        return False
    return told.get("run") == run and told.get("gated") is True


def _taken(folder: Path) -> NameTakenError:
    return NameTakenError(
        f"{folder.parent.name}/{folder.name} is there already, and no prompt set is ever overwritten; choose another "
        "name, or remove that folder first."
    )


def describe_published(place: str, splits: Mapping[str, Any]) -> str:
    """
    Args:
        place: of the set, such as prompts/tuned.
        splits: of the run, as splits.json has them.
    """
    use = f"prompts={shlex.quote(place.rpartition('/')[2])}"
    if option := splits.get("sealed_option"):
        return f"published: {place} (use it: {use} {option})"
    return f"published: {place} (use it: {use}; the score on questions that it was not tuned on stands beside)"


def publish(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    """Write the set as `folder`, whose name becomes the set's.

    Once: a run that was killed right after it finds its own set there when it is resumed, and leaves it as it is.

    Returns:
        The set as `read_prompt_set` will read it there.

    Raises:
        NameTakenError: by something else.
        UserError: the folder cannot be written; nothing is left behind then.
    """
    if (mine := _published(prompts, folder, provenance)) is not None:
        return mine
    check_free(folder.name, folder.parent)
    return _made(prompts, folder, provenance)


def reject(prompts: PromptSet, run_folder: Path, candidate_id: str, provenance: Provenance) -> PromptSet:
    """Keep what was tested and not published, in the run's folder; again, where a resumed run comes to it again.

    Raises:
        UserError: it cannot be written.
    """
    folder = run_folder / REJECTED / candidate_id
    shutil.rmtree(folder, ignore_errors=True)
    return _made(prompts, folder, provenance)


def _published(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet | None:
    """The set in the folder, if it is this very one."""
    if not (folder / PROVENANCE_FILE).is_file():
        return None
    try:
        there = read_folder(folder)
    except UserError:  # it cannot be read
        return None
    source = (there.provenance.get("run"), there.provenance.get("candidate_id"), there.provenance.get("gated"))
    same_source = source == (provenance.run, provenance.candidate_id, provenance.gated)
    return there if same_source and not there.edited and digest(there) == digest(prompts) else None


def _made(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as hidden:
            made = Path(hidden) / folder.name
            _write(replace(prompts, description=describe_provenance(provenance)), made, provenance)
            _move(made, folder)
        _flush(folder.parent)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({_cause(error)}); check the folder and the disk.") from error
    told = yaml.safe_load((folder / PROVENANCE_FILE).read_text("utf-8"))
    return replace(
        prompts,
        name=folder.name,
        folder=folder,
        description=describe_provenance(provenance),
        provenance=told,
        edited=(),
    )


def _write(prompts: PromptSet, folder: Path, provenance: Provenance) -> None:
    prompts = write_prompt_set(folder, prompts)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    text = yaml.safe_dump(
        format_provenance(provenance, prompts, checksums), sort_keys=False, allow_unicode=True, width=120
    )
    (folder / PROVENANCE_FILE).write_text(text, encoding="utf-8", newline="\n")
    for path in (*files, folder / PROVENANCE_FILE, folder):
        _flush(path)


def _move(made: Path, folder: Path) -> None:
    if folder.exists():  # made by somebody else in the meantime; an empty folder would be replaced without a word
        raise _taken(folder)
    made.rename(folder)


def _flush(path: Path) -> None:
    """What is renamed before it is on the disk may be empty after a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cause(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
