"""Publication of prompt sets: completely or not at all, and never over another one.

    shelf = PROJECT_ROOT / "prompts"
    check_name_is_free("tuned", shelf)                          # before anything is spent
    publish(candidate.prompts, shelf / "tuned", provenance)     # texts, demos, set.yaml, tuned_on.json, provenance.yaml
    reject(candidate.prompts, run_folder, "c004", provenance)   # the same, in the run's rejected/c004

A set is written to a hidden folder in the same place and then renamed, so that a kill leaves no incomplete set.
"""

import hashlib
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from mas.prompt_sets.prompt_set import (
    NameTakenError,
    PromptSet,
    check_name_is_free,
    digest,
    read_set_folder,
    write_prompt_set,
)
from mas.prompt_sets.provenance import PROVENANCE_FILE
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import flush_to_disk
from optimize.publishing.provenance import Provenance, describe_provenance, format_provenance

REJECTED = "rejected"


def describe_published(place: str, splits: Mapping[str, Any]) -> str:
    """Return the line that reports a published set and its use.

    Args:
        place: of the set, such as prompts/tuned.
        splits: content of splits.json.
    """
    use = f"prompts={shlex.quote(place.rpartition('/')[2])}"
    if option := splits.get("sealed_option"):
        return f"published: {place} (use it: {use} {option})"
    return f"published: {place} (use it: {use}; evaluations also report the score on questions not tuned on)"


def publish(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    """Write the set as `folder`, whose name becomes the set's. A resumed run leaves its own set as it is.

    Returns:
        The set as `read_prompt_set` will read it.

    Raises:
        NameTakenError: something else has that name.
        UserError: the folder cannot be written; nothing is left behind then.
    """
    if (mine := _find_published(prompts, folder, provenance)) is not None:
        return mine
    check_name_is_free(folder.name, folder.parent)
    return _write_atomically(prompts, folder, provenance)


def reject(prompts: PromptSet, run_folder: Path, candidate_id: str, provenance: Provenance) -> PromptSet:
    """Write a set that was tested and not published to the run's folder, replacing one of an earlier session.

    Raises:
        UserError: it cannot be written.
    """
    folder = run_folder / REJECTED / candidate_id
    shutil.rmtree(folder, ignore_errors=True)
    return _write_atomically(prompts, folder, provenance)


def _find_published(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet | None:
    """Return the set in the folder if it is this one."""
    if not (folder / PROVENANCE_FILE).is_file():
        return None
    try:
        there = read_set_folder(folder)
    except UserError:  # it cannot be read
        return None
    same_source = all(there.provenance.get(name) == provenance[name] for name in ("run", "candidate_id", "gated"))
    return there if same_source and not there.edited and digest(there) == digest(prompts) else None


def _write_atomically(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as hidden:
            made = Path(hidden) / folder.name
            _write(replace(prompts, description=describe_provenance(provenance)), made, provenance)
            _share(made, folder.parent)
            _move(made, folder)
        flush_to_disk(folder.parent)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({_cause(error)}); check the folder and the disk.") from error
    written = yaml.safe_load((folder / PROVENANCE_FILE).read_text("utf-8"))
    return replace(
        prompts,
        name=folder.name,
        folder=folder,
        description=describe_provenance(provenance),
        provenance=written,
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
        flush_to_disk(path)


def _share(made: Path, shelf: Path) -> None:
    """Let whoever may read the shelf read the set: unlike a run it is a source file."""
    mode = stat.S_IMODE(shelf.stat().st_mode)
    made.chmod(mode)
    for path in made.iterdir():
        path.chmod(mode & 0o666)


def _move(made: Path, folder: Path) -> None:
    if folder.exists():  # created meanwhile; an empty folder would be replaced silently
        raise NameTakenError(folder)
    made.rename(folder)


def _cause(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
