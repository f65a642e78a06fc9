"""Services of the API-docs agent that last as long as a run: the catalogue, the kept tokens and an HTTP client.

with open_api(settings) as services:
    ApiDocsAgent(predictors, services)

`system.api.command` starts an API for the time of the run, such as that of a sample; it prints its address first.
"""

import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.text import is_web_address
from mas.systems.bos.api.catalogue import Catalogue, load_catalogue
from mas.systems.bos.api.tokens import FirebaseTokens, open_tokens
from mas.systems.bos.settings import LOOPBACK, ApiSettings

MAX_IDLE_CONNECTIONS = 20
START_SECONDS = 30.0  # of an API that is started
END_SECONDS = 5.0


@dataclass(frozen=True)
class ApiServices:
    """Open as long as a run; requests share them."""

    catalogue: Catalogue
    tokens: FirebaseTokens
    settings: ApiSettings  # with the address of an API that was started
    client: httpx.AsyncClient | None = None  # None: one for each question


@contextmanager
def open_api(settings: ApiSettings) -> Iterator[ApiServices]:
    """Read the documentation, start the API if there is a command, and open a client on the questions' event loop.

    Raises:
        AgentFailureError: the documentation is missing or malformed.
        UserError: the API does not start.
    """
    catalogue = load_catalogue(Path(settings.documentation or ""))
    with ExitStack() as opened:
        if settings.command:
            settings = replace(settings, base_url=opened.enter_context(run_api(settings.command)))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS)
        client = httpx.AsyncClient(limits=limits)
        opened.callback(lambda: run_blocking(client.aclose()))
        yield ApiServices(catalogue, open_tokens(), settings, client)


@contextmanager
def run_api(command: Sequence[str]) -> Iterator[str]:
    """Start an API, yield its address, and end it.

    Raises:
        UserError: the command does not start, or prints no address of this machine.
    """
    shown = " ".join(command)
    words = [sys.executable if command[0] == "python" else command[0], *command[1:]]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=build_child_environment()
        )
    except OSError as error:
        raise UserError(f"system.api.command={shown} cannot be started ({error}); correct it.") from error
    with process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            address = process.stdout.readline().strip() if ready else ""
            if not is_web_address(address) or urlsplit(address).hostname not in LOOPBACK:
                raise UserError(
                    f"system.api.command={shown} printed {address[:80]!r} within {START_SECONDS:g} s; expected an "
                    "address of this machine as its first line, such as http://127.0.0.1:8080."
                )
            yield address.rstrip("/")
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()
