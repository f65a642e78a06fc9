"""Dataset that comes with the project, for trying it without access to anything.

Written by `scripts/sample_data/make_sample.py`: invented facts in small files, which no model can know by heart.

    BundledDataset().load("val").samples[0].question     # "In the attached file, how many …"
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.files import JsonlDataset

SAMPLE = Path(__file__).parent / "sample"
SAMPLE_VERSION = 4  # goes up whenever a question or a file changes: scores of two versions are not comparable


@dataclass
class BundledDataset(Dataset):
    """The keys of `conf/data/sample.yaml`, explained there."""

    version: ClassVar[int] = SAMPLE_VERSION
    tuning_splits: ClassVar[tuple[str, str, str]] = ("train", "val", "test")  # training, validation, sealed test
    name: str = "sample"
    default_split: str = "val"

    def check(self) -> None:
        """Raise UserError if the files are missing."""
        self._files().check()

    def load(self, split: str) -> Split:
        """Read `train`, `val` (also `validation`) or `test`.

        Raises:
            UserError: no such split.
        """
        return self._files().load("val" if split == "validation" else split)  # GAIA's name for it

    def _files(self) -> JsonlDataset:
        """Return the dataset of the files that are read."""
        return JsonlDataset(path=str(SAMPLE))
