"""Messages, limits and end of a sandbox's process, whatever isolates it."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mas.runtime.loop_clock import SteadyLoop, WatchTimes
from mas.tools.sandbox import process
from mas.tools.sandbox.process import (
    MAX_FILES,
    MAX_STDERR_CHARS,
    MAX_THREADS,
    Launch,
    ProcessSession,
    Usage,
    die_with_parent,
    read_usage,
)
from mas.tools.sandbox.session import (
    DISTURBED,
    NotAvailableError,
    Reply,
    SessionLostError,
    SessionTimeoutError,
)

READY_LATER = "import sys, time; time.sleep(1.5); sys.stdout.buffer.write(bytes([0, 0, 0, 2]) + b'{}')"


def test_a_pause_of_the_run_does_not_end_the_code() -> None:
    async def work() -> None:
        launch = Launch([sys.executable, "-c", READY_LATER], {}, 1_000, 1 << 30, start_seconds=1.2)
        session = ProcessSession(launch)
        starting = asyncio.create_task(session.wait_until_ready())
        await asyncio.sleep(0.1)
        time.sleep(1.3)  # noqa: ASYNC251  as a stopped process
        await starting
        session.close()

    times = WatchTimes(beat_seconds=0.1, pause_seconds=0.6, reported_seconds=5.0)
    with asyncio.Runner(loop_factory=lambda: SteadyLoop(lambda call: None, lambda seconds, call: None, times)) as run:
        run.run(work())


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


def lose(code: str, seconds: float = 20.0, **changes: Any) -> SessionLostError:
    with pytest.raises(SessionLostError) as caught:
        run(code, seconds, **changes)
    return caught.value


def refuse_start(code: str, **changes: Any) -> str:
    with pytest.raises(NotAvailableError) as caught:
        run(code, **changes)
    return str(caught.value)


def test_each_cell_is_answered_by_the_reply_to_it() -> None:
    async def work(session: ProcessSession) -> list[Reply]:
        return [await session.run(code, 20) for code in ("1", "zwölf", "")]

    assert use(launch(ECHO), work) == [Reply(value="1"), Reply(value="zwölf"), Reply(value="")]
    assert set(asdict(Reply())) == {"output", "output_cut", "value", "value_cut", "error", "error_cut"}


def test_a_cell_that_does_not_fit_into_the_pipe_is_sent_in_parts() -> None:
    code = READY + "time.sleep(0.05)\nrequest = receive()\nreply(request, value=str(len(request['code'])))"
    assert run(code, sent="x" * 300_000).value == "300000"


def test_a_reply_may_come_in_parts_and_be_as_long_as_the_limit() -> None:
    assert run(READY + f"reply(receive(), {MOST_BYTES}, value='v')") == Reply(value="v")
    parts = (
        READY + "request = receive()\nbody = json.dumps({**EMPTY, 'id': request['id']}).encode()\n"
        "for byte in struct.pack('>I', len(body)) + body:\n    os.write(1, bytes([byte]))\n"
    )
    assert run(parts) == Reply()


@pytest.mark.parametrize(
    "answer",
    [
        f"reply(receive(), {MOST_BYTES + 1})",
        "reply(receive(), id='other')",
        "receive(); send(EMPTY)",
        "receive(); send_bytes(b'{')",
        "receive(); send_bytes(b'[1]')",
        "receive(); send_bytes(b'\\xff')",
        "receive(); send_bytes(b'[' * 900)",
        "reply(receive(), value=1)",
        "reply(receive(), value_cut=-1)",
        "reply(receive(), value_cut=True)",
        "reply(receive(), output_cut='0')",
    ],
)
def test_what_is_no_reply_to_the_cell_ends_the_session(answer: str) -> None:
    error = lose(READY + answer + "\ntime.sleep(60)")
    assert (type(error), str(error)) == (SessionLostError, DISTURBED)


def test_a_reply_that_nobody_asked_for_ends_the_session_at_the_next_cell() -> None:
    async def work(session: ProcessSession) -> str:
        assert await session.run("first", 20) == Reply()
        time.sleep(0.05)  # noqa: ASYNC251  until it has come
        with pytest.raises(SessionLostError) as caught:
            await session.run("second", 20)
        return str(caught.value)

    twice = READY + "request = receive()\nreply(request)\nreply(request)\ntime.sleep(60)"
    assert use(launch(twice), work) == DISTURBED


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("sys.exit(3)", "the code has ended the Python process (exit code 3)"),
        ("os._exit(0)", "the code has ended the Python process (exit code 0)"),
        ("os._exit(1)", "the code has ended the Python process (exit code 1)"),
        ("os._exit(255)", "the code has ended the Python process (exit code 255)"),
        ("os._exit(137)", "the code has ended the Python process (signal SIGKILL)"),
        ("os.kill(os.getpid(), 15)", "the code has ended the Python process (signal SIGTERM)"),
        ("os._exit(70)", "the code used up its memory"),
    ],
)
def test_the_end_of_the_process_is_told_by_its_exit_code_or_signal(end: str, words: str) -> None:
    assert str(lose(f"{READY}receive()\n{end}")) == words


def test_a_process_that_closes_its_pipe_and_goes_on_is_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "EXIT_SECONDS", 0.05)
    assert str(lose(f"{READY}receive()\nos.close(1)\ntime.sleep(60)")) == DISTURBED


def test_a_process_that_does_not_start_is_told_with_its_last_words() -> None:
    ended = "the code has ended the Python process (exit code 4)"
    assert refuse_start("os._exit(4)") == f"{ended} (it said nothing)"
    assert refuse_start("os.write(2, b'  no room\\n'); os._exit(4)") == f"{ended} (no room)"
    long = refuse_start("os.write(2, b'a' + b'b' * 399 + b'c'); os._exit(4)")
    assert long == f"{ended} ({'b' * (MAX_STDERR_CHARS - 1)}c)"
    assert refuse_start("time.sleep(60)", start_seconds=0.06) == ("the start took longer than 0.06 s (it said nothing)")


def test_a_program_that_is_not_there_is_named_and_nothing_stays_open() -> None:
    ended, (read, write) = list[str](), os.pipe()
    with pytest.raises(NotAvailableError) as caught:
        ProcessSession(launch("", command=["/no/such/program"], pass_fds=(read,), on_end=[lambda: ended.append("x")]))
    assert str(caught.value) == "/no/such/program could not be started: No such file or directory."
    assert ended == ["x"]
    os.close(write)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


def test_a_cell_that_takes_too_long_ends_the_session() -> None:
    error = lose(READY + "time.sleep(60)", seconds=0.06)
    assert (type(error), str(error)) == (SessionTimeoutError, "the code ran longer than 0.06 s")


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (Usage(64 << 20, MAX_THREADS, MAX_FILES), None),
        (Usage((64 << 20) + 1), "the code used more than 64 MB of memory"),
        (Usage(threads=MAX_THREADS + 1), "the code started more than 256 threads"),
        (Usage(files=MAX_FILES + 1), "the code made more than 10000 files"),
    ],
)
def test_memory_threads_and_files_have_limits(used: Usage, words: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set[tuple[str, ...]]()

    def read(pid: int, folders: tuple[str, ...]) -> Usage:
        asked.add(folders)
        return used if folders else Usage()

    monkeypatch.setattr(process, "read_usage", read)
    limits = {"max_resident_bytes": 64 << 20, "folders": ("/scratch",)}
    if words is None:
        assert run(ECHO, **limits) == Reply(value="cell")
    else:
        assert str(lose(ECHO, **limits)) == words
    assert ("/scratch",) in asked, "the folders are its own once it is ready"


def test_what_a_process_uses_is_read_and_nothing_is_used_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    used, pid = read_usage(os.getpid()), os.getpid()
    assert used.threads == len(list(Path("/proc/self/task").iterdir()))
    assert used.files == 0 and used.resident_bytes % 1024 == 0
    assert 1 << 20 < used.resident_bytes <= 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + (64 << 20)
    systems = {f"/proc/{pid}/root/a": (10, 7), f"/proc/{pid}/root/b": (100, 60)}

    def statvfs(path: str) -> SimpleNamespace:
        if path not in systems:
            raise FileNotFoundError(path)
        return SimpleNamespace(f_files=systems[path][0], f_ffree=systems[path][1])

    monkeypatch.setattr(process.os, "statvfs", statvfs)
    assert read_usage(pid, ["/a", "/gone", "/b"]).files == 43
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert read_usage(ended.pid, ["/a"]) == Usage(0, 0, 0)


def test_a_command_that_dies_with_its_parent_is_still_that_command(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [*die_with_parent(), sys.executable, "-c", "import sys; print(sys.argv[1:])", "a", "b"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "['a', 'b']\n"
    assert (len(command) > 5) is (sys.platform == "linux")
    monkeypatch.setattr(process, "DIES_WITH_PARENT", False)
    assert die_with_parent() == []


def test_the_end_of_the_question_ends_a_cell_that_is_running() -> None:
    ended = threading.Event()

    async def work(session: ProcessSession) -> str:
        running = asyncio.create_task(session.run("cell", 20))
        await asyncio.sleep(0.05)
        session.close()
        session.close()
        with pytest.raises(SessionLostError) as caught:
            await running
        assert session._process.stdout is not None and session._process.stdout.closed
        return str(caught.value)

    assert use(launch(READY + "time.sleep(60)", on_end=[ended.set]), work) == "the question is over"
    assert ended.wait(10), "what it leaves behind is removed"


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


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("pauses", [True, False])
def test_the_process_is_stopped_between_calls_if_it_shall_be(pauses: bool) -> None:
    async def work(session: ProcessSession) -> list[bool]:
        found = []
        for _ in range(2):
            await asyncio.sleep(0.02)
            found.append(read_state(session._process.pid) == "T")
            await session.run("cell", 20)
        return found

    assert use(launch(ECHO, pauses=pauses), work) == [pauses, pauses]


@pytest.mark.parametrize("seconds", [None, 7])
def test_a_program_without_a_limit_of_its_own_gets_one(seconds: int | None) -> None:
    async def work(session: ProcessSession) -> tuple[int, int]:
        return resource.prlimit(session._process.pid, resource.RLIMIT_CPU)

    own = resource.getrlimit(resource.RLIMIT_CPU)
    assert use(launch(ECHO, cpu_seconds=seconds), work) == (own if seconds is None else (7, 7))


def test_the_codes_own_process_is_ended_and_its_parent_ends_after_it(tmp_path: Path) -> None:
    file, ended = tmp_path / "pid", threading.Event()
    parent = (
        "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"with open({str(file)!r}, 'w') as file:\n    file.write(str(child.pid))\n{READY}child.wait()"
    )

    async def work(session: ProcessSession) -> subprocess.Popen[bytes]:
        return session._process

    def read_pid() -> int | None:
        return int(file.read_text() or 0) or None if file.exists() else None

    launched = launch(parent, inner_pid=read_pid, on_end=[ended.set])
    found = use(launched, work)
    assert ended.wait(10)
    assert found.returncode == 0, "the parent has ended by itself"
    assert not Path(f"/proc/{file.read_text()}").exists()


class Child:
    """Process that is played in this one: its pipes, its exit code, and what is done to it."""

    def __init__(self, stubborn: bool = False) -> None:
        self.pid, self.stubborn = 4_000_111, stubborn
        self.returncode: int | None = None
        ends = [FileIO(number, mode) for _ in range(3) for number, mode in zip(os.pipe(), "rw", strict=True)]
        self.requests, self.stdin, self.stdout, self.replies, self.stderr, self.complaints = self.pipes = ends
        os.set_blocking(self.requests.fileno(), False)
        self.done: list[tuple[object, ...]] = []

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> None:
        self.done.append(("wait", timeout))
        if self.stubborn and timeout is not None:
            raise subprocess.TimeoutExpired("child", timeout)
        self.returncode = -9


class Stage:
    """Places of the harness that reach a process, played: the start, signals, limits, use and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, child: Child) -> None:
        self.child, self.started, self.asked, self.time = child, list[tuple[object, ...]](), list[object](), 0.0
        self.seconds_per_look = 0.0

        def start(command: list[str], **how: object) -> Child:
            self.started.append((command, how))
            return child

        def look(pid: int, folders: tuple[str, ...]) -> Usage:
            self.asked.append((pid, folders))
            self.time += self.seconds_per_look
            return Usage()

        played = SimpleNamespace(Popen=start, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)
        monkeypatch.setattr(process, "subprocess", played)
        monkeypatch.setattr(process, "read_usage", look)
        monkeypatch.setattr(process, "now", lambda: self.time)
        monkeypatch.setattr(process, "TICK_SECONDS", 0.0)
        for name in ("kill", "killpg"):
            monkeypatch.setattr(os, name, lambda *given, name=name: child.done.append((name, *given)))
        monkeypatch.setattr(resource, "prlimit", lambda *given: child.done.append(("prlimit", *given)))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    child = Child()
    yield Stage(monkeypatch, child)
    for pipe in child.pipes:
        pipe.close()


