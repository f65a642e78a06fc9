"""Datasets of Hugging Face, GAIA (https://arxiv.org/abs/2311.12983) among them, or of a folder laid out like one.

Failures become one sentence that never quotes the error of a fetch: it may hold the header with the token.

    columns = {"question": "question", "answer": "answer"}
    HuggingFaceDataset(repo="owner/name", config="main", columns=columns).load("test").samples[0].target
    GaiaDataset(path="GAIA").load("validation").samples[0].level      # "1", from a local copy
"""

import glob
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.request import getproxies

from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.rows import Attachments, ColumnSettings, Row, is_bare_name, read_rows
from mas.llm.profiles.reachable import check_reachable
from mas.runtime.errors import UserError

HUB = "https://huggingface.co/datasets"
TOKEN = "HF_TOKEN"  # environment variable, which huggingface_hub reads
REPOSITORY = "gaia-benchmark/GAIA"
REVISION = "682dd723ee1e1697e00360edccf2366dc8418dd9"
_REPO = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+", re.ASCII)


@dataclass
class HuggingFaceDataset(ColumnSettings, Dataset):
    """The keys of `conf/data/hf.yaml`, explained there."""

    repo: str  # owner/name, or a folder
    config: str | None = None
    revision: str | None = None
    name: str = "hf"
    default_split: str = "test"

    @property
    def is_local(self) -> bool:
        return Path(self.repo).is_dir()

    def check(self) -> None:
        super().check()
        if not Path(self.repo or "-").is_dir() and not _REPO.fullmatch(self.repo):
            raise UserError(
                f"data.repo={self.repo} is neither a folder nor the name of a dataset: give owner/name, as in "
                f"{HUB}/owner/name."
            )

    def load(self, split: str) -> Split:
        self.check()
        table = f"{self.config or 'default'}/{split}"
        with self._refusing(table):
            opened, data_files = self._open(split)
            # Streamed JSON tells its columns by its rows alone.
            columns = self.find_columns(opened.column_names or list(next(iter(opened), {})), self.repo)
            contents = list(opened.select_columns(columns.list_used()))
        if not contents:
            raise UserError(f"{self.repo} has no rows in split {split}: give another with split=….")
        attachments = Attachments(Path(self.files or "."), data_files=data_files)
        names = [name for each in contents if (name := each.get(columns.names["file"]))]
        if names and not self.files:
            attachments = self._find_attachments(names, split, data_files)
        places = (f"{self.repo}, {table}, row {number}" for number in range(1, len(contents) + 1))
        return read_rows(map(Row, places, contents), attachments, self.on_bad_row, columns)

    def name_folder(self, split: str) -> str:
        """Return the folder of the repository that has a split's attachments."""
        return ""

    def _open(self, split: str) -> tuple[Any, frozenset[str]]:
        """Return the split as `datasets` has it, and the bare names of the files that rows come from."""
        from datasets import load_dataset_builder

        builder = load_dataset_builder(self.repo, self.config, revision=None if self.is_local else self.revision)
        files = [PurePosixPath(str(file)) for each in (builder.config.data_files or {}).values() for file in each]
        data_files = frozenset(file.name for file in files)
        if self.is_local:  # streamed: a changed file is seen at once, where a table in the cache might be old
            return builder.as_streaming_dataset(split), data_files
        builder.download_and_prepare()
        opened: Any = builder.as_dataset(split)
        # Offline this is whatever was fetched last, from a folder that is named after its commit.
        folders = {part for file in opened.cache_files for part in Path(file["filename"]).parts}
        if re.fullmatch(r"[0-9a-f]{40}", self.revision or "") and folders and self.revision not in folders:
            raise self._build_refusal("what was fetched before is another revision")
        return opened, data_files

    def _find_attachments(self, names: list[object], split: str, data_files: frozenset[str]) -> Attachments:
        """Return the attachments in the folder of the repository; those with these names are fetched."""
        root, folder = Path(self.repo), self.name_folder(split)
        if not self.is_local:
            bare = [name for name in names if isinstance(name, str) and is_bare_name(name)]
            patterns = [*(str(PurePosixPath(folder, glob.escape(name))) for name in bare), "README.md"]
            with self._refusing():
                from huggingface_hub import snapshot_download

                options: dict[str, Any] = {"revision": self.revision, "allow_patterns": patterns}
                root = Path(snapshot_download(self.repo, repo_type="dataset", **options))
        # In the cache, files of `snapshots/REVISION` are links into `blobs`.
        real = root.resolve()
        limit = real.parent.parent if real.parent.name == "snapshots" else real
        return Attachments(root / folder, limit, data_files=data_files)

    @contextmanager
    def _refusing(self, table: str | None = None) -> Iterator[None]:
        """Refuse what fails inside; with the error's words if they are about a folder, or list what there is."""
        if not self.is_local:
            _skip_retries_when_offline()
        try:
            import huggingface_hub  # noqa: F401  it sets the level of its log when it is imported

            logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # else a line for each of its retries
            yield
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001  two libraries, with those for HTTP, Parquet and YAML below them
            words = " ".join(str(error).split()).partition(" Example of usage")[0].rstrip(".") or type(error).__name__
            lists_others = any(sign in words for sign in ("Available", "available", "Should be one of"))
            if table and (self.is_local or (isinstance(error, ValueError) and lists_others)):
                raise UserError(
                    f"{self.repo} cannot be read as {table}: {words}; correct data.config, split or the folder."
                ) from None
            raise self._build_refusal(type(error).__name__) from None

    def _build_refusal(self, cause: str) -> UserError:
        revision = f" at revision {self.revision}" if self.revision else ""
        return UserError(
            f"{self.repo}{revision} could not be fetched ({cause}): check the name at {HUB}/{self.repo}, be online"
            f" and, if the dataset is gated or private, accept its terms there and put your token into {TOKEN}."
        )


