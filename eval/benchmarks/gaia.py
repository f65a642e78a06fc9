"""Dataset GAIA (https://arxiv.org/abs/2311.12983) from Hugging Face, or from a folder laid out like that repository.

The repository is gated: accept its terms and put a token into the environment. It is read through `datasets`
at a pinned revision; only the attachments that the split names are fetched.

    GaiaDataset().load("validation").samples[0].level             # "1"
    GaiaDataset(path="GAIA").load("validation")                    # a local copy, no token
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from eval.benchmarks.columns import check_on_bad_row
from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.hub import HUB, TOKEN, HubRepository, has_token
from eval.benchmarks.rows import Row, read_rows
from mas.runtime.errors import UserError

REPOSITORY = "gaia-benchmark/GAIA"
REVISION = "682dd723ee1e1697e00360edccf2366dc8418dd9"
_ACCESS = f"{HUB}/{REPOSITORY}"


@dataclass
class GaiaDataset(Dataset):
    """The keys of `conf/data/gaia*.yaml`, explained there."""

    sealed_level: ClassVar[str] = "1"  # a prompt search learns from the other levels and is tested on this one
    sealed_name: ClassVar[str] = "GAIA Level 1"
    repo: ClassVar[str] = REPOSITORY
    revision: ClassVar[str] = REVISION

    config: str = "2023_level1"
    path: str | None = None
    on_bad_row: str = "refuse"
    name: str = "gaia"
    default_split: str = "validation"

    def check(self) -> None:
        """Check the settings before `datasets` is imported.

        Raises:
            UserError: no local folder at `path`, or no token to fetch with.
        """
        check_on_bad_row(self.on_bad_row)
        if self.path is None and not has_token():
            raise self._build_refusal(f"there is no token in {TOKEN}")
        if self.path is not None and not Path(self.path).is_dir():
            raise UserError(
                f"data.path={self.path} is not a folder: give one laid out like {_ACCESS}, or leave it out."
            )

    def load(self, split: str) -> Split:
        """Read `validation`, or `test` (no gold answers, so unscored).

        Raises:
            UserError: no access, no such config or split, or a row is bad and bad rows are refused.
        """
        self.check()
        hub = HubRepository(self.path or self.repo, self.revision, self._build_refusal)
        contents = hub.read_table(self.config, split)
        place = f"{hub.repo}, {self.config}/{split}"
        rows = [Row(f"{place}, row {number}", content) for number, content in enumerate(contents, start=1)]
        folder = f"{self.config.split('_')[0]}/{split}"  # 2023_level1: 2023/validation
        names = [content.get("file_name") for content in contents]
        return read_rows(rows, hub.find_attachments(folder, names), self.on_bad_row)

    def _build_refusal(self, cause: str, table: str | None = None) -> UserError:
        if table is not None:
            return UserError(
                f"data.path={self.path} cannot be read as GAIA's {table}: {cause}; give a folder laid out like "
                f"{_ACCESS} at revision {REVISION[:7]}."
            )
        return UserError(
            f"GAIA could not be fetched ({cause}): accept the terms at {_ACCESS}, put your token into the environment"
            f" as {TOKEN} and be online, or try without it with experiment=offline."
        )