def played(**changes: Any) -> tuple[Launch, threading.Event]:
    """Return what is to be launched, and the event that it has been cleared away."""
    cleared = threading.Event()
    return Launch(["program", "a"], {"A": "b"}, MOST_BYTES, 1 << 30, on_end=[cleared.set], **changes), cleared


def test_a_process_is_started_apart_with_its_own_environment_and_pipes_that_do_not_block(stage: Stage) -> None:
    kept, given = os.pipe()
    launched, cleared = played(pass_fds=(given,), cwd="/srv", cpu_seconds=7)
    session = ProcessSession(launched)
    pipe = subprocess.PIPE
    assert stage.started == [
        (
            ["program", "a"],
            {"bufsize": 0, "stdin": pipe, "stdout": pipe, "stderr": pipe, "env": {"A": "b"}, "cwd": "/srv",
             "pass_fds": (given,), "start_new_session": True},
        )
    ]  # fmt: skip
    assert os.read(kept, 1) == b"", "nobody here holds the other end"
    os.close(kept)
    child = stage.child
    assert not any(os.get_blocking(each.fileno()) for each in (child.stdin, child.stdout, child.stderr))
    assert child.done == [("prlimit", child.pid, resource.RLIMIT_CPU, (7, 7))]
    session.close()
    assert cleared.wait(10) and child.stdin.closed and child.stdout.closed and child.stderr.closed


