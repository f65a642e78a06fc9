"""The other process: what it has not got, and what happens when it dies or never answers."""

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Timer

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.attachments import use_attachments
from mas.tools.files import reader_pool as apart
from mas.tools.files.document import Document
from mas.tools.files.kinds import READ
from mas.tools.files.reader_pool import build_jail, call_reader
from mas.tools.files.reader_process import MAX_CPU_SECONDS
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from tests.mas.tools.files.every_kind import EVERY_KIND
from tests.needs import needs

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for it")
SOUND = EVERY_KIND[".wav"][0]


def read() -> Document:
    about = {"name": "ships.wav", "member": None, "ocr_languages": "eng"}
    return Document.unpack(call_reader(READ, SOUND, about).packed)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    apart.stop_workers()
    yield
    apart.stop_workers()


def processes() -> list[int]:
    """Return the processes of this one that read files, or that shut one in."""
    children = (int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split())
    return [pid for pid in children if b"reader_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


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
    os.killpg(process, signal.SIGKILL)  # bwrap and what it has started
    with pytest.raises(ToolError, match=r"ships\.wav took more time or memory"):
        read()
    assert read().summary.startswith("sound")


JAILED = [*build_jail(), sys.executable, "-P", "-c"]
LOOK = """
import os, pathlib, socket, sys
def refused(do):
    try:
        return do() is None
    except OSError:
        return True
seen = {path: os.listdir(path) for path in sys.argv[1:] if os.path.isdir(path)}
assert not any(seen.values()), seen
assert refused(lambda: pathlib.Path("/usr/x").write_text("x")) and refused(lambda: pathlib.Path("/x").write_text("x"))
assert refused(lambda: socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 1).fileno())
assert len([name for name in os.listdir("/proc") if name.isdigit()]) <= 2
import mas.tools.files.kinds
pathlib.Path("/tmp/scratch").write_text("x")
print("looked")
"""


@needs("bubblewrap")
def test_in_its_jail_there_are_no_files_of_the_user_no_network_and_no_other_process() -> None:
    assert apart.is_isolated()
    hidden = [str(Path.home() / ".ssh"), "/etc/ssl", "/var/log", "/home", str(PROJECT_ROOT / "eval"), "/run"]
    assert any(Path(path).is_dir() and list(Path(path).iterdir()) for path in hidden)
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment["PORT"] = str(server.getsockname()[1])
        looked = subprocess.run(
            [*JAILED, LOOK, *hidden], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    assert looked.stdout == "looked\n", looked.stderr


def test_where_bubblewrap_does_not_work_files_are_read_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(apart, "_jail_refused", Event())
    (tmp_path / "connecting.py").write_text(
        "import socket\ndef connect(data, arguments): socket.create_connection(('127.0.0.1', 9))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert read().summary.startswith("sound")
    assert not apart.is_isolated()
    with pytest.raises(ToolError, match="PermissionError"):  # also without it nothing is connected to
        call_reader("connecting:connect", b"", {"name": "a.txt"})


@pytest.mark.slow
@ON_LINUX
@pytest.mark.parametrize("ended_by", ["deadline", "end"])
def test_the_deadline_or_the_end_of_the_question_ends_a_call(tmp_path: Path, ended_by: str) -> None:
    (tmp_path / "a.html").write_bytes(b"<p " + b" ".join(b"a%x" % number for number in range(400_000)) + b">x")
    started = time.monotonic()
    question = SampleContext(SampleKey("q"), deadline=started + 1.5 if ended_by == "deadline" else math.inf)
    if ended_by == "end":
        Timer(1.0, question.close).start()
    with (
        use_context(question),
        use_attachments([tmp_path / "a.html"]),
        pytest.raises(ToolError, match=r"a\.html took more time or memory"),
    ):
        read_file("a.html")
    assert time.monotonic() - started < MAX_CPU_SECONDS / 2, "ended by the question, not by the limit of every call"
    assert processes() == []


BUSY = """
from mas.tools.files import reader_pool
if %r:
    reader_pool.build_jail = lambda: []
worker = reader_pool._take_worker()
print(worker._process.pid, flush=True)
about = {"name": "a.csv", "member": None, "ocr_languages": "eng"}
worker.read("mas.tools.files.kinds:read_source", b"1,2\\n" * 8_000_000, about, 100)
"""


@pytest.mark.slow
@ON_LINUX
@pytest.mark.parametrize("without_jail", [False, True])
def test_a_process_that_is_busy_ends_with_a_run_that_is_killed(without_jail: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY % without_jail], stdout=subprocess.PIPE) as run:
        assert run.stdout
        stat = Path(f"/proc/{int(run.stdout.readline())}/stat")
        children = Path(f"/proc/{stat.parent.name}/task/{stat.parent.name}/children")
        while not without_jail and (inner := children.read_text().split()):  # bwrap's, and the reader as the last one
            stat = Path(f"/proc/{inner[0]}/stat")
            children = Path(f"/proc/{inner[0]}/task/{inner[0]}/children")
        while int(stat.read_text().split()[13]) < 60:  # ticks of its own work: it has what it reads
            time.sleep(0.05)
        run.kill()
    for _ in range(50):
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("it still runs")
