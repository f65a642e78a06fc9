"""Files of a published or tuned prompt set that say where it comes from.

`provenance.yaml` has its origin, and the checksums that show later edits. They find edits and accidents, not somebody
who writes other checksums.

    gated: true                                     # and other facts that were known when it was published
    checksums:                                      # SHA-256 of the files' bytes
      planner_system_prompt.txt: 9f86d081884c…

    find_edited_files(folder, read_provenance(folder), ["planner_system_prompt.txt"])      # (): nothing was edited

`tuned_on.json` has fingerprints of the questions that the set was tuned on:

    {"learnt_from": ["91bc04e5aa107c3d", …], "picked_by": ["3f2a90b1c7d2e864", …]}

A fingerprint identifies a question without holding its text; a short question can be guessed and checked
(`eval/benchmarks/fingerprint.py`). A set that was tuned from a tuned set has the fingerprints of both. For a set
without the file nothing is known.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mas.runtime.errors import UserError

PROVENANCE_FILE = "provenance.yaml"
TUNED_ON_FILE = "tuned_on.json"
_ROLES = ("learnt_from", "picked_by")


@dataclass(frozen=True)
class TunedOn:
    """Fingerprints of questions."""

    learnt_from: frozenset[str]  # training questions
    picked_by: frozenset[str]  # validation questions

    def __or__(self, other: "TunedOn | None") -> "TunedOn":
        """Return the questions of both."""
        return self if other is None else TunedOn(*(getattr(self, role) | getattr(other, role) for role in _ROLES))

    @classmethod
    def from_dict(cls, marks: Mapping[str, Iterable[str]]) -> "TunedOn":
        return cls(*(frozenset(marks[role]) for role in _ROLES))

    def to_dict(self) -> dict[str, list[str]]:
        return {role: sorted(getattr(self, role)) for role in _ROLES}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1) + "\n"


def read_provenance(folder: Path) -> dict[str, Any]:
    """Return the content of `provenance.yaml`; empty if there is none.

    Raises:
        UserError: the file cannot be read, or does not hold keys and values.
    """
    content = _read_file(folder / PROVENANCE_FILE)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _refuse(folder / PROVENANCE_FILE, "holds no keys and values")
    if not isinstance(content.get("checksums", {}), dict):
        raise _refuse(folder / PROVENANCE_FILE, "has 'checksums' that are no file names with SHA-256 sums")
    return content


def read_tuned_on(folder: Path) -> TunedOn | None:
    """Return the content of `tuned_on.json`; None if the set has none.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    content = _read_file(folder / TUNED_ON_FILE)
    if content is None:
        return None
    lists = [content.get(role) for role in _ROLES] if isinstance(content, dict) else [None]
    if not all(isinstance(marks, list) and all(isinstance(mark, str) for mark in marks) for marks in lists):
        raise _refuse(folder / TUNED_ON_FILE, "does not hold 'learnt_from' and 'picked_by', each a list of texts")
    return TunedOn.from_dict(content)


def _read_file(file: Path) -> Any:
    """Return what a YAML or JSON file holds; None if there is no such file."""
    import yaml

    try:
        text = file.read_text("utf-8")
        return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text) or ()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refuse(file, f"cannot be read: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise _refuse(file, f"is not valid {file.suffix[1:].upper()}") from error


def _refuse(file: Path, wrong: str) -> UserError:
    return UserError(f"{file} {wrong}; restore it from where the set came from, or remove it from a set of your own.")


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
