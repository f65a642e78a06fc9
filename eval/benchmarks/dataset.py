"""One question of a benchmark, as every dataset is read into it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Sample:
    """A question, its attachment and, apart from both, its gold answer.

    Only `question` and `file` ever reach a system; `target` goes to the scorer alone.
    """

    id: str
    question: str
    file: Path | None = None  # absolute, checked to lie inside the dataset's folder
    target: str | None = None  # None: unscored
    level: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """The examples of one split, the rows that were skipped (only with `on_bad_row: skip`), and how they were read."""

    samples: tuple[Sample, ...]
    bad_rows: tuple[str, ...] = ()  # one sentence a row: file, line, what is wrong
    notes: tuple[str, ...] = ()  # to be told once: what was guessed, such as a column by its usual name


class Dataset(Protocol):
    """A source of examples; the dataclass fields of an implementation are its keys in `conf/data/`."""

    def load(self, split: str) -> Split:
        """Read one split.

        Raises:
            UserError: the data cannot be had, or a row is bad and bad rows are refused.
        """
        ...
