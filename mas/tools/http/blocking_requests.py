"""Packages that speak `requests` go out through our guarded client all the same.

Such a package is called in a thread; each of its requests is made on the event loop that the tool was called on, so
that it ends with the tool's own time and takes its place in the same pace.

    loop = asyncio.get_running_loop()
    await in_package(lambda: package_function(session(GuardedAdapter(loop, send))))
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import Any

import requests
from requests.adapters import BaseAdapter

from mas.runtime.safe_call import in_thread
from mas.tools.http.client import Reply
from mas.tools.results import ToolError

Send = Callable[[requests.PreparedRequest], Awaitable[Reply]]


class GuardedAdapter(BaseAdapter):
    """Hands a prepared request to `send` on the loop and waits for the reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Send) -> None:
        super().__init__()
        self._loop, self._send = loop, send

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        reply = run_on_loop(self._loop, lambda: self._send(request))
        response = requests.Response()
        response.status_code, response.url, response.request = reply.status, reply.url, request
        response.headers.update(reply.headers)
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        response.raw = BytesIO(reply.body)
        return response

    def close(self) -> None:
        """Nothing is kept open."""


def make_session(adapter: BaseAdapter) -> requests.Session:
    """One that goes through the adapter alone, and takes nothing from the environment."""
    made = requests.Session()
    made.trust_env = False
    made.adapters.clear()
    made.mount("https://", adapter)
    made.mount("http://", adapter)
    return made


def run_on_loop(loop: asyncio.AbstractEventLoop, ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """From a package's thread: what `ask` returns on the loop, in this thread's context."""

    async def awaited() -> Reply:
        return await ask()

    return asyncio.run_coroutine_threadsafe(awaited(), loop).result()


async def call_package(call: Callable[[], Any]) -> Any:
    """The call in a thread, whatever it raises contained."""
    return await in_thread(call, lambda how: ToolError(f"The request {how}; try again."))
