"""SQLite file of one run: opened, locked until closed, and written in transactions; and its copies as text.

`RunStore` says what is in it.

One process writes, any number may read meanwhile. WAL with synchronous=FULL: what a transaction has committed survives
the death of the process and of the machine. A damaged file is found when it is opened (by a reader: at its first look)
and made again from the copies in the folder; see `recovery.py`.
"""

import json
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Self

from eval.runs.folder import FACTS, RECORDS, RunInUseError, RunLock, is_in_use, write_lines
from eval.runs.record import Row, join_line, write_meta
from eval.runs.recovery import HOLDER, inspect, is_damage, rebuild, set_aside, write_facts
from eval.runs.sqlite_file import ForeignDatabaseError, check_files, check_schema
from mas.runtime.terminal import print_warning

SCHEMA_VERSION = 6
_SCHEMA = f"""
BEGIN;
CREATE TABLE IF NOT EXISTS records(
    row INTEGER PRIMARY KEY,     -- the order of writing
    variant TEXT NOT NULL,       -- SHA-256 of the prompts that gave the answer, in a tuning run; else empty
    sample_id TEXT NOT NULL,    -- as inside a JSON string: escaped, so any Python string fits
    epoch INT NOT NULL,
    attempt INT NOT NULL,
    thread_id TEXT NOT NULL,
    error_class TEXT,            -- null: no error
    cost_usd REAL,               -- of the answer and of judging it, as far as it is known
    finished_at TEXT NOT NULL,   -- UTC, ISO 8601
    data TEXT NOT NULL,          -- the Record as JSON, without what is in `details`
    UNIQUE(variant, sample_id, epoch, attempt)
);
CREATE TABLE IF NOT EXISTS details(row INTEGER PRIMARY KEY, data TEXT NOT NULL);  -- state and trajectory: most of it
CREATE TABLE IF NOT EXISTS questions(place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_BUSY_SECONDS = 30.0  # only ever waited for while another process folds the write-ahead log into the file
_FROZEN = "?immutable=1"  # in a folder that cannot be written, where nobody can be writing
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW

SqlValue = str | int | float | None
_Stamp = tuple[Path, tuple[int, ...]]
_inspected: dict[_Stamp, bool] = {}  # by this process, and undamaged → whether records.jsonl has exactly its rows


class StoreError(Exception):
    """The run's database cannot be read or written; the message is one sentence for the user."""


class EmptyStoreError(StoreError):
    """The database was made, and nothing was ever written to it."""


class DamagedError(StoreError):
    """Bytes of the database are wrong."""


