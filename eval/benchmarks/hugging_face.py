"""Dataset from Hugging Face, or from a local folder laid out like one, with its columns mapped.

columns = {"question": "question", "answer": "answer"}
HuggingFaceDataset(repo="owner/name", config="main", columns=columns).load("test").samples[0].target
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.columns import AS_GAIA, ColumnSettings
from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.hub import (
    HUB,
    Choose,
    HubRepository,
    LocalTableError,
    Table,
    find_link_limit,
    list_data_files,
    read_local_table,
)
from eval.benchmarks.rows import Attachments, Row, check_on_bad_row, find_attachments_folder, read_rows
from mas.runtime.errors import UserError

_REPO = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+", re.ASCII)


@dataclass
class HuggingFaceDataset(ColumnSettings, Dataset):
    """The keys of `conf/data/hf.yaml`, explained there."""

    repo: str
    config: str | None = None
    revision: str | None = None
    token_env: str = "HF_TOKEN"
    files: str | None = None
    on_bad_row: str = "refuse"
    name: str = "hf"
    default_split: str = "test"

    def check(self) -> None:
        """Check the settings before `datasets` is imported.

        Raises:
            UserError: a name that no repository can have and no folder has, or a value that does not exist.
        """
        check_on_bad_row(self.on_bad_row)
        self.check_columns()
        find_attachments_folder(self.files, Path())
        if not self._is_local and not _REPO.fullmatch(self.repo):
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

        def choose(names: Sequence[str]) -> list[str]:
            nonlocal columns
            columns = self.find_columns(names, self.repo)
            return columns.list_used()

        contents = (
            self._local_table(split, choose) if self._is_local else self._hub().read_table(self.config, split, choose)
        )
        if not contents:
            raise UserError(f"{self.repo} has no rows in split {split}: give another with split=….")
        rows = [Row(f"{self.repo}, {split}, row {number}", each) for number, each in enumerate(contents, start=1)]
        file = columns.names["file"]
        names = [each.get(file) for each in contents] if file else []
        return read_rows(rows, self._find_attachments([name for name in names if name]), self.on_bad_row, columns)

    def _find_attachments(self, names: Sequence[object]) -> Attachments:
        if not names:
            return Attachments(Path(self.files or "."))
        hub = self._hub()
        holding_answers = (
            list_data_files(self.repo, self.config) if self._is_local else hub.list_data_files(self.config)
        )
        if self.files:
            return Attachments(Path(self.files), data_files=holding_answers)
        root = Path(self.repo) if self._is_local else hub.fetch_files("", names)
        return Attachments(root, limit=find_link_limit(root), data_files=holding_answers)

    @property
    def _is_local(self) -> bool:
        return bool(self.repo) and Path(self.repo).is_dir()

    def _local_table(self, split: str, choose: Choose) -> Table:
        try:
            return read_local_table(self.repo, self.config, split, choose)
        except LocalTableError as error:
            raise UserError(
                f"data.repo={self.repo} cannot be read as {self.config or 'default'}/{split}: {error}; correct "
                "data.repo, data.config or split."
            ) from error

    def _hub(self) -> HubRepository:
        return HubRepository(self.repo, self.revision, self.token_env, self._build_refusal)

    def _build_refusal(self, cause: str) -> UserError:
        revision = f" at revision {self.revision}" if self.revision else ""
        return UserError(
            f"{self.repo}{revision} could not be fetched ({cause}): check the name at {HUB}/{self.repo}, be online and,"
            f" if the dataset is gated or private, accept its terms there and put your token into {self.token_env}."
        )