@pytest.mark.parametrize(("inner", "stubborn"), [(77, False), (77, True), (None, False)])
def test_a_call_lets_the_codes_process_go_on_and_the_end_kills_it_once(
    inner: int | None, stubborn: bool, stage: Stage
) -> None:
    launched, cleared = played(pauses=True, inner_pid=lambda: inner)
    child, child_done = stage.child, stage.child.done
    child.stubborn = stubborn
    session = ProcessSession(launched)
    child.replies.write(b"\0\0\0\2{}")
    asyncio.run(session.wait_until_ready())
    target = ("kill", 77) if inner else ("killpg", child.pid)
    assert child_done == [(*target, signal.SIGCONT), (*target, signal.SIGSTOP)]
    child_done.clear()
    session.close()
    session.close()
    assert cleared.wait(10)
    killed, all_killed = (*target, signal.SIGKILL), ("killpg", child.pid, signal.SIGKILL)
    assert (
        child_done
        == {
            (77, False): [killed, ("wait", 5.0)],
            (77, True): [killed, ("wait", 5.0), all_killed, ("wait", None)],
            (None, False): [killed, all_killed, ("wait", None)],
        }[inner, stubborn]
    )


def test_a_process_that_has_ended_is_sent_no_signal_for_a_call(stage: Stage) -> None:
    launched, cleared = played(pauses=True)
    session = ProcessSession(launched)
    stage.child.replies.write(b"\0\0\0\2{}")
    stage.child.returncode = 0
    asyncio.run(session.wait_until_ready())
    assert stage.child.done == []
    session.close()
    assert cleared.wait(10)
    assert stage.child.done == [("killpg", stage.child.pid, signal.SIGKILL)], "others of its group may be left"


