"""SQLite file of one run: opened, locked until closed, and written in transactions; and its copies as text.

`RunStore` says what is in it.

One process writes, any number may read meanwhile. WAL with synchronous=FULL: what a transaction has committed survives
the death of the process and of the machine. Bytes that went bad are noticed when the file is opened (by a reader: at
its first look at the records), and what they held is restored from the copies in the folder; see `recovery.py`.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from eval.runs.folder import JOURNAL, RECORDS, Holder, RunInUseError, RunLock, is_in_use
from eval.runs.record import JournalRow, PlanRows, Row, encode_entry, read_meta, write_meta
from eval.runs.recovery import find_damage, is_damage, read_journal, repair_copies, restore, set_aside
from eval.runs.sqlite_file import ForeignDatabaseError, QueryGuard, check_files, check_schema
from mas.runtime.terminal import print_warning

SCHEMA_VERSION = 4
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
    line_crc INT NOT NULL,       -- checksum of the whole Record as a line of JSON
    data TEXT NOT NULL,          -- the Record as JSON, without what is in `details`
    checksum INT NOT NULL,       -- of the columns before
    UNIQUE(sample_id, epoch, attempt)
);
CREATE TABLE IF NOT EXISTS details(row INTEGER PRIMARY KEY, data TEXT NOT NULL);  -- state and trajectory: most of it
CREATE TABLE IF NOT EXISTS questions(place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INT NOT NULL);
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_BUSY_SECONDS = 30.0  # only ever waited for while another process folds the write-ahead log into the file
_FROZEN = "?immutable=1"  # in a folder that cannot be written, where nobody can be writing
CHECKPOINT_SECONDS = 5.0  # between folding the write-ahead log into the file

_VERSION = "schema_version"  # key of `meta`
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW

SqlValue = str | int | float | None
T = TypeVar("T")


class StoreError(Exception):
    """The run's database cannot be read or written; the message is one sentence for the user."""


class EmptyStoreError(StoreError):
    """The database was made, and nothing was ever written to it."""


class DamagedError(StoreError):
    """Bytes of the database are wrong."""


