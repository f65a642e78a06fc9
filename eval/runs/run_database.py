"""SQLite file of one run: opened, locked until closed, and written in transactions. `RunStore` says what is in it.

One process writes, any number may read meanwhile. WAL with synchronous=FULL: what a transaction has committed survives
the death of the process and of the machine.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from eval.runs.folder import Holder, RunInUseError, RunLock

SCHEMA_VERSION = 3
_SCHEMA = f"""
BEGIN;
CREATE TABLE IF NOT EXISTS records(
    row INTEGER PRIMARY KEY,     -- the order of writing
    sample_id TEXT NOT NULL,    -- as inside a JSON string: escaped, so any Python string fits
    epoch INT NOT NULL,
    attempt INT NOT NULL,
    thread_id TEXT NOT NULL,
    error_class TEXT,            -- null: no error
    cost_usd REAL,               -- of the answer and of judging it, as far as it is known
    finished_at TEXT NOT NULL,   -- UTC, ISO 8601
    line_bytes INT NOT NULL,     -- of the whole Record as a line of JSON
    data TEXT NOT NULL,          -- the Record as JSON, without what is in `details`
    UNIQUE(sample_id, epoch, attempt)
);
CREATE TABLE IF NOT EXISTS details(row INTEGER PRIMARY KEY, data TEXT NOT NULL);  -- state and trajectory: most of it
CREATE TABLE IF NOT EXISTS questions(place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT OR IGNORE INTO meta VALUES('schema_version', '{SCHEMA_VERSION}');
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_BUSY_SECONDS = 30.0  # only ever waited for while another process folds the write-ahead log into the file
_FROZEN = "?immutable=1"  # in a folder that cannot be written, where nobody can be writing


SqlValue = str | int | float | None
Row = tuple[Any, ...]


class StoreError(Exception):
    """The run's database cannot be read or written; the message is one sentence for the user."""


class RunDatabase:
    """Database of one run. Any thread may call it; calls take turns."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Open the database; unless it is only to be read, lock it, and make it with its folder if it is missing.

        Raises:
            StoreError: another process writes to it, it cannot be opened, it was made by another version of this
                program, or it is to be read and is not there.
        """
        self.path = path
        self.read_only = read_only
        self._turns = Lock()
        self._run_lock = None if read_only else RunLock(path)
        self._take_lock()
        try:
            with self._access("opened"):
                self._database = self._connection()
            self._prepare()
        except BaseException:
            self._close()
            raise

    def _take_lock(self) -> None:
        if self._run_lock is None:
            return
        try:
            with self._access("opened"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._run_lock.take()
        except RunInUseError as error:
            holder = _holder(self.path) or "another process"
            raise StoreError(f"{self.path} is in use by {holder}; wait for it, or stop it") from error

    def _connection(self) -> sqlite3.Connection:
        options: dict[str, Any] = {"check_same_thread": False, "isolation_level": None, "timeout": _BUSY_SECONDS}
        address = self.path.absolute().as_uri()
        if self.read_only:
            if not self.path.is_file():
                raise StoreError(f"{self.path} is not there; name the folder of a run that has been started")
            # A reader, too, makes files next to the database, and takes them away again unless it is opened as "ro".
            address += "?mode=rw" if os.access(self.path.parent, os.W_OK) or self._is_open_elsewhere() else _FROZEN
        database: sqlite3.Connection = sqlite3.connect(address, uri=True, **options)
        return database

    def _is_open_elsewhere(self) -> bool:
        return self.path.with_name(self.path.name + "-wal").exists()

    def _prepare(self) -> None:
        with self._access("opened"):
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise StoreError(
                    f"{self.path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
                    f"open it with the program that wrote it, or start a new run"
                )
            if self.read_only:
                self._database.execute("PRAGMA query_only = 1")
                if version == 0:
                    raise StoreError(f"{self.path} holds nothing yet; the run ended before it began, start a new one")
                return
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._database.executescript(_SCHEMA)
        self._write_meta("holder", json.dumps(vars(Holder.this_process())))

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """Let one caller in at a time; an error of the disk or of SQLite becomes a sentence."""
        try:
            with self._turns:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{self.path} already has this row, and a row is written only once: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be {what} ({error}): check that the disk has room, the folder is writable and "
                f"the file is a run's database; rows already written are kept"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit everything inside, or nothing."""
        with self._access("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk has already rolled it back
                    self._database.execute("ROLLBACK")
                raise

    def read_holder(self) -> Holder | None:
        """Return the process that opened the store for writing last."""
        found = self._read_meta("holder")
        return Holder(**json.loads(found)) if found else None

    def _read_meta(self, key: str) -> str | None:
        found = self._all("SELECT value FROM meta WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def _write_meta(self, key: str, value: str) -> None:
        """`value`: plain ASCII, as JSON is."""
        with self._access("written"):
            self._database.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def _all(self, query: str, *values: SqlValue) -> list[Row]:
        with self._access("read"):
            return self._database.execute(query, values).fetchall()

    def close(self) -> None:
        """Fold the write-ahead log into the file and release the lock. Closing twice is harmless."""
        with self._access("closed"):
            self._close()

    def _close(self) -> None:
        try:
            if hasattr(self, "_database"):
                self._database.close()
        finally:
            if self._run_lock is not None:
                self._run_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _holder(path: Path) -> str | None:
    """Return who has locked the run, as its database says; None if that cannot be read yet."""
    with suppress(StoreError, ValueError, TypeError), RunDatabase(path, read_only=True) as database:
        holder = database.read_holder()
        return None if holder is None else str(holder)
    return None
