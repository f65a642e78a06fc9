"""Short invented questions without files, made on the fly: the toy system's data, for trying optimisers cheaply.

    ToyBenchmark().load("val").examples[0].question      # "The prices in Velmor's shop are ropes: 14 crowns each; …"
    ToyBenchmark(n_test=1000, seed=3).load("test")       # other questions, and more of them

The same settings make the same questions, on every machine; splits share none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from eval.benchmarks.example import Example, Split
from eval.benchmarks.sample_draw import Drawn
from eval.benchmarks.toy_families import FAMILIES
from mas.errors import UserError

TOY_VERSION = 1  # goes up whenever the questions of a seed change: scores of two versions are not comparable
DIFFICULTIES = (1, 1, 2, 2, 3)


@dataclass
class ToyBenchmark:
    """The keys of `conf/data/toy.yaml`, explained there."""

    version: ClassVar[int] = TOY_VERSION
    tuning_splits: ClassVar[tuple[str, str, str]] = ("train", "val", "test")  # to learn from, to pick by, sealed
    n_train: int = 60
    n_val: int = 60
    n_test: int = 250
    seed: int = 0
    name: str = "toy"
    default_split: str = "val"

    def check(self) -> None:
        """Raises UserError if a split would be empty."""
        for split, count in self._sizes().items():
            if count < 1:
                raise UserError(f"data.n_{split}={count} is too small; at least 1 question is needed.")

    def load(self, split: str) -> Split:
        """Make `train`, `val` or `test`.

        Raises:
            UserError: no such split, or an empty one.
        """
        self.check()
        if split not in self._sizes():
            raise UserError(f"The toy data has no split {split!r}: use one of {', '.join(self._sizes())}.")
        return Split(tuple(example for made_for, example in self._examples() if made_for == split))

    def _sizes(self) -> dict[str, int]:
        return {"train": self.n_train, "val": self.n_val, "test": self.n_test}

    def _examples(self) -> Iterator[tuple[str, Example]]:
        """All splits' examples, since a question must not come again in a later split."""
        asked: set[str] = set()
        families = list(FAMILIES)
        for split, count in self._sizes().items():
            for index in range(count):
                family = families[index % len(families)]
                difficulty = DIFFICULTIES[index // len(families) % len(DIFFICULTIES)]
                drawn = _new(family, difficulty, Random(f"{self.seed}/{split}/{index}"), asked)
                example_id = f"toy-{self.seed}-{split}-{index:03d}"
                tags = {"kind": "none", "family": family, "difficulty": str(difficulty)}
                yield split, Example(example_id, drawn.question, None, drawn.answer, str(drawn.level), tags)


def _new(family: str, difficulty: int, rng: Random, asked: set[str]) -> Drawn:
    while True:
        drawn = FAMILIES[family](rng, difficulty)
        if drawn.question not in asked:
            asked.add(drawn.question)
            return drawn
