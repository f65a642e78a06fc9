"""Datasets that come with the project: invented facts in small files, and an invented shop with database and API.

A system reads where database and API are from the options of the data (`conf/system/bos.yaml`), not from the samples.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from eval.benchmarks.dataset import EXPECTED, Sample, Split
from eval.benchmarks.files import JsonlDataset

SAMPLE = Path(__file__).parent / "sample"
SHOP = Path(__file__).parent / "databases" / "shop"
SHOP_COLUMNS = {"id": "task_id", "answer": "Final answer", "level": None, "file": None}
FIELDS = ("question", "context", "prefer_agents", "disable_agents")  # of a request about the shop


@dataclass(kw_only=True)
class BundledDataset(JsonlDataset):
    """The keys of `conf/data/sample.yaml`, explained there."""

    tuning_splits: ClassVar[tuple[str, str, str]] = ("train", "val", "test")  # training, validation, sealed test
    path: str = str(SAMPLE)
    name: str = "sample"
    default_split: str = "val"


@dataclass(kw_only=True)
class BosSampleDataset(BundledDataset):
    """The keys of `conf/data/bos_sample.yaml`, explained there."""

    path: str = str(SHOP)
    name: str = "bos_sample"
    columns: dict[str, str | None] = field(default_factory=SHOP_COLUMNS.copy)
    inputs: Any = FIELDS
    tags: list[Any] = field(default_factory=lambda: ["kind"])
    databases: str | None = None
    tables: dict[str, list[str]] = field(default_factory=dict)
    api_documentation: str | None = None
    api_command: list[str] = field(default_factory=list)
    current_time: str | None = None

    def load(self, split: str) -> Split:
        """Read a split; each sample has the fields that its row has, and is asked by its question alone."""
        found = BundledDataset.load(replace(self, tags=[*self.tags, EXPECTED]), split)
        return replace(found, samples=tuple(map(_keep_given_fields, found.samples)))


def _keep_given_fields(sample: Sample) -> Sample:
    given = {name: text for name, text in sample.inputs.items() if text}
    return replace(sample, question=sample.inputs["question"], inputs=given)
