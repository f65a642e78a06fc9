"""A question as a POST, an answer as its response.

    → {"question": "How many?", "file": {"name": "sales.csv", "content_base64": "bmFt…"}, "thread_id": "7f3c…"}
    ← {"answer": "418", "reasoning_trace": "the sum of column B"}

`file` is null for a question without one. Nothing is asked twice: whether an agent may be is its owner's to know.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import httpx

from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.text import replace_surrogates
from mas.systems.external.program import ForeignProgram

OK = 200
PASSING = (408, 425, 429)  # too slow, too early, too many: the agent may well answer later
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_IDLE_CONNECTIONS = 20
MAX_BODY_CHARS = 200  # of an error's body in its message


async def open_client(authorization: str) -> httpx.AsyncClient:
    """As many connections as questions run at once; the time limit is each question's own.

    Few of them are kept while idle: httpx goes through all of those for each request, more than once.
    """
    return httpx.AsyncClient(
        headers={"Authorization": authorization} if authorization else {},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS),
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_SECONDS),
    )


class HttpProgram(ForeignProgram):
    """One agent behind one address."""

    def __init__(self, name: str, url: str, timeout_seconds: float, client: httpx.AsyncClient) -> None:
        super().__init__(name)
        self.url = url
        self.timeout_seconds = timeout_seconds
        self.client = _Shared(client)

    async def ask(self, question: str, file: Path | None, thread_id: str) -> Any:
        """
        Raises:
            AgentUnavailableError: it cannot be reached, takes too long, or fails (5xx).
            AgentReplyError: it refuses the question (4xx), or answers with something else than JSON.
        """
        body = {"question": replace_surrogates(question), "file": await _attachment(file), "thread_id": thread_id}
        try:
            async with asyncio.timeout(self.timeout_seconds):
                response = await self.client.client.post(self.url, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise AgentUnavailableError(
                f"the agent at {self.url} gave no answer within {self.timeout_seconds:g} s (system.timeout_seconds)"
            ) from error
        except httpx.TransportError as error:
            cause = str(error) or type(error).__name__
            raise AgentUnavailableError(f"the agent at {self.url} cannot be reached ({cause})") from error
        except httpx.RequestError as error:
            raise AgentReplyError(f"the agent's response cannot be read ({type(error).__name__}: {error})") from error
        return self._content(response)

    def _content(self, response: httpx.Response) -> Any:
        if response.status_code != OK:
            fault = AgentUnavailableError if _passing(response.status_code) else AgentReplyError
            raise fault(
                f"the agent at {self.url} answered with HTTP {response.status_code}, expected {OK}: {_begin(response)}"
            )
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise AgentReplyError(
                f"the agent at {self.url} answered with something else than JSON: {_begin(response)}"
            ) from error
        if not isinstance(content, dict):
            raise AgentReplyError(
                f"the agent at {self.url} answered with a JSON {type(content).__name__}; expected an object with the "
                "key 'answer'"
            )
        return content


class _Shared:
    """Copies of a program, as tuning makes them, share the connections."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Shared":
        return self


async def _attachment(file: Path | None) -> dict[str, str] | None:
    if file is None:
        return None
    content = await asyncio.to_thread(file.read_bytes)
    return {"name": replace_surrogates(file.name), "content_base64": base64.b64encode(content).decode("ascii")}


def _passing(status: int) -> bool:
    return status >= 500 or status in PASSING


def _begin(response: httpx.Response) -> str:
    text = " ".join(response.text.split())
    return (text if len(text) <= MAX_BODY_CHARS else f"{text[:MAX_BODY_CHARS]}…") or "(no text)"
