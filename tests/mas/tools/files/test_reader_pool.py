"""The other process: what it has not got, and what happens when it dies or never answers."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread, Timer

import pytest

from mas.runtime.event_loop import background_loop
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.attachments import use_attachments
from mas.tools.files import reader_pool as apart
from mas.tools.files.document import Document
from mas.tools.files.kinds import READ
from mas.tools.files.reader_pool import MAX_CPU_SECONDS, await_reader, call_reader
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from tests.mas.tools.files.every_kind import EVERY_KIND
from tests.patience import wait_for

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for it")
SOUND = EVERY_KIND[".wav"][0]


def read() -> Document:
    about = {"name": "ships.wav"}
    return Document.from_facts(call_reader(READ, SOUND, about))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    apart.stop_workers()
    wait_for_end_of_processes()
    yield
    apart.stop_workers()


def processes() -> list[int]:
    """Return the processes of this one that read files."""
    children = (int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split())
    return [pid for pid in children if b"reader_pool" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_for_end_of_processes() -> None:
    wait_for(lambda: not processes())


def close(question: SampleContext) -> None:
    """End the question, on the loop on which its files are read."""
    background_loop().call_soon_threadsafe(question.close)


@ON_LINUX
def test_one_process_that_knows_no_credential_serves_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert read() == read()
    (process,) = processes()
    environment = Path(f"/proc/{process}/environ").read_bytes()
    assert b"PATH=" in environment and b"secret" not in environment


@ON_LINUX
def test_one_that_died_is_named_as_a_failure_and_replaced() -> None:
    read()
    (process,) = processes()
    os.kill(process, signal.SIGKILL)
    with pytest.raises(ToolError, match=r"ships\.wav took more time or memory"):
        read()
    assert read().summary.startswith("sound")


def test_a_file_that_waited_for_others_is_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sleeping.py").write_text("import time\ndef sleep(data, arguments): time.sleep(60)\n")
    monkeypatch.syspath_prepend(tmp_path)
    ended = [SampleContext(key=SampleKey("s", 1, 1)) for _ in range(apart.WORKERS)]

    def occupy(context: SampleContext) -> None:
        with use_context(context), pytest.raises(ToolError):
            call_reader("sleeping:sleep", b"", {"name": "other.pdf"})

    others = [Thread(target=occupy, args=[context]) for context in ended]
    for other in others:
        other.start()
    wait_for(lambda: len(processes()) >= apart.WORKERS)
    monkeypatch.setattr(apart, "MAX_SECONDS", 0.2)
    with pytest.raises(ToolError, match=r"ships\.wav is not read: other files took all the time"):
        read()
    for context, other in zip(ended, others, strict=True):
        close(context)
        other.join()


@ON_LINUX
def test_a_call_that_is_cancelled_while_it_waits_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waiting.py").write_text(
        "import pathlib, time\n"
        "def note(data, arguments): pathlib.Path(arguments['name']).touch(); time.sleep(arguments['seconds'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def start(name: str, seconds: float) -> asyncio.Task[object]:
        about = {"name": str(tmp_path / name), "seconds": seconds}
        return asyncio.create_task(await_reader("waiting:note", b"", about))

    def wait_until_busy() -> None:
        wait_for(lambda: len(list(tmp_path.glob("[0-9]*"))) >= apart.WORKERS)

    async def cancel_one() -> None:
        others = [start(str(number), 60) for number in range(apart.WORKERS)]
        await asyncio.to_thread(wait_until_busy)
        waits = start("waits", 0)
        await asyncio.sleep(0.1)
        for task in (waits, *others):
            task.cancel()
        await asyncio.gather(waits, *others, return_exceptions=True)

    asyncio.run(cancel_one())  # and wait for its threads
    wait_for_end_of_processes()
    assert not (tmp_path / "waits").exists()


def test_a_reader_connects_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "connecting.py").write_text(
        "import socket\ndef connect(data, arguments): socket.create_connection(('127.0.0.1', 9))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ToolError, match="PermissionError"):
        call_reader("connecting:connect", b"", {"name": "a.txt"})


@pytest.mark.slow
@ON_LINUX
@pytest.mark.parametrize("ended_by", ["deadline", "end"])
def test_the_deadline_or_the_end_of_the_question_ends_a_call(tmp_path: Path, ended_by: str) -> None:
    (tmp_path / "a.html").write_bytes(b"<p " + b" ".join(b"a%x" % number for number in range(400_000)) + b">x")
    started = time.monotonic()
    question = SampleContext(SampleKey("q"), deadline=started + 1.5 if ended_by == "deadline" else math.inf)
    if ended_by == "end":
        Timer(1.0, close, [question]).start()
    with (
        use_context(question),
        use_attachments([tmp_path / "a.html"]),
        pytest.raises(ToolError, match=r"a\.html took more time or memory"),
    ):
        read_file("a.html")
    assert time.monotonic() - started < MAX_CPU_SECONDS / 2, "ended by the question, not by the limit of every call"
    wait_for_end_of_processes()


BUSY = """
import threading
from mas.tools.files.reader_pool import _processes, call_reader
about = {"name": "a.csv"}
reading = threading.Thread(target=call_reader, args=("mas.tools.files.kinds:read_source", b"1,2\\n" * 8_000_000, about))
reading.start()
while not _processes: pass
print(next(iter(_processes)).pid, flush=True)
"""


@pytest.mark.slow
@ON_LINUX
def test_a_process_that_is_busy_ends_with_a_run_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as run:
        assert run.stdout
        stat = Path(f"/proc/{int(run.stdout.readline())}/stat")
        wait_for(lambda: int(stat.read_text().split()[13]) >= 60)  # ticks of its own work: it has what it reads
        run.kill()
    wait_for(lambda: not stat.exists() or stat.read_text().split()[2] == "Z")