def test_the_time_of_a_call_and_of_the_start_is_over_at_its_last_moment(stage: Stage) -> None:
    stage.seconds_per_look = 5.0
    launched, cleared = played(folders=("/scratch",), inner_pid=lambda: 77)
    session = ProcessSession(launched)
    stage.child.replies.write(b"\0\0\0\2{}")
    asyncio.run(session.wait_until_ready())
    with pytest.raises(SessionTimeoutError) as late:
        asyncio.run(session.run("cell", 10))
    assert str(late.value) == "the code ran longer than 10 s"
    assert stage.asked == [(77, ("/scratch",))] * 2 and stage.time == 10
    with pytest.raises(SessionLostError, match=r"^the question is over$"):
        asyncio.run(session.run("cell", 10))
    assert cleared.wait(10)


def test_a_start_has_twenty_seconds_and_no_folder_of_its_own_meanwhile(stage: Stage) -> None:
    stage.seconds_per_look = 5.0
    launched, cleared = played(folders=("/scratch",))
    stage.child.complaints.write(b" no room \n")
    with pytest.raises(NotAvailableError) as late:
        asyncio.run(ProcessSession(launched).wait_until_ready())
    assert str(late.value) == "the start took longer than 20 s (no room)"
    assert stage.asked == [(stage.child.pid, ())] * 4
    assert cleared.wait(10)


