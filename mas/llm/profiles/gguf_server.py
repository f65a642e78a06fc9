"""llama.cpp's server for a model file, started for a run and ended with it: `python -m mas.llm.profiles.gguf_server`.

The server is a child process that ends when its standard input does, so none stays behind, however its parent dies.

    start_server(Path("model.gguf"), slots=2, context_tokens=16384)      # "http://127.0.0.1:40123/v1"
"""

import atexit
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.terminal import print_line

LAST_LINES = 3  # of the server's log, in the message when it does not start


@functools.cache
def start_server(path: Path, slots: int, context_tokens: int) -> str:
    """Return the address of a server of the model, which is started if none runs yet.

    Args:
        path: the GGUF file.
        slots: requests that are answered at once.
        context_tokens: context of each slot.

    Raises:
        UserError: the server did not start; the message has the end of its log.
    """
    command = [sys.executable, "-m", __spec__.name, str(path), str(slots), str(context_tokens)]
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
            said = " | ".join(log.read().strip().splitlines()[-LAST_LINES:])
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


if __name__ == "__main__":
    main()
