"""A model in a GGUF file, served by llama.cpp for the run: `conf/model/gguf.yaml`.

The package xllamacpp brings the server (`pip install -e '.[local]'`). It is a child process that ends when its standard
input does, so none stays behind, however its parent dies.
"""

import atexit
import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mas.llm.profiles.local_servers import LlamaCppModel
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import Server
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.terminal import print_line

if TYPE_CHECKING:
    import dspy


@dataclass
class GgufModel(LlamaCppModel):
    """Profile whose fields are the keys of `conf/model/gguf.yaml`."""

    usual_url = None  # it is the run's own server
    path: str | None = None  # the file, or:
    hf: str | None = None  # a file on the Hugging Face Hub, REPOSITORY:FILE, which is downloaded once
    slots: int = 2  # requests that are answered at once
    context_tokens: int | None = field(default=16384, kw_only=True)  # of each slot

    def check(self) -> None:
        """Check the file and start the server, which loads the model; UserError: it cannot."""
        self._check_ranges()
        if importlib.util.find_spec("xllamacpp") is None:
            raise UserError("model=gguf needs the package xllamacpp; install it with: pip install -e '.[local]'")
        self.base_url = self._start()
        super().check()

    def create_lm(self, agent: AgentModel) -> "dspy.BaseLM":
        if self.base_url is None:  # in another process than the one that checked the profile
            self.base_url = self._start()
        return super().create_lm(agent)

    def _name_server(self, server: Server) -> str:
        """Return the file in place of the address, whose port is another one in a resumed run."""
        if server.base_url != self.base_url:
            return super()._name_server(server)
        file = Path(self.path).expanduser().resolve() if self.path else None
        return f"gguf:{file}:{file.stat().st_size}:{file.stat().st_mtime_ns}" if file else f"gguf:{self.hf}"

    def _start(self) -> str:
        if (self.path is None) == (self.hf is None):
            raise UserError("model=gguf needs one file: give either model.path=FILE.gguf or model.hf=REPOSITORY:FILE.")
        path = Path(self.path).expanduser() if self.path else _download(self.hf or "")
        try:
            with path.open("rb") as file:
                is_gguf = file.read(4) == b"GGUF"
        except OSError as error:
            raise UserError(f"model.path={path} cannot be read ({error.strerror}); name a GGUF file.") from error
        if not is_gguf:
            raise UserError(f"{path} is no GGUF file (it does not begin with the letters GGUF); give another one.")
        return start_server(path, self.slots, self.context_tokens or 0)


def _download(name: str) -> Path:
    from huggingface_hub import hf_hub_download

    repository, _, file = name.partition(":")
    try:
        return Path(hf_hub_download(repository, file))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"model.hf={name} cannot be downloaded: {reason}; expected REPOSITORY:FILE, such as "
            "owner/model-GGUF:model.gguf, or give model.path."
        ) from error


@functools.cache
def start_server(path: Path, slots: int, context_tokens: int) -> str:
    """Return the address of the model's server, started if none runs yet; the context is a slot's."""
    command = [sys.executable, "-m", __name__, str(path), str(slots), str(context_tokens)]
    pipe, environment = subprocess.PIPE, build_child_environment("PYTHONPATH")
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=log, env=environment, start_new_session=True, text=True
        )
        assert server.stdout is not None
        address = next((line.split()[1] for line in server.stdout if line.startswith("listening ")), None)
        if address is None:
            server.communicate()
            log.seek(0)
            lines = log.read().strip().splitlines()
            said = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "nothing was said")
            raise UserError(f"llama.cpp's server did not start with {path} (exit code {server.returncode}): {said}")
    atexit.register(server.kill)
    return f"{address}/v1"


def main() -> None:
    """Serve the model of the arguments until the standard input ends."""
    import xllamacpp

    path, slots, context_tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    params = xllamacpp.CommonParams()
    params.model.path, params.hostnames, params.port = path, ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx = slots, context_tokens * slots
    params.use_jinja = params.endpoint_metrics = params.endpoint_props = True
    server = xllamacpp.Server(params)
    print_line(f"listening {server.listening_address}")
    sys.stdin.read()
    os._exit(0)  # an ordinary exit waits until the server has read its prompt


if __name__ == "__main__":
    main()
