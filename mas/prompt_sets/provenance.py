"""File `provenance.yaml` of a published prompt set: its origin, and the checksums that show later edits.

They find edits and accidents, not somebody who writes other checksums.

gated: true                                     # and other facts that were known when it was published
checksums:                                      # SHA-256 of the files' bytes
  planner_system_prompt.txt: 9f86d081884c…

    provenance = read_provenance(folder)
    find_edited_files(folder, provenance, ["planner_system_prompt.txt"])      # (): nothing was edited
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mas.runtime.errors import UserError

PROVENANCE_FILE = "provenance.yaml"
_REMEDY = "restore it, or remove it from a set of your own"


def read_provenance(folder: Path) -> dict[str, Any]:
    """Return the content of the file; empty if there is none.

    Raises:
        UserError: the file cannot be read, or does not hold keys and values.
    """
    import yaml

    file = folder / PROVENANCE_FILE
    try:
        content = yaml.safe_load(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}; {_REMEDY}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid YAML; {_REMEDY}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{file} holds no keys and values; {_REMEDY}.")
    if not isinstance(content.get("checksums", {}), dict):
        raise UserError(f"'checksums' in {file} are no file names with SHA-256 sums; {_REMEDY}.")
    return content


def find_edited_files(folder: Path, provenance: Mapping[str, Any], present: Iterable[str]) -> tuple[str, ...]:
    """Return the names of files that were changed, removed or added since the checksums were written.

    Args:
        folder: of the set.
        provenance: the content of its file.
        present: files of the folder that must have a checksum; others count only if they have one.
    """
    if "checksums" not in provenance:
        return ()
    checksums = {str(name): checksum for name, checksum in provenance["checksums"].items()}
    names = sorted({*present, *checksums})
    return tuple(name for name in names if _checksum(folder / name) != checksums.get(name, ""))


def _checksum(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
