"""Services of the API-docs agent that last as long as a run: the catalogue, the kept tokens and an HTTP client.

with open_api(settings) as api:
    ApiDocsAgent(steps, api.catalogue, settings, api.tokens, api.client)
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.api.catalogue import Catalogue, load_catalogue
from mas.systems.bos.api.local_api import run_api
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.api.tokens import FirebaseTokens

MAX_IDLE_CONNECTIONS = 20


@dataclass(frozen=True)
class ApiServices:
    """Open as long as a run; requests share them."""

    catalogue: Catalogue
    tokens: FirebaseTokens
    client: httpx.AsyncClient
    settings: ApiSettings  # with the address of an API that was started


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
            address = opened.enter_context(run_api(settings.command))
            settings = replace(settings, base_url=address, base_url_env="")  # the environment may name another API
        client = run_blocking(_open_client())
        opened.callback(lambda: run_blocking(client.aclose()))
        yield ApiServices(catalogue, FirebaseTokens.from_settings(settings), client, settings)


async def _open_client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS)
    return httpx.AsyncClient(limits=limits)
