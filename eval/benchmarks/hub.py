"""Tables and files of a Hugging Face dataset repository, or of a local folder laid out like one.

Read through `datasets`, which is imported where it is used. Failures become one sentence that the caller words, from a
cause that never quotes the error: an HTTP library may quote the header with the token in it.

    HubRepository("owner/name", revision=None, refusal=refusal).read_table("default", "test")
"""

import glob
import logging
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from eval.benchmarks.rows import Attachments, is_bare_name
from mas.llm.profiles.reachable import CONNECT_TIMEOUT_SECONDS
from mas.runtime.errors import UserError

HUB = "https://huggingface.co/datasets"
TOKEN = "HF_TOKEN"  # environment variable, which huggingface_hub reads
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
        root = Path(self.repo) if self.is_local else self.fetch_files(folder, names)
        # In the cache, files of `snapshots/REVISION` are links into `blobs`.
        real = root.resolve()
        limit = real.parent.parent if real.parent.name == "snapshots" else real
        return Attachments(root / folder, limit, data_files=data_files)

    def fetch_files(self, folder: str, names: Iterable[object]) -> Path:
        """Return the snapshot's folder with the named files of `folder`; what is no name is left out."""
        inside = f"{folder}/" if folder else ""
        bare = [name for name in names if isinstance(name, str) and is_bare_name(name)]
        patterns = [*(f"{inside}{glob.escape(name)}" for name in bare), "README.md"]
        with self._fetching():
            from huggingface_hub import snapshot_download

            return Path(
                snapshot_download(self.repo, repo_type="dataset", revision=self.revision, allow_patterns=patterns)
            )

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
