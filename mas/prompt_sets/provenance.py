"""Files of a published or tuned prompt set that say where it comes from.

`provenance.yaml` has its origin, and the checksums that show later edits:

    gated: true                                     # and other facts known when it was published
    checksums:                                      # SHA-256 of the files' bytes
      planner_system_prompt.txt: 9f86d081884c…

`tuned_on.json` has fingerprints (`eval/benchmarks/fingerprint.py`) of the questions that the set, or one that it was
tuned from, was tuned on.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mas.runtime.errors import UserError

PROVENANCE_FILE = "provenance.yaml"
TUNED_ON_FILE = "tuned_on.json"
_ROLES = ("learnt_from", "picked_by")
_RESTORE = "restore it from where the set came from, or remove it from a set of your own"
Content = TypeVar("Content")


@dataclass(frozen=True)
class TunedOn:
    """Fingerprints of questions."""

    learnt_from: frozenset[str]  # training questions
    picked_by: frozenset[str]  # validation questions

    def __or__(self, other: "TunedOn | None") -> "TunedOn":
        return self if other is None else TunedOn(*(getattr(self, role) | getattr(other, role) for role in _ROLES))

    @classmethod
    def from_dict(cls, marks: Mapping[str, Iterable[str]]) -> "TunedOn":
        return cls(*(frozenset(marks[role]) for role in _ROLES))

    def to_dict(self) -> dict[str, list[str]]:
        return {role: sorted(getattr(self, role)) for role in _ROLES}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1) + "\n"


def read_provenance(folder: Path) -> dict[str, Any]:
    """Return the content of `provenance.yaml`; empty if there is none. UserError: it cannot be read."""
    return read_checked(folder / PROVENANCE_FILE, dict[str, Any], _RESTORE) or {}


def read_tuned_on(folder: Path) -> TunedOn | None:
    """Return the content of `tuned_on.json`; None if the set has none. UserError: it cannot be read."""
    return read_checked(folder / TUNED_ON_FILE, TunedOn, _RESTORE)


def read_checked(file: Path, kind: type[Content], expected: str) -> Content | None:
    """Return the content of a YAML or JSON file of a set; None if there is no such file.

    UserError: it cannot be read, or its content has another type; the sentence ends with `expected`.
    """
    if not file.exists():
        return None
    import yaml
    from pydantic import TypeAdapter, ValidationError  # slow, and most sets have no such file

    try:
        text = file.read_text("utf-8-sig")  # without the byte order mark that Windows editors write
        return TypeAdapter(kind).validate_python(json.loads(text) if file.suffix == ".json" else yaml.safe_load(text))
    except ValidationError as error:
        first = error.errors()[0]
        reason = " ".join([*map(str, first["loc"]), first["msg"][:1].lower() + first["msg"][1:]])
    except (OSError, ValueError, LookupError, AttributeError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:200]  # `!!bool x` is a KeyError
    raise UserError(f"{file} cannot be used ({reason}); {expected}.")


def find_edited_files(folder: Path, provenance: Mapping[str, Any], present: Iterable[str]) -> tuple[str, ...]:
    """Return the names of files that were changed, removed or added since the checksums were written.

    The files in `present` must have a checksum; others count only if they have one.
    """
    if "checksums" not in provenance:
        return ()
    found = provenance["checksums"]
    checksums = found if isinstance(found, dict) else {}  # something else is an edit, too
    names = sorted({*present, *map(str, checksums)})
    return tuple(name for name in names if _compute_checksum(folder / name) != checksums.get(name, ""))


def _compute_checksum(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
