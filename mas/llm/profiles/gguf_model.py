"""A model in a GGUF file, served by llama.cpp for the run: `conf/model/gguf.yaml`.

No server has to be installed or started: the package xllamacpp brings llama.cpp (`pip install -e '.[local]'`).
"""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mas.llm.profiles.gguf_server import start_server
from mas.llm.profiles.local_servers import LlamaCppModel
from mas.llm.profiles.profile import Endpoint
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    from mas.llm.dspy_engine import Engine

GGUF = b"GGUF"  # the first bytes of such a file


@dataclass
class GgufModel(LlamaCppModel):
    """Profile whose fields are the keys of `conf/model/gguf.yaml`."""

    path: str | None = None  # the file, or:
    hf: str | None = None  # a file on the Hugging Face Hub, REPOSITORY:FILE, which is downloaded once
    slots: int = 2  # requests that are answered at once
    context_tokens: int | None = 16384  # of each slot

    def check(self) -> None:
        """Check the file and start the server, which loads the model.

        Raises:
            UserError: xllamacpp is missing, the file is missing or is no GGUF file, or the memory is too small for it.
        """
        self._check_ranges()
        if importlib.util.find_spec("xllamacpp") is None:
            raise UserError("model=gguf needs the package xllamacpp; install it with: pip install -e '.[local]'")
        self.base_url = self._start()
        super().check()

    def _check_ranges(self) -> None:
        super()._check_ranges()
        self._require("slots", self.slots >= 1, "at least 1")
        self._require("context_tokens", self.context_tokens is not None, "a number")

    def _create_engine(self, endpoint: Endpoint) -> "Engine":
        if self.base_url is None:  # in another process than the one that checked the profile
            self.base_url = self._start()
        return super()._create_engine(Endpoint(endpoint.base_url or self.base_url, endpoint.api_key_env))

    def _get_name(self, endpoint: Endpoint) -> str:
        """Return the file and its size instead of the address, whose port is another one in a resumed run."""
        if endpoint.base_url not in (None, self.base_url):
            return self._get_url(endpoint)
        path = Path(self.path).expanduser().resolve() if self.path else None
        return f"gguf:{path or self.hf}:{path.stat().st_size if path and path.is_file() else 0}"

    def _start(self) -> str:
        return start_server(self._find_file(), self.slots, self.context_tokens or 0)

    def _find_file(self) -> Path:
        if (self.path is None) == (self.hf is None):
            raise UserError("model=gguf needs a file: give model.path=FILE.gguf, or model.hf=REPOSITORY:FILE.")
        path = Path(self.path).expanduser() if self.path else _download(self.hf or "")
        try:
            with path.open("rb") as file:
                beginning = file.read(len(GGUF))
        except OSError as error:
            raise UserError(
                f"model.path={path} cannot be read ({error.strerror}); give the path of a GGUF file."
            ) from error
        if beginning != GGUF:
            raise UserError(f"{path} is no GGUF file (it does not begin with the letters GGUF); give another one.")
        size, total = path.stat().st_size, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size > total:
            sizes = f"{path} has {size / 1e9:.1f} GB, and this machine {total / 1e9:.1f} GB of memory"
            raise UserError(f"{sizes}; take a smaller model.")
        return path


def _download(name: str) -> Path:
    from huggingface_hub import hf_hub_download

    repository, _, file = name.partition(":")
    if not (repository and file):
        raise UserError(
            f"model.hf={name} names no file; expected REPOSITORY:FILE, such as owner/model-GGUF:model.gguf."
        )
    try:
        return Path(hf_hub_download(repository, file))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"model.hf={name} cannot be downloaded ({reason}); check the name, or give model.path."
        ) from error
