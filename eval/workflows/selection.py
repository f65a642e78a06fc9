"""Which questions of a split are run."""

import random
from collections.abc import Sequence

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import Selection
from mas.runtime.errors import UserError


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
