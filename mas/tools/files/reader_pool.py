"""Pool of processes that read files; `mas.tools.files.reader_process` is their program.

read_in_subprocess(Source("report.pdf", data), None).summary      # "PDF, 12 pages"
"""

import atexit
import json
import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from threading import BoundedSemaphore, Lock, Timer
from typing import TypedDict, cast

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.document import Document, DocumentJson, Source
from mas.tools.files.settings import ENGLISH
from mas.tools.results import ToolError

WORKERS = 2  # at most; one is started when it is first needed and serves until the run ends
READS = 300  # of one worker before it is replaced: libraries leak memory
MAX_SECONDS = 150.0  # of one file, most of it for the libraries' import on a busy machine

_free_places = BoundedSemaphore(WORKERS)
_lock = Lock()
_idle: list["_Worker"] = []
_parents: list["_Worker"] = []  # in a forked process: neither to be used nor stopped


class ReaderReply(TypedDict, total=False):
    """Reply of a process: one of the two."""

    document: DocumentJson
    error: str


class _Worker:
    def __init__(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        one_thread = dict.fromkeys(("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mas.tools.files.reader_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=build_child_environment("TESSDATA_PREFIX", PYTHONPATH=paths, **one_thread),
            start_new_session=True,  # Ctrl-C is for the run, which then ends this too
        )
        self.reads = 0

    def read(self, source: Source, member: str | None, ocr_languages: str, seconds: float) -> "ReaderReply | None":
        """Return the process's reply; None if it ended, or had to be killed, without one."""
        self.reads += 1
        assert self._process.stdin and self._process.stdout
        about = {"name": source.name, "member": member, "ocr_languages": ocr_languages, "bytes": len(source.data)}
        head = json.dumps(about).encode("ascii")
        timer = Timer(seconds, self._kill)
        timer.start()
        try:
            self._process.stdin.write(struct.pack(">I", len(head)) + head + source.data)
            self._process.stdin.flush()
            size = self._process.stdout.read(4)
            reply = self._process.stdout.read(*struct.unpack(">I", size)) if len(size) == 4 else b""
            return cast(ReaderReply, json.loads(reply)) if reply else None
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()

    def end(self) -> None:
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):  # unread bytes are lost
                    pipe.close()
        self._process.wait()

    def _kill(self) -> None:
        """Kill the process and those that it has started, such as tesseract."""
        if hasattr(os, "killpg") and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()


def read_in_subprocess(source: Source, member: str | None, ocr_languages: str = ENGLISH) -> Document:
    """Return a file, or a member of an archive, as text, read in another process.

    Raises:
        ToolError: it cannot be read, or its reader took too much time or memory.
    """
    with _free_places:
        worker = _take_worker()
        reply = None
        try:
            reply = worker.read(source, member, ocr_languages, MAX_SECONDS)
        finally:
            _return_worker(worker, fit=reply is not None)
    if reply is None:
        raise ToolError(f"{source.name} took more time or memory than a file may, and is not read; go on without it.")
    if "error" in reply:
        raise ToolError(reply["error"])
    return Document.from_json(reply["document"])


def _take_worker() -> _Worker:
    with _lock:
        return _idle.pop() if _idle else _Worker()


def _return_worker(worker: _Worker, fit: bool) -> None:
    if fit and worker.reads < READS:
        with _lock:
            _idle.append(worker)
    else:
        worker.end()


def stop_workers() -> None:
    """Stop the idle processes; done when this process ends, too."""
    with _lock:
        while _idle:
            _idle.pop().end()


def _leave_to_parent() -> None:
    _parents.extend(_idle)
    _idle.clear()


atexit.register(stop_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
