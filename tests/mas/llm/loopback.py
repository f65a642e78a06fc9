"""A chat endpoint on loopback whose every answer a test writes: `async def handle(request, writer)`.

with serving(complete_with("hello")) as server:
    OpenAIChatModel("any", base_url=server.base_url).create_lm(AgentModel())("hi")     # ["hello"]
    server.requests[0].body["messages"]
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

START_SECONDS = 20.0


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]


Handler = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    disconnected: threading.Event = field(default_factory=threading.Event)  # a client went away before its answer's end


def completion(text: str, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "any",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish_reason,
            }
        ],
        "usage": {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34},
    }


async def answer(writer: asyncio.StreamWriter, content: dict[str, Any], status: str = "200 OK") -> None:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


def complete_with(text: str, finish_reason: str = "stop", **message: Any) -> Handler:
    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        await answer(writer, completion(text, finish_reason, **message))

    return handle


async def drip(request: Received, writer: asyncio.StreamWriter) -> None:
    """A byte now and then and never an end: no read time-out ever fires."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


@contextmanager
def serving(handle: Handler) -> Iterator[Server]:
    """Serve on a free port, in a thread with an event loop of its own, until the block ends."""
    server, ready = Server(), threading.Event()
    loop = asyncio.new_event_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader):
                server.requests.append(request)
                await handle(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            server.disconnected.set()
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def serve() -> None:
        listening = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1000)
        server.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)  # a connection accepted while the server closes would leak
            listening.close()

    def run() -> None:
        asyncio.set_event_loop(loop)
        main = loop.create_task(serve())
        stopped.append(lambda: loop.call_soon_threadsafe(main.cancel))
        try:
            loop.run_until_complete(asyncio.gather(main, return_exceptions=True))
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            loop.close()

    stopped: list[Callable[[], Any]] = []
    thread = threading.Thread(target=run, name="loopback")
    thread.start()
    assert ready.wait(START_SECONDS), "the server did not start"
    try:
        yield server
    finally:
        stopped[0]()
        thread.join(START_SECONDS)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """The next request of the connection; None: the client is done."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(first.split(" ")[1], headers, json.loads(body or b"{}"))