class Journal:
    """Copies of a run's database as text: each record is appended to `records.jsonl`, all else to `run.journal`.

    Both are appended to after the database has the row, so they never hold more than it was given: what it lacks was
    lost. They are conveniences like all copies; a line that cannot be written is no failure of the run, and is written
    again when the run is resumed or reported. One process writes, the one that holds the database.

        journal = Journal(folder)
        journal.add_meta("info", "{…}")
        journal.add_row(JournalRow(1, "q1", 1, 1, finished_at, compute_crc(line)), line)
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.records_path = folder / JOURNAL, folder / RECORDS

    def exists(self) -> bool:
        return self.path.is_file()

    def add_meta(self, key: str, value: str) -> None:
        self._append(self.path, encode_entry({"meta": [key, value]}))

    def add_plan(self, plan: PlanRows) -> None:
        self._append(self.path, encode_entry({"plan": plan}))

    def add_row(self, row: JournalRow, line: str) -> None:
        """Append a record and its row; `line`: the record as JSON."""
        self._append(self.records_path, line + "\n")
        self._append(self.path, encode_entry({"row": asdict(row)}))

    def _append(self, path: Path, text: str) -> None:
        """Append the whole text or nothing: half a line would spoil the next one, too."""
        with suppress(OSError), os.fdopen(os.open(path, _APPEND, 0o666), "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                data = memoryview(text.encode("ascii"))
                while data:
                    data = data[file.write(data) :]
            except OSError:
                os.ftruncate(file.fileno(), end)


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
        self._journal = Journal(path.parent)
        self._turns = Lock()
        self._closed = threading.Event()
        self._is_new = False  # made just now, in a folder without copies: there is nothing to check
        self._is_checked = False  # by a reader, at its first look at the records
        self.is_restored = False  # whether what is read comes from copies of what was damaged
        self._run_lock = None if read_only else RunLock(path)
        self._guard: QueryGuard | None = None
        self._check_files()
        self._take_lock()
        try:
            self._open()
        except BaseException:
            self._close()
            raise

    def _check_files(self) -> None:
        """
        Raises:
            StoreError: one of the files is a link, or the like.
        """
        try:
            check_files(self.path)
        except ForeignDatabaseError as error:
            raise StoreError(f"{self.path} is not opened: {error}") from error

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
        try:
            self._connect()
            if not self.read_only and not self._is_new:
                self._check(whole=True)
        except DamagedError as error:
            self._restore(str(error))
        if not self.read_only:
            if not self._is_new:
                with self._access("read"):
                    repair_copies(self._database, self.path.parent)
            self._write_meta(_VERSION, str(SCHEMA_VERSION))
            self._write_meta("holder", json.dumps(vars(Holder.this_process())))
            threading.Thread(target=self._checkpoint_regularly, name="checkpoint run.db", daemon=True).start()

    def _connect(self) -> None:
        """Open the file as it is.

        Raises:
            DamagedError: it is gone, or its header is damaged.
        """
        known = read_journal(self.path.parent).meta.get(_VERSION) if self._journal.exists() else None
        with self._access("opened"):
            if known and not (self.path.is_file() and self.path.stat().st_size):
                raise DamagedError(f"{self.path} has vanished, or is empty")
            self._database = self._connection()
            self._guard = QueryGuard(self._database)
        with self._access("opened"):
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version != SCHEMA_VERSION and known == str(SCHEMA_VERSION):
                raise DamagedError(f"{self.path} is damaged (its header is wrong)")
            if version not in (0, SCHEMA_VERSION):
                raise StoreError(
                    f"{self.path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
                    f"open it with the program that wrote it, or start a new run"
                )
            self._check_schema(_SCHEMA if version else "")
            if self.read_only:
                self._database.execute("PRAGMA query_only = 1")
                if version == 0:
                    raise EmptyStoreError(
                        f"{self.path} holds nothing yet; the run ended before it began, start a new one"
                    )
                return
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._is_new = not (self._journal.exists() or self._journal.records_path.exists())
                self._database.executescript(_SCHEMA)

    def _check_schema(self, schema: str) -> None:
        """
        Raises:
            DamagedError: there is something else than this program's tables, which is not looked into.
        """
        try:
            check_schema(self._database, schema)
        except ForeignDatabaseError as error:
            self._database.close()
            del self._database
            raise DamagedError(f"{self.path} is no database of a run: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()
        if self.read_only:
            if not self.path.is_file():
                raise StoreError(f"{self.path} is not there; name the folder of a run that has been started")
            # SQLite makes files next to the database for a reader, too; with "ro" it would not delete them again.
            address += "?mode=rw" if os.access(self.path.parent, os.W_OK) or self._is_open_elsewhere() else _FROZEN
        return _connect_to(address)

    def _is_open_elsewhere(self) -> bool:
        return self.path.with_name(self.path.name + "-wal").exists()

    def _check(self, whole: bool) -> None:
        """
        Raises:
            DamagedError: the file is damaged.
        """
        content = read_journal(self.path.parent)
        with self._access("read"):
            if found := find_damage(self._database, content, whole):
                raise DamagedError(f"{self.path} is damaged ({found})")
            n_rows = self._database.execute("SELECT count(*) FROM records").fetchone()[0]
        if n_rows and not self._journal.exists():
            self._warn(f"{self.path} has no {JOURNAL} next to it: if answers were lost from it, nobody can tell")

    def _check_once(self) -> None:
        """Check what a reader is about to read; states and trajectories are checked as they are read."""
        if self._is_checked or not self.read_only:
            return
        self._is_checked = True
        if is_in_use(self.path):
            return
        try:
            self._check(whole=False)
        except DamagedError as error:
            self._handle_damage(error)

    def _handle_damage(self, error: DamagedError) -> None:
        """Restore the database of a reader, who goes on with a private copy.

        Raises:
            DamagedError: this cannot be done now: it is being written, or was restored already.
        """
        if not self.read_only or self.is_restored or is_in_use(self.path):
            raise error
        self._restore(str(error))

    def _restore(self, reason: str) -> None:
        """Go on with a new database that holds all that is left; the damaged one is kept under another name.

        Raises:
            StoreError: nothing is left, or the disk refuses the new one.
        """
        self.is_restored = True
        damaged = self._get_readable()
        new = self.path.with_name(f"{self.path.name}.restored")
        with self._access("restored"):
            new.unlink(missing_ok=True)
            target = _connect_to("" if self.read_only else new.absolute().as_uri())  # "": a temporary file of its own
            try:
                target.executescript(_SCHEMA)
                restored = restore(damaged, self.path.parent, target)
                if not restored.found_any:
                    raise StoreError(f"{reason}, and its folder has no copy to restore it from: start a new run")
            except BaseException:
                target.close()
                new.unlink(missing_ok=True)
                raise
            if damaged is not None:
                damaged.close()
            self._database, self._guard = target, QueryGuard(target)
            if self.read_only:
                target.execute("PRAGMA query_only = 1")
            else:
                target.close()
                set_aside(self.path)
                new.replace(self.path)
        if not self.read_only:
            self._connect()
        kept = "" if self.read_only else f"; the damaged file is kept as {self.path.name}.damaged"
        self._warn(f"{reason}: {restored.describe()}{kept}")

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

    def _checkpoint_regularly(self) -> None:
        """Fold the write-ahead log into the file every few seconds: most that the loss of the log can cost."""
        folded = 0
        while not self._closed.wait(CHECKPOINT_SECONDS):
            with suppress(StoreError), self._access("written"):
                if self._database.total_changes != folded:
                    self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    folded = self._database.total_changes

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """Serialise access, and raise errors of the disk and of SQLite as a StoreError with a sentence."""
        try:
            with self._turns, self._guard or nullcontext():
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{self.path} already has this row, and a row is written only once: {error}") from error
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            if is_damage(error):
                raise DamagedError(f"{self.path} is damaged ({error})") from error
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
        return self._read(lambda database: read_meta(database, key))

    def _write_meta(self, key: str, value: str) -> None:
        """Write a value of plain ASCII, as JSON is."""
        with self._access("written"):
            write_meta(self._database, key, value)
        self._journal.add_meta(key, value)

    def _all(self, query: str, *values: SqlValue) -> list[Row]:
        self._check_once()
        return self._read(lambda database: database.execute(query, values).fetchall())

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._access("read"):
                return read(self._database)
        except DamagedError as error:
            self._handle_damage(error)
        with self._access("read"):
            return read(self._database)

    def close(self) -> None:
        """Fold the write-ahead log into the file and release the lock. Closing twice is harmless."""
        with self._access("closed"):
            self._close()

    def _close(self) -> None:
        self._closed.set()
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


def _connect_to(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS)
