"""The program that reads foreign bytes: its requests and replies byte by byte, its limits, and how it ends."""

import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mas.tools.files import reader_process
from mas.tools.files.tasks import TOO_MUCH

TASKS = """
import ctypes, os, resource, socket
from mas.tools.files.tasks import Answer
from mas.tools.results import ToolError
def tell(data, about):
    print("noise of a library", flush=True)
    used, signal = os.times(), ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(signal))  # PR_GET_PDEATHSIG
    names = ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_CPU")
    limits = [resource.getrlimit(getattr(resource, name))[0] for name in names]
    facts = {"data": data.decode(), "about": about, "limits": limits, "used": int(used.user + used.system)}
    return Answer({**facts, "nice": os.nice(0), "signal": signal.value}, data * 2)
def refuse(data, about):
    raise ToolError("no such sheet")
def fill(data, about):
    raise MemoryError
def stumble(data, about):
    raise KeyError("x")
def connect(data, about):
    socket.create_connection(("127.0.0.1", 9))
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "reader_tasks.py").write_text(TASKS)
    paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "mas.tools.files.reader_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths},
    ) as started:
        assert receive(started) == ({"ready": True, "bytes": 0}, b"")
        yield started
        assert started.stdin
        started.stdin.write(struct.pack(">I", 100) + b"{")  # and no more: the run has ended
        started.stdin.close()
        assert started.wait(30) == 0


def receive(process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], bytes]:
    assert process.stdout
    (length,) = struct.unpack(">I", process.stdout.read(4))
    head = json.loads(process.stdout.read(length))
    return head, process.stdout.read(head["bytes"])


def ask(process: subprocess.Popen[bytes], task: str, data: bytes, **arguments: object) -> tuple[dict[str, Any], bytes]:
    assert process.stdin
    head = json.dumps({"task": f"reader_tasks:{task}", "arguments": arguments, "bytes": len(data)}).encode()
    process.stdin.write(struct.pack(">I", len(head)) + head + data)
    process.stdin.flush()
    return receive(process)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel")
def test_a_request_is_answered_within_limits_and_output_of_a_library_does_not_mix_in(
    process: subprocess.Popen[bytes],
) -> None:
    head, packed = ask(process, "tell", b"ab", name="a.txt", page=1)
    facts = head.pop("facts")
    assert (head, packed) == ({"is_large": False, "bytes": 4}, b"abab")
    assert (facts["data"], facts["about"]) == ("ab", {"name": "a.txt", "page": 1})
    memory, written, core, seconds = facts["limits"]
    assert (memory, written, core) == (4 * 1024**3, 512 * 1024**2, 0)
    assert seconds - facts["used"] in (119, 120)
    assert facts["nice"] == min(19, os.nice(0) + 5) and facts["signal"] == 9


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("refuse", "no such sheet"),
        ("fill", TOO_MUCH.format(name="a.txt")),
        ("stumble", "a.txt cannot be read: it is damaged or unusual (KeyError)."),
        ("connect", "a.txt cannot be read: it is damaged or unusual (PermissionError)."),
        ("no_such_task", "a.txt cannot be read: it is damaged or unusual (AttributeError)."),
    ],
)
def test_a_failure_is_a_sentence_and_the_next_request_is_served(
    process: subprocess.Popen[bytes], task: str, said: str
) -> None:
    assert ask(process, task, b"", name="a.txt") == ({"error": said, "is_large": False, "bytes": 0}, b"")


def test_bytes_without_a_name_are_called_the_input(process: subprocess.Popen[bytes]) -> None:
    head, _ = ask(process, "stumble", b"")
    assert head["error"] == "The input cannot be read: it is damaged or unusual (KeyError)."


def test_a_reply_is_its_length_a_head_and_the_bytes_that_the_head_counts() -> None:
    written = io.BytesIO()
    reader_process._reply(written, {"a": "\N{EURO SIGN}"}, b"packed")
    head = b'{"a": "\\u20ac", "bytes": 6}'
    assert written.getvalue() == struct.pack(">I", len(head)) + head + b"packed"


def test_a_request_that_breaks_off_ends_the_process_without_an_error() -> None:
    assert reader_process._read_exactly(io.BytesIO(b"abc"), 2) == b"ab"
    assert reader_process._read_exactly(io.BytesIO(b"ab"), 2) == b"ab"
    with pytest.raises(SystemExit) as ended:
        reader_process._read_exactly(io.BytesIO(b"a"), 2)
    assert ended.value.code == 0


@pytest.mark.parametrize("event", ["socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"])
def test_every_way_to_reach_another_machine_is_refused(event: str) -> None:
    with pytest.raises(PermissionError, match="must not connect to anything"):
        reader_process._refuse_connections(event, ())
    reader_process._refuse_connections("open", ())


@pytest.mark.skipif(sys.platform != "linux", reason="compares with the kernel's own words")
def test_the_memory_that_is_measured_is_the_memory_in_use() -> None:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")]
    assert reader_process._measure_memory() == pytest.approx(int(line.split()[1]) * 1024, rel=0.2)


def test_a_limit_that_the_system_does_not_have_or_refuses_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    asked: list[tuple[int, tuple[int, int]]] = []

    def refuse(number: int, values: tuple[int, int]) -> None:
        asked.append((number, values))
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda number: (1, 2))
    reader_process._limit("RLIMIT_NO_SUCH", 7)
    reader_process._limit("RLIMIT_CORE", 7)
    assert asked == [(resource.RLIMIT_CORE, (7, 2))]
