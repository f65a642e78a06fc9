"""Dataset from Hugging Face, or from a local folder laid out like one, with its columns mapped.

columns = {"question": "question", "answer": "answer"}
HuggingFaceDataset(repo="owner/name", config="main", columns=columns).load("test").samples[0].target
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.columns import AS_GAIA, ColumnSettings
from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.hub import HUB, TOKEN, HubRepository
from eval.benchmarks.rows import Attachments, Row, read_rows
from mas.runtime.errors import UserError

_REPO = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+", re.ASCII)


@dataclass
class HuggingFaceDataset(ColumnSettings, Dataset):
    """The keys of `conf/data/hf.yaml`, explained there."""

    repo: str
    config: str | None = None
    revision: str | None = None
    name: str = "hf"
    default_split: str = "test"

    def check(self) -> None:
        super().check()
        if not Path(self.repo or "-").is_dir() and not _REPO.fullmatch(self.repo):
            raise UserError(
                f"data.repo={self.repo} is neither a folder nor the name of a dataset: give owner/name, as in "
                f"{HUB}/owner/name."
            )

    def load(self, split: str) -> Split:
        """Read one split.

        Raises:
            UserError: no access, no such config, split or column, or a row is bad and bad rows are refused.
        """
        self.check()
        columns = AS_GAIA

        def choose(there: Collection[str]) -> list[str]:
            nonlocal columns
            columns = self.find_columns(there, self.repo)
            return columns.list_used()

        hub = HubRepository(self.repo, self.revision, self._build_refusal)
        contents = hub.read_table(self.config, split, choose)
        if not contents:
            raise UserError(f"{self.repo} has no rows in split {split}: give another with split=….")
        rows = [Row(f"{self.repo}, {split}, row {number}", each) for number, each in enumerate(contents, start=1)]
        file = columns.names["file"]
        names = [name for each in contents if file and (name := each.get(file))]
        data_files = hub.list_data_files(self.config) if names else frozenset[str]()
        if self.files or not names:
            attachments = Attachments(Path(self.files or "."), data_files=data_files)
        else:
            attachments = hub.find_attachments("", names, data_files)
        return read_rows(rows, attachments, self.on_bad_row, columns)

    def _build_refusal(self, cause: str, table: str | None = None) -> UserError:
        if table is not None:
            return UserError(
                f"data.repo={self.repo} cannot be read as {table}: {cause}; correct data.repo, data.config or split."
            )
        revision = f" at revision {self.revision}" if self.revision else ""
        return UserError(
            f"{self.repo}{revision} could not be fetched ({cause}): check the name at {HUB}/{self.repo}, be online and,"
            f" if the dataset is gated or private, accept its terms there and put your token into {TOKEN}."
        )
