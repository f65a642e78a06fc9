"""Contracts of datasets: a sample, the samples of a split, the source that they are read from, and their selection."""

import json
import random
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from mas.runtime.errors import UserError

EXPECTED = "expected"  # tag that a scorer reads (`eval.scorers.expected`): JSON, and no category with its own numbers
_LEAST_WORDS = 5  # of a text that is somebody's own; shorter ones are names of tables, methods and the like
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')


@dataclass(frozen=True)
class Sample:
    """A question, its attachment and its target.

    Only `question`, `file` and `inputs` reach a system; `target` goes to the scorer alone.
    """

    id: str
    question: str
    file: Path | None = None  # absolute, checked to lie inside the dataset's folder
    target: str | None = None  # None: unscored
    level: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)  # named fields, of which `question` is the text; or empty


@dataclass(frozen=True)
class Split:
    """The samples of one split, and notes on how they were read."""

    samples: tuple[Sample, ...]
    bad_rows: tuple[str, ...] = ()  # skipped with `on_bad_row: skip`; one sentence per row: file, line, what is wrong
    notes: tuple[str, ...] = ()  # to be printed once: what was guessed, such as a column by its usual name


@runtime_checkable
class Dataset(Protocol):
    """A source of samples; the fields of an implementation are its keys in `conf/data/`.

    An implementation may also have `revision` (of published data), `tuning_splits` (names of the training, validation
    and sealed test splits), `sealed_level` (that tuning keeps for its sealed test) or
    `labels` (a list of the targets that there are).
    """

    name: str
    default_split: str

    @abstractmethod
    def check(self) -> None:
        """Raise UserError if a setting is wrong, before anything heavy is imported."""

    @abstractmethod
    def load(self, split: str) -> Split:
        """Read one split. UserError: the data cannot be read, or a row is bad and bad rows are refused."""


@dataclass
class Selection:
    """The keys of the command line that select samples."""

    limit: int | None = None  # the first so many, after shuffling; null: all
    ids: list[str] = field(default_factory=list)  # only these; empty: all
    level: str | None = None  # only this level; null: all
    shuffle: bool = False
    seed: int = 0  # of the shuffling


def select_samples(samples: Sequence[Sample], selection: Selection) -> list[Sample]:
    """Filter by level and ids, shuffle, then take the first `limit`. UserError: an id or level that no sample has."""
    chosen = list(samples)
    if selection.level is not None:
        chosen = [sample for sample in chosen if sample.level == selection.level]
        if not chosen:
            levels = sorted({sample.level or "none" for sample in samples})
            raise UserError(f"level={selection.level} has no question; levels of this split: {', '.join(levels)}.")
    if selection.ids:
        by_id = {sample.id: sample for sample in chosen}
        if unknown := [wanted for wanted in selection.ids if wanted not in by_id]:
            known = ", ".join(list(by_id)[:5])
            raise UserError(
                f"ids: no question here has the id {unknown[0]}; the first of {len(by_id)} ids are: {known}."
            )
        chosen = [by_id[wanted] for wanted in dict.fromkeys(selection.ids)]
    if selection.shuffle:
        random.Random(selection.seed).shuffle(chosen)
    return chosen[: selection.limit]


def list_gold_texts(tag: str, value: str) -> list[str]:
    """Return the texts in a tag's value that may not be quoted: of `expected` its longer ones, such as gold queries."""
    if tag != EXPECTED:
        return [value]
    texts = (json.loads(text, strict=False) for text in _JSON_TEXT.findall(value))
    return [text for text in texts if len(text.split()) >= _LEAST_WORDS]


def classify_attachment(name: str | None) -> str:
    """Return the ending of a file's name in lower case; `none` without a file."""
    return Path(name or "").suffix.lower().lstrip(".") or "none"


def normalise_question(text: str) -> str:
    """Return a question without differences of case, spaces and compatibility forms."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def read_labels(data: object) -> tuple[str, ...]:
    """Return the labels that a dataset's settings name, as texts; empty: none. UserError: not two different ones."""
    given = getattr(data, "labels", ())
    names = tuple(str(each).strip() for each in given)
    different = set(map(normalise_question, names))
    if names and (len(names) < 2 or "" in different or len(different) < len(names)):
        raise UserError(
            f"data.labels={given} cannot be read; expected a list of at least two different labels, such as "
            "data.labels=[billing,refund] (case and white space make no difference)."
        )
    return names
