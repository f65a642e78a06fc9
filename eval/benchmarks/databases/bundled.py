"""Dataset that comes with the project: questions about an invented shop, with its database and its API.

Written by `scripts/make_bos_sample.py`. A system reads where the database and the API are from the options of the data
(`conf/system/bos.yaml`); the samples name neither.

    BosSampleDataset().load("val").samples[0].tags["kind"]     # "sql"
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from eval.benchmarks.dataset import EXPECTED, Sample, Split
from eval.benchmarks.files import JsonlDataset
from eval.benchmarks.sample_set import BundledDataset

SHOP = Path(__file__).parent / "shop"
VERSION = 1  # goes up whenever a question or the database changes: scores of two versions are not comparable
FIELDS = ("question", "context", "prefer_agents", "disable_agents")  # of a request


@dataclass
class BosSampleDataset(BundledDataset):
    """The keys of `conf/data/bos_sample.yaml`, explained there."""

    version: ClassVar[int] = VERSION
    name: str = "bos_sample"
    tags: list[str] = field(default_factory=lambda: ["kind"])
    databases: str | None = None
    tables: dict[str, list[str]] = field(default_factory=dict)
    api_documentation: str | None = None
    api_command: list[str] = field(default_factory=list)
    current_time: str | None = None

    def load(self, split: str) -> Split:
        """Read `train`, `val` (also `validation`) or `test`, each sample with the fields that its row has.

        Raises:
            UserError: no such split.
        """
        found = super().load(split)
        return replace(found, samples=tuple(map(_keep_given_fields, found.samples)))

    def _files(self) -> JsonlDataset:
        inputs, tags = list(FIELDS), [*self.tags, EXPECTED]
        columns = {"id": "task_id", "answer": "Final answer", "level": None, "file": None}
        return JsonlDataset(path=str(SHOP), inputs=inputs, tags=tags, columns=columns)


def _keep_given_fields(sample: Sample) -> Sample:
    """Return the sample with the fields that its row has, asked by its question alone."""
    given = {name: text for name, text in sample.inputs.items() if text}
    return replace(sample, question=sample.inputs["question"], inputs=given)
