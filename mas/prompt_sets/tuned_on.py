"""File `tuned_on.json` of a tuned prompt set: fingerprints of the questions that it was tuned on.

{"learnt_from": ["91bc04e5aa107c3d", …], "picked_by": ["3f2a90b1c7d2e864", …]}

A fingerprint identifies a question without holding its text; a short question can be guessed and checked
(`eval/benchmarks/fingerprint.py`). A set that was tuned from a tuned set has the fingerprints of both. For a set
without the file nothing is known.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mas.runtime.errors import UserError

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


def read_tuned_on(folder: Path) -> TunedOn | None:
    """Return the content of the file; None if the set has none.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    file = folder / TUNED_ON_FILE
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}; restore it.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not valid JSON; restore it from where the set came from.") from error
    lists = [content.get(role) for role in _ROLES] if isinstance(content, dict) else [None]
    if not all(isinstance(marks, list) and all(isinstance(mark, str) for mark in marks) for marks in lists):
        raise UserError(
            f"{file} does not hold 'learnt_from' and 'picked_by', each a list of texts; restore it from where the set "
            "came from."
        )
    return TunedOn.from_dict(content)