def _skip_retries_when_offline() -> None:
    """Let huggingface_hub, not imported yet, use its cache alone if no hub answers: it would try six times for a file.

    With a proxy it may always try.
    """
    if getproxies():
        return
    try:
        check_reachable(os.environ.get("HF_ENDPOINT") or HUB, "HF_ENDPOINT", "hub", HUB)
    except UserError as error:
        if isinstance(error.__cause__, OSError):  # else its address has a password, which the libraries take
            os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _has_token() -> bool:
    """Return whether huggingface_hub will find a token, without importing that library."""
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    file = Path(os.environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
    return bool(os.environ.get(TOKEN, "").strip()) or file.is_file()


@dataclass
class GaiaDataset(HuggingFaceDataset):
    """The keys of `conf/data/gaia*.yaml`, explained there; GAIA's columns and revision are the defaults."""

    sealed_level: ClassVar[str] = "1"  # a prompt search learns from the other levels and is tested on this one
    repo: str = REPOSITORY
    config: str | None = "2023_level1"
    revision: str | None = REVISION
    path: str | None = None  # local folder
    name: str = "gaia"
    default_split: str = "validation"

    def __post_init__(self) -> None:
        self.repo = self.path or self.repo

    def check(self) -> None:
        """Check the settings before `datasets` is imported. UserError: no folder at `path`, or no token."""
        if self.path is not None and not Path(self.path).is_dir():
            raise UserError(
                f"data.path={self.path} is not a folder: give one laid out like {HUB}/{REPOSITORY}, or leave it out."
            )
        super().check()
        if self.path is None and not _has_token():
            raise UserError(
                f"GAIA could not be fetched (there is no token in {TOKEN}): accept the terms at {HUB}/{REPOSITORY}"
                f", put your token into the environment as {TOKEN} and be online, or try without it with "
                "experiment=offline."
            )

    def name_folder(self, split: str) -> str:
        return f"{str(self.config).split('_')[0]}/{split}"  # 2023_level1: 2023/validation
