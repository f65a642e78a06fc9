"""One question of a benchmark, as every dataset is read into it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from eval.config.evaluation import Selection
from mas.runtime.errors import UserError


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


def select(samples: Sequence[Sample], selection: Selection) -> list[Sample]:
    """Filter by level and ids, shuffle, then take the first `limit`.

    Raises:
        UserError: an id or level that no question has.
    """
    chosen = list(samples)
    if selection.level is not None:
        chosen = [sample for sample in chosen if sample.level == selection.level]
        if not chosen:
            levels = sorted({sample.level or "none" for sample in samples})
            raise UserError(f"level={selection.level} has no question; levels of this split: {', '.join(levels)}.")
    if selection.ids:
        chosen = _by_id(chosen, selection.ids)
    if selection.shuffle:
        random.Random(selection.seed).shuffle(chosen)
    return chosen[: selection.limit]


def _by_id(samples: Sequence[Sample], ids: Sequence[str]) -> list[Sample]:
    by_id = {sample.id: sample for sample in samples}
    if unknown := [wanted for wanted in ids if wanted not in by_id]:
        known = ", ".join(list(by_id)[:5])
        raise UserError(f"ids: no question here has the id {unknown[0]}; the first of {len(by_id)} ids are: {known}.")
    return [by_id[wanted] for wanted in dict.fromkeys(ids)]
