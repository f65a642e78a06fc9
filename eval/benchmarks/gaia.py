"""GAIA (https://arxiv.org/abs/2311.12983) from Hugging Face, or from a folder laid out like that repository.

The repository is gated: its terms must be accepted and a token be in the environment. It is read through `datasets`
at a pinned revision; only the attachments that the split names are fetched.

    GaiaBenchmark().load("validation").examples[0].level             # "1"
    GaiaBenchmark(path="GAIA").load("validation")                    # a local copy, no token
"""

import glob
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.benchmarks.example import Split
from eval.benchmarks.rows import Attachments, Row, check_on_bad_row, is_bare, read_rows
from mas.errors import UserError

ACCESS = "https://huggingface.co/datasets/gaia-benchmark/GAIA"
REVISION = "682dd723ee1e1697e00360edccf2366dc8418dd9"


@dataclass
class GaiaBenchmark:
    """The keys of `conf/data/gaia*.yaml`, explained there."""

    config: str = "2023_level1"
    path: str | None = None
    on_bad_row: str = "refuse"
    repo: str = "gaia-benchmark/GAIA"
    revision: str = REVISION
    token_env: str = "HF_TOKEN"
    name: str = "gaia"
    default_split: str = "validation"
    scorer: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Find a user's mistake before `datasets` is imported.

        Raises:
            UserError: no local folder at `path`, or no token to fetch with.
        """
        check_on_bad_row(self.on_bad_row)
        if self.path is None and not self._token() and not _token_file().is_file():
            raise self._no_access(f"there is no token in {self.token_env}")
        if self.path is not None and not Path(self.path).is_dir():
            raise UserError(f"data.path={self.path} is not a folder: give one laid out like {ACCESS}, or leave it out.")

    def load(self, split: str) -> Split:
        """Read `validation`, or `test` (no gold answers, so unscored).

        Raises:
            UserError: no access, no such config or split, or a row is bad and bad rows are refused.
        """
        self.check()
        contents = self._local_table(split) if self.path else self._fetched_table(split)
        places = f"{self.path or self.repo}, {self.config}/{split}"
        rows = [Row(f"{places}, row {number}", content) for number, content in enumerate(contents, start=1)]
        root = Path(self.path) if self.path else self._fetched_files(split, contents)
        attachments = Attachments(root / self._folder(split), limit=_limit(root))
        return read_rows(rows, attachments, self.on_bad_row)

    def _folder(self, split: str) -> str:
        return f"{self.config.split('_')[0]}/{split}"  # 2023_level1: 2023/validation

    def _local_table(self, split: str) -> list[Mapping[str, Any]]:
        import yaml
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError

        # Streamed: a changed file is seen at once, where a table in the cache might be the old one.
        with tempfile.TemporaryDirectory() as cache:
            try:
                return list(load_dataset(self.path, self.config, split=split, streaming=True, cache_dir=cache))
            except (DatasetsError, ValueError, RuntimeError, OSError, yaml.YAMLError) as error:
                raise UserError(
                    f"data.path={self.path} cannot be read as GAIA's {self.config}/{split}: {_sentence(error)}; give a"
                    f" folder laid out like {ACCESS} at revision {REVISION[:7]}."
                ) from error

    def _fetched_table(self, split: str) -> list[Mapping[str, Any]]:
        from datasets import load_dataset

        with self._fetching():
            try:
                return list(
                    load_dataset(self.repo, self.config, split=split, revision=self.revision, token=self._token())
                )
            except ValueError as error:
                if "Available" in str(error) or "Should be one of" in str(error):
                    raise UserError(f"{self.repo} has no {self.config}/{split}: {_sentence(error)}.") from None
                raise

    def _fetched_files(self, split: str, contents: Sequence[Mapping[str, Any]]) -> Path:
        """The snapshot's folder, holding the attachments that the rows name."""
        from huggingface_hub import snapshot_download

        names = [name for content in contents if isinstance(name := content.get("file_name"), str) and is_bare(name)]
        patterns = [f"{self._folder(split)}/{glob.escape(name)}" for name in names]
        with self._fetching():
            snapshot = snapshot_download(
                self.repo,
                repo_type="dataset",
                revision=self.revision,
                allow_patterns=[*patterns, "README.md"],
                token=self._token(),
            )
        return Path(snapshot)

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        """Turn what can go wrong on the way to Hugging Face into the one sentence."""
        from datasets.exceptions import DatasetsError
        from huggingface_hub.errors import HfHubHTTPError

        http_errors = HfHubHTTPError.__bases__  # of the HTTP library in use, which differs between releases
        try:
            yield
        except (DatasetsError, OSError, RuntimeError, ValueError, *http_errors) as error:
            # The text of the cause stays out, since an HTTP library may quote the header with the token in it.
            raise self._no_access(type(error).__name__) from None

    def _token(self) -> str | None:
        """None: the token file that `hf auth login` writes is used, if any."""
        return os.environ.get(self.token_env, "").strip() or None

    def _no_access(self, cause: str) -> UserError:
        return UserError(
            f"GAIA could not be fetched ({cause}): accept the terms at {ACCESS}, put your token into the environment"
            f" as {self.token_env} and be online, or try without it with experiment=offline."
        )


def _token_file() -> Path:
    """Where huggingface_hub keeps its token; asked for here, because importing that library takes a second."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return Path(os.path.expandvars(os.environ.get("HF_TOKEN_PATH") or f"{home}/token")).expanduser()


def _limit(root: Path) -> Path:
    """How far links may lead: in Hugging Face's cache, files of `snapshots/REVISION` are links into `blobs`."""
    root = root.resolve()
    return root.parent.parent if root.parent.name == "snapshots" else root


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
