"""SQLite file of one run: opened, checked, locked until closed, written in transactions, and copied as text.

`RunStore` says what is in it.

One process writes, any number may read meanwhile. WAL: what is written survives the death of the process, and what a
transaction has committed (synchronous=FULL) that of the machine. `records.jsonl` has each row as a line, `run.jsonl`
the facts about the run and its plan. A damaged file is named when it is opened (by a reader: at its first look) and
made again from these copies and from what can still be read of it.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, Self

from eval.runs.folder import FACTS, RECORDS, RunInUseError, RunLock, is_in_use, write_lines
from eval.runs.record import Row, join_line
from eval.runs.run_schema import ROWS, SCHEMA, DamagedError, StoreError, check_files, check_schema, connect, read_lines
from mas.runtime.terminal import print_warning

_UNREADABLE = """
SELECT 'row ' || row FROM main.records NOT INDEXED
WHERE NOT json_valid(data) OR NOT json_valid(details) OR data GLOB '*[^ -~]*' OR details GLOB '*[^ -~]*'
UNION ALL SELECT 'the facts about the run' FROM main.meta
WHERE NOT json_valid(value) OR value GLOB '*[^ -~]*' LIMIT 1"""  # what is written is JSON in plain ASCII
_FROZEN = "?immutable=1"  # in a folder that cannot be written, where nobody can be writing
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ: the file ends too early


class EmptyStoreError(StoreError):
    """The database was made, and nothing was ever written to it."""


class RunDatabase:
    """Database of one run. Any thread may call it; calls take turns."""

    def __init__(self, path: Path, read_only: bool = False, warn: Callable[[str], None] = print_warning) -> None:
        """Open the database; unless it is only to be read, lock it, and make it with its folder if it is missing.

        `warn` is called with what was damaged and what could be restored. StoreError: another process writes to it (a
        reader does not mind), it cannot be opened, another version of this program made it, or it is not there.
        """
        self.path, self.read_only, self._warn = path, read_only, warn
        self._turns = RLock()
        self._is_checked = False
        self.is_restored = False  # whether what is read comes from copies of what was damaged
        self._database: sqlite3.Connection | None = None
        self._run_lock = None if read_only else RunLock(path)
        check_files(path)
        try:
            self._open()
        except RunInUseError as error:
            raise StoreError(f"{path} is in use by another process; wait for it, or stop it") from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self._run_lock is not None:
            with self._access("opened"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._run_lock.take()
        try:
            self._connect()
            if not self.read_only:
                self._check()
        except DamagedError as error:
            self._restore(str(error))
        if not self.read_only and (self.is_restored or not self.is_copied()):
            self._rewrite_copies()

    def _connect(self) -> None:
        """Open the file as it is, and make its tables if it is new."""
        has_copies = any((self.path.parent / name).is_file() for name in (FACTS, RECORDS))
        with self._access("opened"):
            if has_copies and not self.path.is_file():
                raise DamagedError(f"{self.path} is gone")
            database = connect(self._find_address())
            try:
                has_tables = check_schema(database, self.path)
            except BaseException:  # what is there besides this program's tables is not looked into
                database.close()
                raise
            self._database = database
            if not has_tables and has_copies:
                raise DamagedError(f"{self.path} is empty")
            if self.read_only:
                if not has_tables:
                    raise EmptyStoreError(
                        f"{self.path} holds nothing yet; the run ended before it began, start a new one"
                    )
                database.execute("PRAGMA query_only = 1")
                return
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            if not has_tables:
                database.executescript(SCHEMA)

    def _find_address(self) -> str:
        address = self.path.absolute().as_uri()
        if not self.read_only:
            return address
        if not self.path.is_file():
            raise StoreError(f"{self.path} is not there; name the folder of a run that has been started")
        # SQLite makes files next to the database for a reader, too; with "ro" it would not delete them again.
        is_open_elsewhere = self.path.with_name(f"{self.path.name}-wal").exists()
        return address + ("?mode=rw" if os.access(self.path.parent, os.W_OK) or is_open_elsewhere else _FROZEN)

    def _check(self) -> None:
        """Check that all of the file can be read; DamagedError: it cannot."""
        self._is_checked = True
        (result,) = self._fetch("PRAGMA quick_check(1)")[0]
        if result == "ok" and (unreadable := self._fetch(_UNREADABLE)):
            result = f"{unreadable[0][0]} cannot be read"
        if result != "ok":
            raise DamagedError(f"{self.path} is damaged ({' '.join(str(result).split())[:200]})")
        n_lines, n_rows = self._count()
        if n_lines > n_rows:  # a row is written to the database first
            from eval.runs.recovery import read_keys

            keys = set(self._fetch("SELECT variant, sample_id, epoch, attempt FROM main.records"))
            if not read_keys(self.path.parent) <= keys:
                raise DamagedError(f"{self.path} is damaged (it has {n_rows} rows, and {RECORDS} has more)")

    def _check_once(self) -> None:
        """Check what a reader is about to read; if it is damaged, go on with a private copy of what is left."""
        with self._turns:
            was_checked, self._is_checked = self._is_checked, True
            if was_checked or is_in_use(self.path):
                return
            try:
                self._check()
            except DamagedError as error:
                self._restore(str(error))

    def is_copied(self) -> bool:
        """Return whether `records.jsonl` has as many lines as there are rows."""
        self._check_once()
        n_lines, n_rows = self._count()
        return n_lines == n_rows

    def _count(self) -> tuple[int, int]:
        """Return the number of lines of `records.jsonl`, and of rows; lines first, for rows are written before them."""
        n_lines = sum(line.endswith(b"\n") for line in read_lines(self.path.parent))
        return n_lines, int(self._fetch("SELECT count(*) FROM main.records")[0][0])

    def _restore(self, reason: str) -> None:
        """Go on with a new database that holds all that is left; the damaged one is kept under another name."""
        from eval.runs.recovery import restore

        self.is_restored = self._is_checked = True
        with self._access("restored"):
            self._database = restore(self.path, self._database, self.read_only, reason, self._warn)
            if self._database is None:
                self._connect()

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """Serialise access, and raise errors of the disk and of SQLite as a StoreError."""
        try:
            with self._turns:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{self.path} already has this row, and a row is written only once: {error}") from error
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            if _is_damage(error):
                reason = str(error).partition(" with text ")[0]  # of a column that is no UTF-8: all of it, some MB
                raise DamagedError(f"{self.path} is damaged ({reason})") from error
            raise StoreError(
                f"{self.path} cannot be {what} ({error}): check that the disk has room, the folder is writable and "
                f"the file is a run's database; rows already written are kept"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit everything inside, or nothing; it is on the disk then, with all that was written before."""
        with self._access("written"):
            database = self._get_connection()
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:  # a full disk has rolled it back
                    database.execute("ROLLBACK")
                raise
            finally:
                database.execute("PRAGMA synchronous = NORMAL")

    def _write_meta(self, values: Mapping[str, str]) -> None:
        """Commit facts about the run, which are JSON in plain ASCII, and copy them."""
        with self._turns:
            with self._transaction() as database:
                database.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", values.items())
            self._copy_facts()

    def _read_meta(self, key: str) -> str | None:
        """Return a fact about the run; a reader who wants nothing else does not wait for the whole file's check."""
        query = "SELECT value FROM meta WHERE key = ?"
        with suppress(DamagedError, ValueError):
            for (value,) in self._fetch(query, key):
                json.loads(value)
                return str(value)
        return next((str(value) for (value,) in self._all(query, key)), None)

    def _copy_facts(self) -> None:
        facts: dict[str, str] = dict(self._fetch("SELECT key, value FROM meta"))
        with suppress(OSError):  # a full disk: noticed by the next row
            write_lines(self.path.with_name(FACTS), [json.dumps(facts)])

    def _append_copy(self, line: str) -> None:
        """Append a row to `records.jsonl`; one that a full disk has cut off makes it be written again later."""
        with suppress(OSError):
            descriptor = os.open(self.path.with_name(RECORDS), _APPEND, 0o666)
            with os.fdopen(descriptor, "a", encoding="ascii") as file:
                file.write(f"{line}\n")

    def _rewrite_copies(self) -> None:
        """Write the copies again, as after a kill; a full disk is noticed by the next row."""
        self._copy_facts()
        with self._access("read"), suppress(OSError):
            rows = self._get_connection().execute(f"{ROWS} ORDER BY row")
            write_lines(self.path.with_name(RECORDS), (join_line(*row) for row in rows))

    def _all(self, query: str, *values: Any) -> list[Row]:
        self._check_once()
        return self._fetch(query, *values)

    def _fetch(self, query: str, *values: Any) -> list[Row]:
        with self._access("read"):
            return self._get_connection().execute(query, values).fetchall()

    def try_execute(self, query: str, *values: Any) -> list[Row]:
        """Return the rows of a query about calls; none if it fails. A write does not wait for the disk."""
        with suppress(StoreError):
            return self._fetch(query, *values)
        return []

    def _get_connection(self) -> sqlite3.Connection:
        assert self._database is not None, "open"
        return self._database

    def close(self) -> None:
        """Fold the write-ahead log into the file and release the lock."""
        try:
            if self._database is not None:
                with self._access("closed"):
                    self._database.close()
        finally:
            if self._run_lock is not None:
                self._run_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_damage(error: Exception) -> bool:
    """Return whether an error of SQLite means that bytes of the file are wrong, not that it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's own module, such as for a text that is no UTF-8
        return type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError)
    return code == _SHORT_READ or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
