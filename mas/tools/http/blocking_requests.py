"""Adapter that sends the requests of packages built on `requests` through our guarded client.

Such a package is called in a thread; each of its requests is sent on the event loop of the tool, so that it ends with
the tool's own time limit and is throttled with the others.

    loop = asyncio.get_running_loop()
    await call_package(lambda: package.search(make_session(GuardedAdapter(loop, send))))
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import TypeVar

import requests
from requests.adapters import BaseAdapter

from mas.runtime.safe_call import run_in_thread
from mas.tools.http.client import Reply
from mas.tools.results import ToolError

Send = Callable[[requests.PreparedRequest], Awaitable[Reply]]
_Result = TypeVar("_Result")


class GuardedAdapter(BaseAdapter):
    """Transport adapter that sends a request with `send` on the loop and waits for the reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Send) -> None:
        super().__init__()
        self._loop, self._send = loop, send

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: object = None,
        verify: object = True,
        cert: object = None,
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
        """Do nothing: no connection is kept open."""


def make_session(adapter: BaseAdapter) -> requests.Session:
    """Return a session that uses the adapter alone and nothing of the environment."""
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def run_on_loop(loop: asyncio.AbstractEventLoop, send: Callable[[], Awaitable[Reply]]) -> Reply:
    """Run `send` on the loop, called from a package's thread and with its context, and return the reply."""

    async def run() -> Reply:
        return await send()

    return asyncio.run_coroutine_threadsafe(run(), loop).result()


async def call_package(call: Callable[[], _Result]) -> _Result:
    """Run a call in a thread; exceptions that would end the event loop become a `ToolError`."""
    result: _Result = await run_in_thread(call, lambda how: ToolError(f"The request {how}; try again."))
    return result
