"""The program inside the sandbox, run here without an isolation: its messages, its limits and its end."""

import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mas.tools.sandbox import worker

SETTINGS = {
    "max_chars": 40,
    "packages": ["/packages/of/the/user"],
    "cpu_seconds": 1_000,
    "file_bytes": 1_000_000,
    "open_files": 40,
    "memory_bytes": 1 << 30,
}


class Running:
    """The program, and a reader of its replies."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", worker.__file__, json.dumps(SETTINGS)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        (length,) = struct.unpack(">I", self.process.stdout.read(4))
        found: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return found

    def ask(self, code: str, name: str = "a") -> dict[str, Any]:
        assert self.process.stdin is not None
        body = json.dumps({"id": name, "code": code}).encode()
        self.process.stdin.write(struct.pack(">I", len(body)) + body)
        self.process.stdin.flush()
        return self.read()

    def value(self, code: str) -> str:
        reply = self.ask(code)
        assert not reply["error"], reply["error"]
        return str(reply["value"])


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    assert made.read() == {"ready": True}
    yield made
    made.process.kill()
    made.process.wait()
    for each in (made.process.stdin, made.process.stdout, made.process.stderr):
        assert each is not None
        each.close()


def test_cells_are_answered_by_their_ids_until_the_harness_closes_its_end(running: Running) -> None:
    assert running.ask("x = 20", "first") == {
        "id": "first", "output": "", "output_cut": 0, "value": "", "value_cut": 0, "error": "", "error_cut": 0,
    }  # fmt: skip
    assert running.ask("print('hi'); x + 1", "second") == {
        "id": "second", "output": "hi\n", "output_cut": 0, "value": "21", "value_cut": 0, "error": "", "error_cut": 0,
    }  # fmt: skip
    assert running.ask("print('y' * 60)", "third")["output_cut"] == 21
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(10) == 0


def test_it_ends_while_threads_of_the_code_run(running: Running) -> None:
    running.ask("import threading, time\nthreading.Thread(target=time.sleep, args=[60]).start()")
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(10) == 0


def test_no_memory_for_a_reply_has_an_exit_code_of_its_own(running: Running) -> None:
    with pytest.raises(struct.error):  # there is no reply
        running.ask("import json\ndef fail(*_): raise MemoryError\njson.dumps = fail")
    assert running.process.wait(10) == worker.OUT_OF_MEMORY == 70


def test_the_code_finds_nothing_of_the_program_around_it(running: Running) -> None:
    nothing = "import os\nnull = os.stat('/dev/null').st_rdev\n[os.fstat(each).st_rdev == null for each in range(3)]"
    assert running.value(nothing) == "[True, True, True]"
    running.ask("import sys")
    assert running.value("sys.argv") == "['']"
    assert running.value("len(sys.path[-1]), sys.path[-1][:9]") == "(21, '/packages')"
    folder = str(Path(worker.__file__).parent)
    assert running.value(f"{folder!r} in sys.path") == "False"
    handler = "import signal\nsignal.getsignal(2) is signal.default_int_handler"
    assert running.value(handler) == "True"


def test_the_limits_are_hard_ones(running: Running) -> None:
    running.ask("import resource as r")
    expected = {
        "CORE": 0, "CPU": 1_000, "FSIZE": 1_000_000, "NOFILE": 40, "AS": 1 << 30,
    }  # fmt: skip
    found = {name: running.value(f"r.getrlimit(r.RLIMIT_{name})") for name in expected}
    assert found == {name: str((allowed, allowed)) for name, allowed in expected.items()}


def test_a_limit_that_cannot_be_set_keeps_no_other_from_being_set(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = dict[int, tuple[int, int]]()

    def set_limit(kind: int, limits: tuple[int, int]) -> None:
        tried[kind] = limits
        if kind in (resource.RLIMIT_CORE, resource.RLIMIT_CPU):
            raise ValueError("there is a lower one") if kind == resource.RLIMIT_CPU else OSError("not here")

    monkeypatch.setattr(resource, "setrlimit", set_limit)
    worker._limit(SETTINGS)  # type: ignore[arg-type]
    assert tried == {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (1_000, 1_000),
        resource.RLIMIT_FSIZE: (1_000_000, 1_000_000),
        resource.RLIMIT_NOFILE: (40, 40),
        resource.RLIMIT_AS: (1 << 30, 1 << 30),
    }


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for each in ends:
        try:
            os.close(each)
        except OSError:
            continue


def test_a_message_is_its_length_and_its_json(pipe: tuple[int, int]) -> None:
    read, write = pipe
    worker._send(write, {"id": "é", "value": 1})
    assert os.read(read, 100) == b"\x00\x00\x00\x1c" + rb'{"id": "\u00e9", "value": 1}'
    worker._send(write, {"a": "b"})
    worker._send(write, {})
    assert [worker._receive(read), worker._receive(read)] == [{"a": "b"}, {}]


@pytest.mark.parametrize("sent", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x03{}"])
def test_a_request_that_breaks_off_is_none(sent: bytes, pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.write(write, sent)
    os.close(write)
    assert worker._receive(read) is None


def test_a_request_is_read_up_to_the_largest_length(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = pipe
    monkeypatch.setattr(worker, "MAX_REQUEST_BYTES", 4)
    os.write(write, b"\x00\x00\x00\x09[   ]")
    with pytest.raises(ValueError, match="Expecting"):
        worker._receive(read)
    assert os.read(read, 10) == b"]"


def test_a_message_that_the_pipe_takes_in_parts_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    written = bytearray()

    def write_some(pipe: int, data: memoryview) -> int:
        assert pipe == 9
        written.extend(data[:5])
        return len(data[:5])

    monkeypatch.setattr(worker.os, "write", write_some)
    worker._send(9, {"value": "x" * 20})
    assert bytes(written) == struct.pack(">I", 33) + b'{"value": "' + b"x" * 20 + b'"}'
