"""Difference of two runs' macro F1 on the same questions.

An answer's contribution to the F1 of a label is (2·right − F1·named) / (named by the other questions), where `named`
counts the label as target and as answer: so the F1 changes if the question is left out (the jackknife; B. Efron and
R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11). A rare label moves the mean over labels much: half
an answer that might have differed is added to the variance, with the weight that an answer has on average.

    measure_macro_f1([((("yes", "yes"),), (("yes", "no"),)), …])       # (target, answer) of each epoch, per side
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from eval.analysis.statistics.paired_tests import Pair
from eval.analysis.statistics.regression import Effect

Cell = tuple[str, str]  # target and answer
_EXTRA_ANSWERS = 0.5
_NOTHING = 1e-9  # a count, but for rounding


def measure_macro_f1(samples: Sequence[tuple[Sequence[Cell], Sequence[Cell]]], labels: Sequence[str]) -> Effect:
    """Return the difference of the mean F1 over the labels that are a target.

    Args:
        samples: the answers of both runs to each question.
        labels: their names, of which one at least is a target; targets and answers that are none count as another.
    """
    targets = Counter(cells[0][0] for cells, _ in samples)
    used = [label for label in labels if targets[label]]
    sides = [_Side([sample[side] for sample in samples], used) for side in (0, 1)]
    n, epochs = len(samples), min(len(cells) for sample in samples for cells in sample)
    weight = sum(n / targets[label] for label in used) / len(used) ** 2  # mean square of a question's weight
    contributions = [Pair(*(side.list_contributions(place) for side in sides)) for place in range(n)]
    first, second = (side.macro_f1 for side in sides)
    return Effect(first, second, second - first, contributions, extra=_EXTRA_ANSWERS / epochs * weight)


class _Side:
    """Counts of one run. Each question counts once, however many epochs it has."""

    def __init__(self, samples: Sequence[Sequence[Cell]], labels: Sequence[str]) -> None:
        self._samples = samples
        right, self._named = defaultdict[str, float](float), defaultdict[str, float](float)
        for cells in samples:
            for label, count in _count_named(cells).items():
                self._named[label] += count
            for target, answer in cells:
                right[target] += (target == answer) / len(cells)
        self._f1 = {label: 2 * right[label] / self._named[label] for label in labels}

    @property
    def macro_f1(self) -> float:
        return math.fsum(self._f1.values()) / len(self._f1)

    def list_contributions(self, place: int) -> list[float]:
        """Return those of each answer to a question."""
        cells = self._samples[place]
        own = _count_named(cells)
        factor = (len(self._samples) - 1) / len(self._f1)
        return [factor * sum(self._contribute(label, cell, own) for label in self._f1.keys() & cell) for cell in cells]

    def _contribute(self, label: str, cell: Cell, own: Mapping[str, float]) -> float:
        others = self._named[label] - own[label]
        change = 2 * (cell == (label, label)) - self._f1[label] * cell.count(label)
        return change / (others if others > _NOTHING else self._named[label])


def _count_named(cells: Sequence[Cell]) -> dict[str, float]:
    """Return how often each label is the target or the answer, per epoch."""
    counts = Counter(label for cell in cells for label in cell)
    return {label: count / len(cells) for label, count in counts.items()}
