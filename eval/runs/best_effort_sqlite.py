"""A SQLite file whose loss costs calls and never a question: a full disk or a broken file is said once and lived with.

    class Notes(KeptFile):
        tables = ("CREATE TABLE IF NOT EXISTS notes(text TEXT)",)

    notes = Notes(folder / "notes.db", "the run's notes", warned)
    notes.execute("INSERT INTO notes VALUES(?)", "hello")
    notes.execute("SELECT text FROM notes")      # [("hello",)]; [] if the file cannot be used
    notes.close()

Written without waiting for the disk: kill -9 loses nothing, power loss the last. Any number of threads and processes.
"""

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

_OPENING_SECONDS = 5.0
_BUSY_MILLISECONDS = 200  # another process writes; the event loop waits, so a miss is better than a long wait


def warned(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


class BestEffortSqlite:
    tables: tuple[str, ...] = ()
    instead = "its calls are made again"  # what its loss means, in words
    anew = "its calls are made anew"  # the same, once a broken one is set aside

    def __init__(self, path: Path, what: str, warn: Callable[[str], None], set_aside: bool = False) -> None:
        """Open the file or make it.

        Args:
            path: its folder is made, too.
            what: it is, for the warning.
            warn: told of the first failure.
            set_aside: a broken one is renamed, and a new one begun; only for a file that one process alone writes.
        """
        self.path = path
        self._what, self._warn, self._warned, self._may_set_aside = what, warn, False, set_aside
        self._turns = Lock()
        self._database: sqlite3.Connection | None = None
        self._closed = False
        self.execute(None)

    @property
    def is_open(self) -> bool:
        return self._database is not None

    def execute(self, query: str | None, *values: Any) -> list[Any]:
        """What the query finds; nothing, if the file cannot be used."""
        with self._turns:
            try:
                return self._execute_now(query, *values)
            except (sqlite3.Error, OSError, UnicodeError) as error:
                self._fail(error)
                return []

    def close(self) -> None:
        with self._turns:
            self._closed = True
            self._disconnect()

    def remove(self) -> None:
        """Of a closed one."""
        self._remove("", "-wal", "-shm")

    def _execute_now(self, query: str | None, *values: Any) -> list[Any]:
        if self._closed:
            return []
        if self._database is None:
            self._database = self._connection()
        return self._database.execute(query, values).fetchall() if query else []

    def _connection(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=_OPENING_SECONDS)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            for table in self.tables:
                database.execute(table)
            database.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _fail(self, error: Exception) -> None:
        broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        outcome = self._after(broken)
        if not self._warned:
            self._warned = True
            self._warn(f"{self._what} {self.path} cannot be used ({error}); {outcome}")

    def _after(self, broken: bool) -> str:
        """What is done about the failure, in words."""
        if broken and self._may_set_aside:
            try:
                self._set_aside()
            except OSError:
                pass
            else:
                return f"it is set aside as {self.path.name}.broken, and {self.anew}"
        return f"{self.instead}; nothing else is lost"

    def _set_aside(self) -> None:
        self._disconnect()
        self.path.replace(self.path.with_name(self.path.name + ".broken"))
        self._remove("-wal", "-shm")  # they belong to the broken one

    def _remove(self, *endings: str) -> None:
        for ending in endings:
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def as_bytes(text: str) -> bytes:
    """For a BLOB: lone surrogates stay as they are."""
    return text.encode("utf-8", "surrogatepass")


def as_text(kept: bytes) -> str:
    return kept.decode("utf-8", "surrogatepass")
