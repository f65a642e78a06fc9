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
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.rows import Attachments, ColumnSettings, Row, check_on_bad_row, is_bare_name, read_rows
from mas.llm.profiles.reachable import CONNECT_TIMEOUT_SECONDS
from mas.runtime.errors import UserError

HUB = "https://huggingface.co/datasets"
TOKEN = "HF_TOKEN"  # environment variable, which huggingface_hub reads
REPOSITORY = "gaia-benchmark/GAIA"
REVISION = "682dd723ee1e1697e00360edccf2366dc8418dd9"
_REPO = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+", re.ASCII)


class _HubDataset(Dataset):
    """Base of what is read from a repository at one revision, or from a local folder laid out like one."""

    repo: str  # owner/name, or the folder
    path: str | None = None  # the folder, where there is one
    config: str | None
    revision: str | None

    @property
    def source(self) -> str:
        return self.path or self.repo

    @property
    def is_local(self) -> bool:
        return Path(self.source).is_dir()

    @contextmanager
    def opening(self, split: str) -> Iterator[Any]:
        """Give the split as `datasets` has it; raise UserError for whatever fails inside."""
        with self._refusing(f"{self.config or 'default'}/{split}"):
            from datasets import load_dataset

            if self.is_local:  # streamed: a changed file is seen at once, where a table in the cache might be old
                yield load_dataset(self.source, self.config, split=split, streaming=True)
                return
            loaded = load_dataset(self.source, self.config, split=split, revision=self.revision)
            # Offline this is whatever was fetched last, from a folder that is named after its commit.
            folders = {part for file in loaded.cache_files for part in Path(file["filename"]).parts}
            if re.fullmatch(r"[0-9a-f]{40}", self.revision or "") and folders and self.revision not in folders:
                raise self._build_refusal("what was fetched before is another revision")
            yield loaded

    def find_attachments(
        self, folder: str, names: Iterable[object], data_files: frozenset[str] = frozenset()
    ) -> Attachments:
        """Return the attachments in a folder of the repository; those with these names are fetched."""
        root = Path(self.source)
        if not self.is_local:
            bare = [name for name in names if isinstance(name, str) and is_bare_name(name)]
            patterns = [*(str(PurePosixPath(folder, glob.escape(name))) for name in bare), "README.md"]
            with self._refusing():
                from huggingface_hub import snapshot_download

                options: dict[str, Any] = {
                    "repo_type": "dataset",
                    "revision": self.revision,
                    "allow_patterns": patterns,
                }
                root = Path(snapshot_download(self.source, **options))
        # In the cache, files of `snapshots/REVISION` are links into `blobs`.
        real = root.resolve()
        limit = real.parent.parent if real.parent.name == "snapshots" else real
        return Attachments(root / folder, limit, data_files=data_files)

    def list_data_files(self) -> frozenset[str]:
        """Return the bare names of the files that the rows come from."""
        with self._refusing():
            from datasets import load_dataset_builder

            revision = None if self.is_local else self.revision
            found = load_dataset_builder(self.source, self.config, revision=revision).config.data_files or {}
        return frozenset(PurePosixPath(str(file)).name for files in found.values() for file in files)

    def number_rows(self, contents: Sequence[object], split: str) -> list[Row]:
        """Return the rows with their places."""
        place = f"{self.source}, {self.config or 'default'}/{split}"
        return [Row(f"{place}, row {number}", content) for number, content in enumerate(contents, start=1)]

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
                    f"{self.source} cannot be read as {table}: {words}; correct data.config, split or the folder."
                ) from None
            raise self._build_refusal(type(error).__name__) from None

    def _build_refusal(self, cause: str) -> UserError:
        revision = f" at revision {self.revision}" if self.revision else ""
        return UserError(
            f"{self.source}{revision} could not be fetched ({cause}): check the name at {HUB}/{self.source}, be online"
            f" and, if the dataset is gated or private, accept its terms there and put your token into {TOKEN}."
        )


def _skip_retries_when_offline() -> None:
    """Let huggingface_hub, not imported yet, use its cache alone if no hub answers: it would try six times for a file.

    With a proxy it may always try.
    """
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT") or HUB)
    if getproxies() or not endpoint.hostname:
        return
    try:
        port = endpoint.port or (443 if endpoint.scheme == "https" else 80)
        socket.create_connection((endpoint.hostname, port), timeout=CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _has_token() -> bool:
    """Return whether huggingface_hub will find a token, without importing that library."""
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    file = Path(os.environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
    return bool(os.environ.get(TOKEN, "").strip()) or file.is_file()


@dataclass
class HuggingFaceDataset(ColumnSettings, _HubDataset):
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
        self.check()
        with self.opening(split) as loaded:
            # Streamed JSON tells its columns by its rows alone.
            columns = self.find_columns(loaded.column_names or list(next(iter(loaded), {})), self.repo)
            contents = list(loaded.select_columns(columns.list_used()))
        if not contents:
            raise UserError(f"{self.repo} has no rows in split {split}: give another with split=….")
        file = columns.names["file"]
        names = [name for each in contents if file and (name := each.get(file))]
        data_files = self.list_data_files() if names else frozenset[str]()
        attachments = Attachments(Path(self.files or "."), data_files=data_files)
        if names and not self.files:
            attachments = self.find_attachments("", names, data_files)
        return read_rows(self.number_rows(contents, split), attachments, self.on_bad_row, columns)


@dataclass
class GaiaDataset(_HubDataset):
    """The keys of `conf/data/gaia*.yaml`, explained there."""

    sealed_level: ClassVar[str] = "1"  # a prompt search learns from the other levels and is tested on this one
    repo: str = field(init=False, default=REPOSITORY)
    revision: str | None = field(init=False, default=REVISION)

    config: str | None = "2023_level1"
    path: str | None = None
    on_bad_row: str = "refuse"
    name: str = "gaia"
    default_split: str = "validation"

    def check(self) -> None:
        """Check the settings before `datasets` is imported. UserError: no folder at `path`, or no token."""
        check_on_bad_row(self.on_bad_row)
        if self.path is not None and not Path(self.path).is_dir():
            raise UserError(
                f"data.path={self.path} is not a folder: give one laid out like {HUB}/{REPOSITORY}, or leave it out."
            )
        if self.path is None and not _has_token():
            raise UserError(
                f"GAIA could not be fetched (there is no token in {TOKEN}): accept the terms at {HUB}/{REPOSITORY}"
                f", put your token into the environment as {TOKEN} and be online, or try without it with "
                "experiment=offline."
            )

    def load(self, split: str) -> Split:
        """Read `validation`, or `test` (no gold answers, so unscored)."""
        self.check()
        with self.opening(split) as loaded:
            contents = list(loaded)
        folder = f"{str(self.config).split('_')[0]}/{split}"  # 2023_level1: 2023/validation
        attachments = self.find_attachments(folder, [content.get("file_name") for content in contents])
        return read_rows(self.number_rows(contents, split), attachments, self.on_bad_row)
