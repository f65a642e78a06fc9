"""An agent behind an address: the request that it gets, and what becomes of each response and failure."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.systems.external.http_program import HttpProgram, open_client

URL = "http://agent.test/answer"
Handler = Callable[[httpx.Request], httpx.Response]


def ask(handler: Handler, file: Path | None = None, question: str = "How many?", seconds: float = 5.0) -> object:
    async def run() -> object:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
            return await HttpProgram("http", URL, seconds, client).ask(question, file, "thread-1")

    return asyncio.run(run())


def failure(handler: Handler, error: type[Exception], seconds: float = 5.0) -> str:
    with pytest.raises(error) as caught:
        ask(handler, seconds=seconds)
    assert type(caught.value) is error
    return str(caught.value)


def responding(status: int, text: str) -> Handler:
    return lambda request: httpx.Response(status, text=text)


def test_a_question_is_one_post_with_its_file_and_thread(tmp_path: Path) -> None:
    requests: list[tuple[str, str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append((request.method, str(request.url), json.loads(request.content)))
        return httpx.Response(200, json={"answer": "5", "pages": [3]})

    file = tmp_path / "sales.csv"
    file.write_bytes(b"a\xff")
    assert ask(answer, file, "How\ud83d many?") == {"answer": "5", "pages": [3]}
    assert ask(answer) == {"answer": "5", "pages": [3]}
    attachment = {"name": "sales.csv", "content_base64": "Yf8="}
    assert requests == [
        ("POST", URL, {"question": "How? many?", "file": attachment, "thread_id": "thread-1"}),
        ("POST", URL, {"question": "How many?", "file": None, "thread_id": "thread-1"}),
    ]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((status, AgentReplyError) for status in (199, 201, 204, 301, 400, 404, 407, 409, 424, 426, 428, 430, 499)),
        *((status, AgentUnavailableError) for status in (408, 425, 429, 500, 501, 503, 599)),
    ],
)
def test_only_an_agent_that_may_answer_later_is_unavailable(status: int, error: type[Exception]) -> None:
    assert failure(responding(status, "not\n now"), error) == (
        f"the agent at {URL} answered with HTTP {status}, expected 200: not now"
    )


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("", "(no text)"), (" \n", "(no text)"), ("x" * 200, "x" * 200), ("x" * 201, f"{'x' * 200}…")],
    ids=["nothing", "blanks", "as long as may be", "longer"],
)
def test_a_response_is_quoted_up_to_its_two_hundredth_character(text: str, quoted: str) -> None:
    assert failure(responding(404, text), AgentReplyError) == (
        f"the agent at {URL} answered with HTTP 404, expected 200: {quoted}"
    )


def test_a_response_is_one_json_object() -> None:
    for text in ("<html>", "", "[" * 100_000):
        assert failure(responding(200, text), AgentReplyError).startswith(
            f"the agent at {URL} answered with something else than JSON: "
        )
    for text, kind in (("[1]", "list"), ("null", "NoneType"), ('"5"', "str")):
        assert failure(responding(200, text), AgentReplyError) == (
            f"the agent at {URL} answered with a JSON {kind}; expected an object with the key 'answer'"
        )


def test_an_agent_that_cannot_be_asked_is_unavailable_and_one_that_cannot_be_read_is_not() -> None:
    def raising(error: Exception) -> Handler:
        def handle(request: httpx.Request) -> httpx.Response:
            raise error

        return handle

    late = f"the agent at {URL} gave no answer within 2.5 s (system.timeout_seconds)"
    assert failure(raising(httpx.ConnectTimeout("slow")), AgentUnavailableError, 2.5) == late
    assert failure(raising(TimeoutError()), AgentUnavailableError, 2.5) == late
    unreachable = f"the agent at {URL} cannot be reached"
    assert failure(raising(httpx.ConnectError("refused")), AgentUnavailableError) == f"{unreachable} (refused)"
    assert failure(raising(httpx.ReadError("")), AgentUnavailableError) == f"{unreachable} (ReadError)"
    assert failure(raising(httpx.DecodingError("bad gzip")), AgentReplyError) == (
        "the agent's response cannot be read (DecodingError: bad gzip)"
    )


def test_an_agent_has_the_time_of_its_setting_and_no_more() -> None:
    async def run() -> None:
        async def never(request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError

        async with httpx.AsyncClient(transport=httpx.MockTransport(never), timeout=None) as client:
            await HttpProgram("http", URL, 0.01, client).ask("?", None, "t")

    with pytest.raises(AgentUnavailableError, match=r"gave no answer within 0\.01 s"):
        asyncio.run(run())


def test_a_client_waits_for_its_connection_alone_and_keeps_few_of_them() -> None:
    async def run() -> None:
        for authorization, expected in (("Bearer key", "Bearer key"), ("", None)):
            async with await open_client(authorization) as client:
                assert client.headers.get("Authorization") == expected
                assert client.timeout == httpx.Timeout(None, connect=10.0)
                pool = client._transport._pool  # type: ignore[attr-defined]
                assert (pool._max_connections, pool._max_keepalive_connections) == (sys.maxsize, 20)

    asyncio.run(run())


def test_a_copy_of_the_program_has_the_same_client() -> None:
    async def run() -> None:
        async with httpx.AsyncClient() as client:
            program = HttpProgram("http", URL, 5.0, client)
            copy = program.deepcopy()
            assert copy.client.value is client
            assert (copy.name, copy.url, copy.timeout_seconds) == ("http", URL, 5.0)

    asyncio.run(run())