def test_a_cell_is_sent_as_one_message_whose_name_the_reply_has_to_repeat(stage: Stage) -> None:
    launched, cleared = played()
    session, child = ProcessSession(launched), stage.child

    async def call() -> tuple[bytes, Reply]:
        running = asyncio.create_task(session.run("é", 10))
        await asyncio.sleep(0)
        request = child.requests.read(10_000)
        assert request is not None, "it was sent before the first wait"
        body = json.dumps({**asdict(Reply(value="v")), "id": json.loads(request[4:])["id"]}).encode()
        child.replies.write(len(body).to_bytes(4, "big") + body)
        return request, await running

    request, reply = asyncio.run(call())
    assert reply == Reply(value="v") and int.from_bytes(request[:4], "big") == len(request) - 4
    sent = json.loads(request[4:])
    assert sent == {"id": sent["id"], "code": "é"} and len(bytes.fromhex(sent["id"])) == 8
    assert child.done == [], "without pauses it is sent no signals"
    session.close()
    assert cleared.wait(10)


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "exit code 1"), (127, "exit code 127"), (128, "exit code 128"), (129, "signal SIGHUP"), (-1, "signal SIGHUP"),
     (143, "signal SIGTERM"), (-15, "signal SIGTERM"), (255, "exit code 255"), (69, "exit code 69"), (70, None)],
)  # fmt: skip
def test_an_exit_code_is_told_in_words(code: int, words: str | None, stage: Stage) -> None:
    launched, cleared = played()
    session = ProcessSession(launched)
    stage.child.returncode = code
    stage.child.replies.close()
    with pytest.raises(SessionLostError) as lost:
        asyncio.run(session.run("cell", 10))
    told = f"the code has ended the Python process ({words})" if words else "the code used up its memory"
    assert str(lost.value) == told
    assert cleared.wait(10)


def test_what_is_to_be_cleared_away_is_cleared_in_the_reverse_order(stage: Stage) -> None:
    launched, cleared = played()
    order: list[str] = []
    launched.on_end += [lambda: order.append("first"), lambda: order.append("last")]
    ProcessSession(launched).close()
    assert cleared.wait(10)
    assert order == ["last", "first"] and launched.on_end == []