class RunDatabase:
    """Database of one run. Any thread may call it; calls take turns."""

    def __init__(self, path: Path, read_only: bool = False, warn: Callable[[str], None] = print_warning) -> None:
        """Open the database; unless it is only to be read, lock it, and make it with its folder if it is missing.

        Args:
            path: of the file.
            read_only: also while another process writes.
            warn: called with what was damaged and what could be restored.

        Raises:
            StoreError: another process writes to it, it cannot be opened, it was made by another version of this
                program, or it is to be read and is not there.
        """
        self.path = path
        self.read_only = read_only
        self._warn = warn
        self._turns = RLock()
        self._is_checked = False  # by a reader, at its first look
        self._is_copied = True  # records.jsonl has exactly the rows
        self.is_restored = False  # whether what is read comes from copies of what was damaged
        self._run_lock = None if read_only else RunLock(path)
        try:
            check_files(self.path)
        except ForeignDatabaseError as error:
            raise StoreError(f"{self.path} is not opened: {error}") from error
        self._take_lock()
        try:
            self._open()
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

    def _open(self) -> None:
        has_copies = any((self.path.parent / name).is_file() for name in (FACTS, RECORDS))
        try:
            is_new = self._connect(has_copies)
            if not is_new and not self.read_only:
                self._inspect()
        except DamagedError as error:
            self._restore(str(error))
        if not self.read_only:
            if not self._is_copied:
                self._rewrite_copies()
            since = datetime.now(UTC).isoformat(timespec="seconds")
            with self._transaction():
                holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
                write_meta(self._database, HOLDER, json.dumps(holder))

    def _connect(self, has_copies: bool) -> bool:
        """Open the file as it is, and return whether it is new.

        Raises:
            DamagedError: it is gone, is empty although its folder has copies of what it held, or is no run's database.
        """
        with self._access("opened"):
            if has_copies and not self.path.is_file():
                raise DamagedError(f"{self.path} is gone")
            self._database = self._connection()
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise StoreError(
                    f"{self.path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
                    f"open it with the program that wrote it, or start a new run"
                )
            try:
                check_schema(self._database, _SCHEMA if version else "")
            except ForeignDatabaseError as error:  # what is there besides this program's tables is not looked into
                self._database.close()
                del self._database
                raise DamagedError(f"{self.path} is no database of a run: {error}") from error
            if version == 0 and has_copies:
                raise DamagedError(f"{self.path} is empty")
            if self.read_only:
                self._database.execute("PRAGMA query_only = 1")
                if version == 0:
                    raise EmptyStoreError(
                        f"{self.path} holds nothing yet; the run ended before it began, start a new one"
                    )
                return False
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._database.executescript(_SCHEMA)
            return bool(version == 0)

    def _connection(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()
        if self.read_only:
            if not self.path.is_file():
                raise StoreError(f"{self.path} is not there; name the folder of a run that has been started")
            # SQLite makes files next to the database for a reader, too; with "ro" it would not delete them again.
            is_open_elsewhere = self.path.with_name(f"{self.path.name}-wal").exists()
            address += "?mode=rw" if os.access(self.path.parent, os.W_OK) or is_open_elsewhere else _FROZEN
        return _connect_to(address)

    def _inspect(self) -> None:
        """
        Raises:
            DamagedError: the file is damaged.
        """
        stamp = self._read_stamp()
        if (is_copied := _inspected.get(stamp)) is None:
            with self._access("read"):
                found = inspect(self._database, self.path.parent)
            if found.damage:
                raise DamagedError(f"{self.path} is damaged ({found.damage})")
            is_copied = _inspected[stamp] = found.is_copied
        self._is_copied = is_copied

    def _read_stamp(self) -> _Stamp:
        numbers: list[int] = []
        for name in (self.path.name, f"{self.path.name}-wal", RECORDS):
            with suppress(OSError):
                found = self.path.with_name(name).stat()
                numbers += [found.st_ino, found.st_mtime_ns, found.st_size]
        return self.path, tuple(numbers)

    def _check_once(self) -> None:
        """Inspect what a reader is about to read; if it is damaged, go on with a private copy of what is left."""
        with self._turns:
            if self._is_checked or not self.read_only:
                return
            self._is_checked = True
            if is_in_use(self.path):
                return
            try:
                self._inspect()
            except DamagedError as error:
                self._restore(str(error))

    def is_copied(self) -> bool:
        """Return whether `records.jsonl` has exactly the rows; a reader leaves that to the process that writes."""
        self._check_once()
        return self._is_copied

    def _restore(self, reason: str) -> None:
        """Go on with a new database that holds all that is left; the damaged one is kept under another name.

        Raises:
            StoreError: nothing is left, or the disk refuses the new one.
        """
        self.is_restored = self._is_checked = True
        self._is_copied = False
        damaged = self._get_readable()
        new = self.path.with_name(f"{self.path.name}.restored")
        with self._access("restored"):
            new.unlink(missing_ok=True)
            target = _connect_to("" if self.read_only else new.absolute().as_uri())  # "": a temporary file of its own
            try:
                target.executescript(_SCHEMA)
                n_rows = rebuild(damaged, self.path.parent, target)
                if n_rows is None:
                    raise StoreError(f"{reason}, and its folder has no copy to restore it from: start a new run")
            except BaseException:
                target.close()
                new.unlink(missing_ok=True)
                raise
            if damaged is not None:
                damaged.close()
            self._database = target
            if self.read_only:
                target.execute("PRAGMA query_only = 1")
            else:
                target.close()
                set_aside(self.path)
                new.replace(self.path)
                self._connect(has_copies=False)
        kept = "" if self.read_only else f"; the damaged file is kept as {self.path.name}.damaged"
        self._warn(
            f"{reason}: made again from {RECORDS} with {n_rows} answers; run.resume asks again what is missing{kept}"
        )

    def _get_readable(self) -> sqlite3.Connection | None:
        """Return the damaged database if it has this program's tables: nothing else of it is looked into."""
        damaged: sqlite3.Connection | None = getattr(self, "_database", None)
        if damaged is not None:
            try:
                check_schema(damaged, _SCHEMA)
            except (sqlite3.Error, UnicodeDecodeError):
                damaged.close()
                return None
        return damaged

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """Serialise access, and raise errors of the disk and of SQLite as a StoreError with a sentence."""
        try:
            with self._turns:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{self.path} already has this row, and a row is written only once: {error}") from error
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            if is_damage(error):
                reason = str(error).partition(" with text ")[0]  # of a column that is no UTF-8: all of it, some MB
                raise DamagedError(f"{self.path} is damaged ({reason})") from error
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

    @contextmanager
    def _write_facts(self) -> Iterator[None]:
        """Commit changes of the plan and of the facts about the run, and copy them."""
        with self._turns:
            with self._transaction():
                yield
            with self._access("read"):
                write_facts(self._database, self.path.parent)

    def _append_copy(self, line: str) -> None:
        """Append a row to `records.jsonl`, whole or not at all; that it cannot be written is no failure of the run."""
        try:
            with os.fdopen(os.open(self.path.with_name(RECORDS), _APPEND, 0o666), "ab", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    data = memoryview(f"{line}\n".encode("ascii"))
                    while data:
                        data = data[file.write(data) :]
                except OSError:
                    os.ftruncate(file.fileno(), end)
                    raise
        except OSError:
            self._is_copied = False

    def _rewrite_copies(self) -> None:
        """Write the copies again, as after a kill; a full disk is noticed by the next row."""
        with self._access("read"):
            write_facts(self._database, self.path.parent)
            rows = self._database.execute("SELECT records.data, details.data FROM records JOIN details USING(row)")
            with suppress(OSError):
                write_lines(self.path.with_name(RECORDS), (join_line(*row) for row in rows))
                self._is_copied = True

    def _read_meta(self, key: str) -> str | None:
        """Return a fact about the run; a reader who wants nothing else does not wait for the whole file's check."""
        query = "SELECT value FROM meta WHERE key = ?"
        with suppress(DamagedError, ValueError), self._access("read"):
            for (value,) in self._database.execute(query, (key,)):
                if value.startswith("{"):
                    json.loads(value)
                return str(value)
        found = self._all(query, key)
        return str(found[0][0]) if found else None

    def _all(self, query: str, *values: SqlValue) -> list[Row]:
        self._check_once()
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

    def __exit__(self, *_: object) -> None:
        self.close()


def _holder(path: Path) -> str | None:
    """Return who has locked the run, as its database says; None if that cannot be read yet."""
    with suppress(StoreError, ValueError, TypeError, KeyError), RunDatabase(path, read_only=True) as database:
        holder = json.loads(database._read_meta(HOLDER) or "null")
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    return None


def _connect_to(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS)
