"""Services of the API-docs agent that last as long as a run: the catalogue, the kept tokens and an HTTP client.

with open_api(settings) as api:
    ApiDocsAgent(steps, api.catalogue, settings, api.tokens, api.client)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.api.catalogue import Catalogue, load_catalogue
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.api.tokens import FirebaseTokens

MAX_IDLE_CONNECTIONS = 20


@dataclass(frozen=True)
class ApiServices:
    """Open as long as a run; requests share them."""

    catalogue: Catalogue
    tokens: FirebaseTokens
    client: httpx.AsyncClient


@contextmanager
def open_api(settings: ApiSettings) -> Iterator[ApiServices]:
    """Read the documentation and open a client on the event loop that the questions run on.

    Raises:
        ApiFailureError: the documentation is missing or malformed.
    """
    catalogue = load_catalogue(Path(settings.documentation or ""))
    client = run_blocking(_open_client())
    try:
        yield ApiServices(catalogue, FirebaseTokens.from_settings(settings), client)
    finally:
        run_blocking(client.aclose())


async def _open_client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS)
    return httpx.AsyncClient(limits=limits)
