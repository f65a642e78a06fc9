"""`provenance.yaml` of a published prompt set: where it comes from, and whether its files are still those.

gated: true                                     # and whatever else was written when it was published
checksums:                                      # SHA-256 of the files' bytes
  planner_system_prompt.txt: 9f86d081884c…

provenance = read_provenance(folder)
edited_files(folder, provenance, ["planner_system_prompt.txt"])      # (): nothing was edited
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mas.runtime.errors import UserError

PROVENANCE_FILE = "provenance.yaml"
_MEND = "restore it, or remove it from a set of your own"


def read_provenance(folder: Path) -> dict[str, Any]:
    """What the file says; nothing if there is none.

    Raises:
        UserError: it is something else than keys and values.
    """
    import yaml

    file = folder / PROVENANCE_FILE
    try:
        told = yaml.safe_load(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}; {_MEND}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid YAML; {_MEND}.") from error
    if not isinstance(told, dict):
        raise UserError(f"{file} holds no keys and values; {_MEND}.")
    if not isinstance(told.get("checksums", {}), dict):
        raise UserError(f"'checksums' in {file} are no file names with SHA-256 sums; {_MEND}.")
    return told


def edited_files(folder: Path, provenance: Mapping[str, Any], present: Iterable[str]) -> tuple[str, ...]:
    """The files that were changed, removed or added since the checksums were written, by name.

    `present`: the files of the folder that must have a checksum; others count only if they have one.
    """
    if "checksums" not in provenance:
        return ()
    checksums = {str(name): told for name, told in provenance["checksums"].items()}
    names = sorted({*present, *checksums})
    return tuple(name for name in names if _checksum(folder / name) != checksums.get(name, ""))


def _checksum(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
