"""Datasets that come with the project: invented facts in small files, and an invented shop with database and API.

A system reads where the database and the API are from
the options of the data (`conf/system/bos.yaml`); the samples name neither.

    BundledDataset().load("val").samples[0].question     # "In the attached file, how many …"
    BosSampleDataset().load("val").samples[0].tags["kind"]     # "sql"
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from eval.benchmarks.dataset import EXPECTED, Dataset, Sample, Split
from eval.benchmarks.files import JsonlDataset

SAMPLE = Path(__file__).parent / "sample"
SHOP = Path(__file__).parent / "databases" / "shop"
# Each goes up whenever a question, a file or the database changes: scores of two versions are not comparable.
SAMPLE_VERSION, SHOP_VERSION = 5, 1
FIELDS = ("question", "context", "prefer_agents", "disable_agents")  # of a request about the shop


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
        """Read `train`, `val` (also `validation`) or `test`. UserError: no such split."""
        return self._files().load("val" if split == "validation" else split)  # GAIA's name for it

    def _files(self) -> JsonlDataset:
        return JsonlDataset(path=str(SAMPLE))


@dataclass
class BosSampleDataset(BundledDataset):
    """The keys of `conf/data/bos_sample.yaml`, explained there."""

    version: ClassVar[int] = SHOP_VERSION
    name: str = "bos_sample"
    tags: list[str] = field(default_factory=lambda: ["kind"])
    databases: str | None = None
    tables: dict[str, list[str]] = field(default_factory=dict)
    api_documentation: str | None = None
    api_command: list[str] = field(default_factory=list)
    current_time: str | None = None

    def load(self, split: str) -> Split:
        """Read a split; each sample has the fields that its row has, and is asked by its question alone."""
        found = super().load(split)
        return replace(found, samples=tuple(map(_keep_given_fields, found.samples)))

    def _files(self) -> JsonlDataset:
        columns = {"id": "task_id", "answer": "Final answer", "level": None, "file": None}
        return JsonlDataset(path=str(SHOP), inputs=list(FIELDS), tags=[*self.tags, EXPECTED], columns=columns)


def _keep_given_fields(sample: Sample) -> Sample:
    given = {name: text for name, text in sample.inputs.items() if text}
    return replace(sample, question=sample.inputs["question"], inputs=given)
