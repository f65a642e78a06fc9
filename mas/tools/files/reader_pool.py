"""Pool of processes that read foreign bytes; `mas.tools.files.reader_process` is their program.

answer = call_reader("mas.tools.files.kinds:read_source", Path("report.pdf"), {"name": "report.pdf", …})
answer = await await_reader("mas.tools.web.html_page:read_html", body, {"name": "The page", …})
"""

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from threading import BoundedSemaphore, Event, Lock, Timer

from mas.runtime.safe_call import run_in_thread
from mas.runtime.sample_context import current_context
from mas.runtime.security.bind_mounts import ROOT_LINKS, bind_links
from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.document import MAX_PACKED_BYTES, TOO_MUCH, Answer, Arguments, Facts, run_task
from mas.tools.results import ToolError

WORKERS = max(2, min(4, os.cpu_count() or 2))  # at most; one is started when it is needed and serves until the run ends
MAX_SECONDS = 150.0  # of one call, most of it for the libraries' import on a busy machine
START_SECONDS = 60.0
PIECE_BYTES = 1024 * 1024  # a large file is never in the run's memory as a whole
MAX_ERROR_CHARS = 5_000
MAX_HEAD_BYTES = 4 * 1024 * 1024  # of a reply

PROGRAMS = ("tesseract", "soffice")
SCRATCH_BYTES = 512 * 1024 * 1024  # of the jail's /tmp, in memory
SYSTEM = (
    *("/usr", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"),
    *("/etc/fonts", "/var/cache/fontconfig", "/etc/libreoffice", "/var/lib/libreoffice"),
)
PACKAGE = Path(__file__).resolve().parents[2]  # of the harness: mas/

_free_places = BoundedSemaphore(WORKERS)
_lock = Lock()
_jail_refused = Event()
_idle: list["_Worker"] = []
_parents: list["_Worker"] = []  # in a forked process: neither to be used nor stopped

_Reply = tuple[Facts, bytes]  # head and packed values


def build_jail() -> list[str]:
    """Return the words that shut a program in with bubblewrap; none where that is not installed.

    Inside there are Python, the harness's packages, the programs that read files and their libraries, all read-only,
    and a folder in memory. There is no network, no other process, and no file of the user's.
    """
    bwrap = shutil.which("bwrap") if sys.platform == "linux" else None
    if bwrap is None:
        return []
    return [
        *(bwrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "reader"),
        *("--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"),
        *_bind_system(),
        *(word for path in _list_folders() for word in ("--ro-bind-try", path, path)),
        *("--remount-ro", "/", "--chdir", "/tmp", "--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", "/tmp", "--"),
    ]


def _bind_system() -> Iterator[str]:
    for path in SYSTEM:
        yield from ("--ro-bind-try", path, path)
    yield from bind_links(ROOT_LINKS)


def _list_folders() -> list[str]:
    """Return the folders of Python, its packages and the programs, as far as they are outside /usr."""
    packages = [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    found = [Path(sys.prefix), Path(sys.base_prefix), *packages, PACKAGE, *_list_program_folders()]
    if data := os.environ.get("TESSDATA_PREFIX"):
        found.append(Path(data))
    return list(dict.fromkeys(str(path) for path in found if not path.is_relative_to("/usr") and path != Path("/")))


def _list_program_folders() -> Iterator[Path]:
    for name in PROGRAMS:
        if path := shutil.which(name):
            yield Path(path).parent
            real = Path(path).resolve()
            if not real.is_relative_to("/usr"):
                yield real.parent.parent  # such as /opt/libreoffice25.8, of its `program/soffice`


class _Worker:
    """One process. It begins with a first reply, which shows that it could be started as it was."""

    def __init__(self, jail: list[str]) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        one_thread = dict.fromkeys(("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = build_child_environment("TESSDATA_PREFIX", PYTHONPATH=paths, **one_thread)
        self._connection, theirs = Pipe()
        start = functools.partial(
            subprocess.Popen[bytes],
            [*jail, sys.executable, "-P", "-m", "mas.tools.files.reader_process"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the run, which then ends this too
        )
        with _lock:
            thread = _starting_thread()
        with theirs:
            self._process = thread.submit(start).result()
        self.is_jailed = bool(jail)
        self.is_last_reply = False
        with self._limit_time(START_SECONDS):
            self.is_ready = self._receive() is not None

    def read(self, task: str, data: bytes | Path, arguments: Arguments, seconds: float) -> "_Reply | None":
        """Return the process's reply; None if it ended, or had to be killed, without one."""
        with self._limit_time(seconds), io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
            try:
                self._connection.send_bytes(json.dumps({"task": task, "arguments": arguments}).encode("ascii"))
                while piece := file.read(PIECE_BYTES):
                    self._connection.send_bytes(piece)
                self._connection.send_bytes(b"")
            except OSError:
                return None
            return self._receive()

    def _receive(self) -> "_Reply | None":
        try:
            head = json.loads(self._connection.recv_bytes(MAX_HEAD_BYTES))
            self.is_last_reply = bool(head.get("is_last"))
            return head, self._connection.recv_bytes(MAX_PACKED_BYTES)
        except (OSError, EOFError, ValueError, AttributeError, RecursionError):
            return None

    @contextlib.contextmanager
    def _limit_time(self, seconds: float) -> Iterator[None]:
        timer = Timer(max(0.0, seconds), self.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def end(self) -> None:
        self.kill()
        self._connection.close()
        self._process.wait()

    def kill(self) -> None:
        """Kill the process and those that it has started, such as tesseract."""
        if hasattr(os, "killpg") and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()


class _Call:
    """One call, which another thread may cancel."""

    def __init__(self, task: str, data: bytes | Path, arguments: Arguments) -> None:
        self._task, self._data, self._arguments = task, data, arguments
        self._context = current_context()
        self._until = time.monotonic() + min(MAX_SECONDS, self._context.seconds_left if self._context else MAX_SECONDS)
        self._worker: _Worker | None = None
        self._is_cancelled = False

    def run(self) -> Answer:
        """Return the answer.

        Raises:
            ToolError: the bytes cannot be read, took too much time or memory, or no process was free in time.
        """
        name = self._arguments.get("name", "The input")
        if not _free_places.acquire(timeout=max(0.0, self._until - time.monotonic())):
            raise ToolError(f"{name} is not read: other files took all the time; try again later.")
        hooks = self._context.on_close if self._context else []
        hooks.append(self.cancel)  # a thread is not cancelled with the question that started it
        try:
            reply = self._ask(_take_worker())
        finally:
            _free_places.release()
            with contextlib.suppress(ValueError):  # it was called
                hooks.remove(self.cancel)
        if reply is None:
            raise ToolError(TOO_MUCH.format(name=name))
        head, packed = reply
        if "facts" not in head:
            raise ToolError(str(head.get("error"))[:MAX_ERROR_CHARS])
        return Answer(head["facts"], packed)

    def _ask(self, worker: _Worker) -> _Reply | None:
        reply = None
        self._worker = worker  # before the look at the mark, which `cancel` sets before it looks for a worker
        try:
            if not self._is_cancelled:
                reply = worker.read(self._task, self._data, self._arguments, self._until - time.monotonic())
        finally:
            self._worker = None
            _return_worker(worker, is_fit=reply is not None and not self._is_cancelled)
        return reply

    def cancel(self) -> None:
        """End the process that does the call; a call that has not begun does not begin."""
        self._is_cancelled = True
        if (worker := self._worker) is not None:
            worker.kill()


def call_reader(task: str, data: bytes | Path, arguments: Arguments, own_bytes: int = 0) -> Answer:
    """Return a task's answer on bytes or on a file, done in another process before the question's deadline.

    Args:
        task: `module:function`; see `mas.tools.files.document`.
        arguments: values for JSON; `name` is what messages call the bytes.
        own_bytes: fewer bytes than these are read in this process.

    Raises:
        ToolError: the bytes cannot be read, or the task took too much time or memory.
    """
    if isinstance(data, bytes) and len(data) < own_bytes:
        return run_task(task, data, arguments)
    return _Call(task, data, arguments).run()


async def await_reader(task: str, data: bytes, arguments: Arguments, own_bytes: int = 0) -> Answer:
    """Return what `call_reader` does; a cancellation, such as that of a deadline, ends the process.

    Raises:
        ToolError: as `call_reader`.
    """
    if len(data) < own_bytes:
        return run_task(task, data, arguments)
    call = _Call(task, data, arguments)
    try:
        answer: Answer = await run_in_thread(call.run, lambda how: ToolError(f"Reading {arguments.get('name')} {how}."))
    except BaseException:
        call.cancel()
        raise
    return answer


def is_isolated() -> bool:
    """Return True if the processes are shut in with bubblewrap, after starting one."""
    with _free_places:
        worker = _take_worker()
        _return_worker(worker, is_fit=True)
    return worker.is_jailed


def _take_worker() -> _Worker:
    with _lock:
        if _idle:
            return _idle.pop()
    worker = _Worker([] if _jail_refused.is_set() else build_jail())
    if worker.is_jailed and not worker.is_ready:  # user namespaces are forbidden here, such as in a container
        worker.end()
        _jail_refused.set()
        worker = _Worker([])
    if not worker.is_ready:
        worker.end()
        raise ToolError("No file can be read here: the process that reads files does not start; go on without it.")
    return worker


def _return_worker(worker: _Worker, is_fit: bool) -> None:
    if is_fit and not worker.is_last_reply:
        with _lock:
            _idle.append(worker)
    else:
        worker.end()


def stop_workers() -> None:
    """Stop the idle processes; done when this process ends, too."""
    with _lock:
        while _idle:
            _idle.pop().end()


@functools.cache
def _starting_thread() -> ThreadPoolExecutor:
    """Return the one thread that starts the processes: the kernel ends each of them with the thread that started it."""
    return ThreadPoolExecutor(1, "reader-start")


def _leave_to_parent() -> None:
    _parents.extend(_idle)
    _idle.clear()
    _starting_thread.cache_clear()


atexit.register(stop_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
