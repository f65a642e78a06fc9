"""One writer a run: a lock beside its database that names who holds it and that dies with its process.

    lock = RunLock(folder / "run.db")       # locks run.lock
    lock.take()                             # RunInUseError if another process, or this one, already writes there
    lock.release()

The lock is the kernel's (flock), so `kill -9` frees it; the file `run.lock` stays and means nothing by itself.
"""

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

WAIT_SECONDS = 0.5  # a report looks in for an instant; and a holder needs one to write down who it is


class RunInUseError(Exception):
    """Somebody else writes to this run."""


@dataclass(frozen=True)
class Holder:
    """The process that writes, or wrote last."""

    pid: int
    host: str
    since: str  # UTC, ISO 8601

    @classmethod
    def this_process(cls) -> "Holder":
        return cls(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class RunLock:
    """Any thread may release what another has taken."""

    def __init__(self, database: Path) -> None:
        from filelock import FileLock

        # Without flock (some network disks) nothing would free the lock after a kill: better to fail.
        self._lock = FileLock(database.with_suffix(".lock"), thread_local=False, fallback_to_soft=False)

    def take(self, wait_seconds: float | None = None) -> None:
        """`wait_seconds`: for another to release it; None: WAIT_SECONDS.

        Raises:
            RunInUseError: it is taken.
            OSError: the file cannot be made, or the disk knows no locks.
        """
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=WAIT_SECONDS if wait_seconds is None else wait_seconds, poll_interval=0.05)
        except Timeout as error:
            raise RunInUseError from error

    def release(self) -> None:
        self._lock.release()


def in_use(database: Path) -> bool:
    """Whether a process writes to this run just now; False too where that cannot be found out."""
    if not database.with_suffix(".lock").exists():
        return False
    lock = RunLock(database)
    try:
        lock.take(wait_seconds=0)
    except RunInUseError:
        return True
    except OSError:
        return False
    lock.release()
    return False
