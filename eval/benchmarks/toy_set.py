"""Dataset of short invented questions without files, for trying optimizers cheaply.

    ToyDataset().load("val").samples[0].question      # "The prices in Velmor's shop are ropes: 14 crowns each; …"

`scripts/sample_data/toy.py` writes them, and has a dataset of other ones.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from eval.benchmarks.dataset import Dataset, Sample, Split
from mas.runtime.errors import UserError

TOY = Path(__file__).parent / "toy"
STORED = {"train": 100, "val": 100, "test": 500}  # questions


@dataclass
class ToyDataset(Dataset):
    """The keys of `conf/data/toy.yaml`, explained there."""

    tuning_splits: ClassVar[tuple[str, str, str]] = ("train", "val", "test")  # training, validation, sealed test
    n_train: int = 60
    n_val: int = 60
    n_test: int = 250
    name: str = "toy"
    default_split: str = "val"

    def check(self) -> None:
        """Raise UserError if a split would be empty, or there are not as many questions."""
        for split, count in self.sizes().items():
            if not 1 <= count <= STORED[split]:
                raise UserError(f"data.n_{split}={count} is out of range; expected 1 to {STORED[split]} questions.")

    def load(self, split: str) -> Split:
        """Read the first questions of `train`, `val` or `test`."""
        self.check()
        if split not in self.sizes():
            raise UserError(f"The toy data has no split {split!r}: use one of {', '.join(self.sizes())}.")
        lines = (TOY / f"{split}.jsonl").read_text("utf-8").splitlines()
        return Split(tuple(Sample(**json.loads(line)) for line in lines[: self.sizes()[split]]))

    def sizes(self) -> dict[str, int]:
        """Return the number of questions of each split."""
        return {"train": self.n_train, "val": self.n_val, "test": self.n_test}
