"""Program around an agent behind an address: a question is a POST, its response the answer.

    → {"question": "How many?", "file": {"name": "sales.csv", "content_base64": "bmFt…"}, "thread_id": "7f3c…"}
    ← {"answer": "418", "reasoning_trace": "the sum of column B"}

`file` is null for a question without one. No request is repeated: only the agent's owner knows if that is harmless.
"""

import asyncio
import base64
import json
from pathlib import Path

import httpx

from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.text import replace_surrogates
from mas.systems.external.program import ForeignProgram, Shared

OK = 200
TEMPORARY = (408, 425, 429)  # too slow, too early, too many: the agent may answer later
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_IDLE_CONNECTIONS = 20
MAX_BODY_CHARS = 200  # of an error's body in its message


async def open_client(authorization: str) -> httpx.AsyncClient:
    """Open a client with as many connections as questions run at once, and no time limit: each question has its own.

    Few idle connections are kept: httpx goes through all of them for each request, more than once.
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
        self.client = Shared(client)

    async def ask(self, question: str, file: Path | None, thread_id: str) -> dict[str, object]:
        """Return the JSON object that the agent answers with.

        Raises:
            AgentUnavailableError: it cannot be reached, takes too long, or fails (5xx).
            AgentReplyError: it refuses the question (4xx), or answers with something else than JSON.
        """
        body = {"question": replace_surrogates(question), "file": await _read_attachment(file), "thread_id": thread_id}
        try:
            async with asyncio.timeout(self.timeout_seconds):
                response = await self.client.value.post(self.url, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise AgentUnavailableError(
                f"the agent at {self.url} gave no answer within {self.timeout_seconds:g} s (system.timeout_seconds)"
            ) from error
        except httpx.TransportError as error:
            cause = str(error) or type(error).__name__
            raise AgentUnavailableError(f"the agent at {self.url} cannot be reached ({cause})") from error
        except httpx.RequestError as error:
            raise AgentReplyError(f"the agent's response cannot be read ({type(error).__name__}: {error})") from error
        return self._read_response(response)

    def _read_response(self, response: httpx.Response) -> dict[str, object]:
        if response.status_code != OK:
            fault = AgentUnavailableError if _is_temporary(response.status_code) else AgentReplyError
            raise fault(
                f"the agent at {self.url} answered with HTTP {response.status_code}, expected {OK}: {_quote(response)}"
            )
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise AgentReplyError(
                f"the agent at {self.url} answered with something else than JSON: {_quote(response)}"
            ) from error
        if not isinstance(content, dict):
            raise AgentReplyError(
                f"the agent at {self.url} answered with a JSON {type(content).__name__}; expected an object with the "
                "key 'answer'"
            )
        return content


async def _read_attachment(file: Path | None) -> dict[str, str] | None:
    if file is None:
        return None
    content = await asyncio.to_thread(file.read_bytes)
    return {"name": replace_surrogates(file.name), "content_base64": base64.b64encode(content).decode("ascii")}


def _is_temporary(status: int) -> bool:
    return status >= 500 or status in TEMPORARY


def _quote(response: httpx.Response) -> str:
    text = " ".join(response.text.split())
    return (text if len(text) <= MAX_BODY_CHARS else f"{text[:MAX_BODY_CHARS]}…") or "(no text)"
