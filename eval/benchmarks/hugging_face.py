"""Datasets of Hugging Face, GAIA (https://arxiv.org/abs/2311.12983) among them, or of a folder laid out like one.

Read through `datasets`, which is imported where it is used; only the attachments that the rows name are fetched.
Failures become one sentence from a cause that never quotes the error: an HTTP library may quote the header with the
token in it.

    columns = {"question": "question", "answer": "answer"}
    HuggingFaceDataset(repo="owner/name", config="main", columns=columns).load("test").samples[0].target
    GaiaDataset().load("validation").samples[0].level             # "1"; accept its terms, and have a token
    GaiaDataset(path="GAIA").load("validation")                   # a local copy, no token
"""

import glob
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from eval.benchmarks.columns import AS_GAIA, ColumnSettings, check_on_bad_row
from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.rows import Attachments, Row, is_bare_name, read_rows
from mas.llm.profiles.reachable import CONNECT_TIMEOUT_SECONDS
from mas.runtime.errors import UserError

HUB = "https://huggingface.co/datasets"
TOKEN = "HF_TOKEN"  # environment variable, which huggingface_hub reads
REPOSITORY = "gaia-benchmark/GAIA"
REVISION = "682dd723ee1e1697e00360edccf2366dc8418dd9"
_ACCESS = f"{HUB}/{REPOSITORY}"
_REPO = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+", re.ASCII)

Contents = list[Mapping[str, object]]
Choose = Callable[[Sequence[str]], Sequence[str]]  # the columns there are → those that are read


@dataclass(frozen=True)
class HubRepository:
    """A dataset repository at one revision, or a local folder laid out like one."""

    repo: str  # owner/name, or the folder
    revision: str | None
    refusal: Callable[..., UserError]  # the sentence, from its cause; of a folder also from config and split

    @property
    def is_local(self) -> bool:
        return Path(self.repo).is_dir()

    def read_table(self, config: str | None, split: str, choose: Choose = list) -> Contents:
        """Return the rows of one split, with the columns that `choose` returns.

        Raises:
            UserError: no access, no such config or split, or nothing that can be read; or what `choose` raises.
        """
        table = f"{config or 'default'}/{split}"
        if self.is_local:
            return self._read_folder(config, split, choose, table)
        with self._fetching():
            from datasets import load_dataset

            try:
                loaded = load_dataset(self.repo, config, split=split, revision=self.revision)
                self._check_revision(loaded)
                return _read_columns(loaded, choose)
            except ValueError as error:
                if missing := _extract_available(error):
                    raise UserError(f"{self.repo} has no {table}: {missing}.") from None
                raise

    def _read_folder(self, config: str | None, split: str, choose: Choose, table: str) -> Contents:
        import yaml
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError

        # Streamed: a changed file is seen at once, where a table in the cache might be the old one.
        with tempfile.TemporaryDirectory() as cache:
            try:
                loaded = load_dataset(self.repo, config, split=split, streaming=True, cache_dir=cache)
                return _read_columns(loaded, choose)
            except (DatasetsError, ValueError, RuntimeError, OSError, yaml.YAMLError) as error:
                raise self.refusal(_flatten_message(error), table) from error

    def find_attachments(
        self, folder: str, names: Iterable[object], data_files: frozenset[str] = frozenset()
    ) -> Attachments:
        """Return the attachments in a folder of the repository; those with these names are fetched."""
        if self.is_local:
            root = Path(self.repo)
        else:
            bare = [name for name in names if isinstance(name, str) and is_bare_name(name)]
            patterns = [*(str(PurePosixPath(folder, glob.escape(name))) for name in bare), "README.md"]
            with self._fetching():
                from huggingface_hub import snapshot_download

                wanted = partial(snapshot_download, self.repo, repo_type="dataset", revision=self.revision)
                root = Path(wanted(allow_patterns=patterns))
        # In the cache, files of `snapshots/REVISION` are links into `blobs`.
        real = root.resolve()
        limit = real.parent.parent if real.parent.name == "snapshots" else real
        return Attachments(root / folder, limit, data_files=data_files)

    def list_data_files(self, config: str | None) -> frozenset[str]:
        """Return the bare names of the files that the rows come from."""
        options = {} if self.is_local else {"revision": self.revision}
        with self._fetching():
            from datasets import load_dataset_builder

            found = load_dataset_builder(self.repo, config, **options).config.data_files or {}
        return frozenset(PurePosixPath(str(file)).name for files in found.values() for file in files)

    def _check_revision(self, loaded: Any) -> None:
        """Without a network `datasets` takes whatever it fetched last, from a folder that is named after its commit."""
        folders = {part for file in loaded.cache_files for part in Path(file["filename"]).parts}
        if re.fullmatch(r"[0-9a-f]{40}", self.revision or "") and folders and self.revision not in folders:
            raise self.refusal("the hub cannot be reached, and what was fetched before is another revision")

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        """Refuse what fails inside. The libraries are imported here or later: they read the variable that is set."""
        if not self.is_local:
            _skip_retries_when_offline()
        from datasets.exceptions import DatasetsError
        from huggingface_hub.errors import HfHubHTTPError

        http_errors = HfHubHTTPError.__bases__  # of the HTTP library in use, which differs between releases
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # else a line for each of its retries
        try:
            yield
        except (DatasetsError, OSError, RuntimeError, ValueError, *http_errors) as error:
            raise self.refusal(type(error).__name__) from None


def _skip_retries_when_offline() -> None:
    """Let huggingface_hub use its cache alone if no hub can be reached: it would try six times for each file.

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


def _read_columns(loaded: Any, choose: Choose) -> Contents:
    names = loaded.column_names or list(next(iter(loaded), {}))  # streamed JSON tells its columns by its rows alone
    return list(loaded.select_columns(list(choose(names))))


def _extract_available(error: ValueError) -> str | None:
    """Return the library's own list of configs or splits; None if the error is about something else."""
    text = _flatten_message(error).partition(" Example of usage")[0]
    return text if any(sign in text for sign in ("Available", "available", "Should be one of")) else None


def has_token() -> bool:
    """Return whether huggingface_hub will find a token, without importing that library, which takes a second."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    file = Path(os.path.expandvars(os.environ.get("HF_TOKEN_PATH") or f"{home}/token")).expanduser()
    return bool(os.environ.get(TOKEN, "").strip()) or file.is_file()


def _flatten_message(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


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
