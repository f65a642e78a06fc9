"""Which questions of a split are run."""

import random
from collections.abc import Sequence

from eval.benchmarks.dataset import Example
from eval.config.evaluation import Selection
from mas.runtime.errors import UserError


def select(examples: Sequence[Example], selection: Selection) -> list[Example]:
    """Filter by level and ids, shuffle, then take the first `limit`.

    Raises:
        UserError: an id or level that no question has.
    """
    chosen = list(examples)
    if selection.level is not None:
        chosen = [example for example in chosen if example.level == selection.level]
        if not chosen:
            levels = sorted({example.level or "none" for example in examples})
            raise UserError(f"level={selection.level} has no question; levels of this split: {', '.join(levels)}.")
    if selection.ids:
        chosen = _by_id(chosen, selection.ids)
    if selection.shuffle:
        random.Random(selection.seed).shuffle(chosen)
    return chosen[: selection.limit]


def _by_id(examples: Sequence[Example], ids: Sequence[str]) -> list[Example]:
    by_id = {example.id: example for example in examples}
    if unknown := [wanted for wanted in ids if wanted not in by_id]:
        known = ", ".join(list(by_id)[:5])
        raise UserError(f"ids: no question here has the id {unknown[0]}; the first of {len(by_id)} ids are: {known}.")
    return [by_id[wanted] for wanted in dict.fromkeys(ids)]
