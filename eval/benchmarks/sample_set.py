"""The sample questions that come with the project, for trying it without access to anything.

Written by `eval/benchmarks/make_sample.py`: invented facts in small files, which no model can know by heart.

    SampleBenchmark().load("val").examples[0].question     # "In the attached file, how many …"
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.benchmarks.example import Split
from eval.benchmarks.jsonl import JsonlBenchmark

SAMPLE = Path(__file__).parent / "sample"
ALIASES = {"validation": "val"}  # GAIA's name for it


@dataclass
class SampleBenchmark:
    """The keys of `conf/data/sample.yaml`, explained there."""

    on_bad_row: str = "refuse"
    name: str = "sample"
    default_split: str = "val"
    scorer: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raises UserError if the sample is not there, or a value does not exist."""
        self._files().check()

    def load(self, split: str) -> Split:
        """Read `train`, `val` (also `validation`) or `test`.

        Raises:
            UserError: no such split.
        """
        return self._files().load(ALIASES.get(split, split))

    def _files(self) -> JsonlBenchmark:
        return JsonlBenchmark(path=str(SAMPLE), on_bad_row=self.on_bad_row)
