"""The other process: what it has not got, and what happens when it dies or never answers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mas.tools.files import reader_pool as apart
from mas.tools.files.document import Document
from mas.tools.files.kinds import READ
from mas.tools.files.reader_pool import call_reader
from mas.tools.results import ToolError
from tests.mas.tools.files.every_kind import EVERY_KIND

SOUND = EVERY_KIND[".wav"][0]


def read() -> Document:
    about = {"name": "ships.wav", "member": None, "ocr_languages": "eng"}
    return Document.unpack(call_reader(READ, SOUND, about).packed)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    apart.stop_workers()
    yield
    apart.stop_workers()


def processes() -> list[subprocess.Popen[bytes]]:
    return [worker._process for worker in apart._idle]


def test_one_process_serves_many_files() -> None:
    assert read() == read()
    assert len(processes()) == 1


def test_it_knows_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    read()
    if sys.platform == "linux":
        (process,) = processes()
        with open(f"/proc/{process.pid}/environ", "rb") as file:  # noqa: PTH123
            environment = file.read()
        assert b"PATH=" in environment and b"secret" not in environment


def test_one_that_died_is_named_as_a_failure_and_replaced() -> None:
    read()
    (process,) = processes()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(ToolError, match=r"ships\.wav took more time or memory"):
        read()
    assert read().summary.startswith("sound")


def test_one_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "MAX_SECONDS", 0.01)  # less than a process needs to start
    with pytest.raises(ToolError, match="took more time or memory"):
        read()
    assert processes() == []


def test_it_is_replaced_after_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "READS", 1)
    read()
    assert processes() == []


def test_it_must_not_connect() -> None:
    program = (
        "import sys, socket\nfrom mas.tools.files import reader_process\n"
        "sys.addaudithook(reader_process._refuse_connections)\n"
        "socket.create_connection(('127.0.0.1', 9))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "PermissionError: a file's reader must not connect" in ended.stderr


def test_it_ends_with_its_input() -> None:
    read()
    (process,) = processes()
    assert process.stdin
    process.stdin.close()
    assert process.wait(timeout=30) == 0
