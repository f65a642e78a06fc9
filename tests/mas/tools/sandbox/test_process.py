"""Messages, limits and end of a sandbox's process, whatever isolates it."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mas.tools.sandbox.process import (
    Launch,
    ProcessSession,
)
from mas.tools.sandbox.session import (
    Reply,
    SessionLostError,
)

PROGRAM = """
import json, os, struct, sys, time
EMPTY = {"output": "", "output_cut": 0, "value": "", "value_cut": 0, "error": "", "error_cut": 0}
def send_bytes(body):
    sys.stdout.buffer.write(struct.pack(">I", len(body)) + body)
    sys.stdout.buffer.flush()
def send(message, length=0):
    send_bytes(json.dumps(message).encode().ljust(length))
def receive():
    length, = struct.unpack(">I", sys.stdin.buffer.read(4))
    return json.loads(sys.stdin.buffer.read(length))
def reply(request, length=0, **changes):
    send({**EMPTY, "id": request["id"], **changes}, length)
"""
READY = "send({})\n"
ECHO = READY + "while True:\n    request = receive()\n    reply(request, value=request['code'])\n"
MOST_BYTES = 1_000


def launch(code: str, **changes: Any) -> Launch:
    command = [sys.executable, "-I", "-S", "-c", PROGRAM + code]
    return Launch(**{"command": command, "env": {}, "max_message_bytes": MOST_BYTES, "max_resident_bytes": 1 << 30,
                     **changes})  # fmt: skip


def use(launched: Launch, work: Callable[[ProcessSession], Awaitable[object]]) -> Any:
    """Start the process, wait until it is ready, do the work with it, and end it."""

    async def main() -> object:
        session = ProcessSession(launched)
        try:
            await session.wait_until_ready()
            return await work(session)
        finally:
            session.close()

    return asyncio.run(main())


def run(code: str, seconds: float = 20.0, sent: str = "cell", **changes: Any) -> Reply:
    found: Reply = use(launch(code, **changes), lambda session: session.run(sent, seconds))
    return found


def test_a_session_that_is_closed_reads_no_file_that_has_the_number_of_its_pipe(tmp_path: Path) -> None:
    secret = tmp_path / "of somebody else"
    secret.write_text("not for the sandbox")

    async def work(session: ProcessSession) -> int:
        pipe = session._replies
        session.close()
        with secret.open("rb", buffering=0) as file:
            os.dup2(file.fileno(), pipe)
            try:
                with pytest.raises(SessionLostError, match="the question is over"):
                    await session.run("cell", 20)
                return os.lseek(pipe, 0, os.SEEK_CUR)
            finally:
                os.close(pipe)

    assert use(launch(ECHO), work) == 0
