"""Selection of the samples of a split that a run answers."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from eval.benchmarks.dataset import Sample
from mas.runtime.errors import UserError


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
