"""SQLite files of a run's folder: checked before use, and those that may be lost.

A run's folder may come from anywhere, and a schema can hold programs: a view that never ends, a trigger that changes
what is written, a virtual table. Only files with exactly this program's tables are used, and links are not followed.
"""

import functools
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

MAX_VALUE_BYTES = 256 * 1024 * 1024  # of a record's state and trajectory, which may have 20 MB
_SIDE_FILES = ("-wal", "-shm", "-journal")
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # after the name of a journal of several databases
_SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name LIMIT 100"
_OPENING_SECONDS = 5.0
_BUSY_MILLISECONDS = 200  # another process writes; the event loop waits, so a miss is better than a long wait

SqlValue = str | bytes | int | float | None
Row = tuple[Any, ...]


class ForeignDatabaseError(sqlite3.DatabaseError):
    """The file is no database as this program writes it; the message is part of a sentence."""


def check_files(path: Path) -> None:
    """Check that the database and the files that SQLite reads with it are ordinary files.

    A journal that names another file is refused: SQLite removes that file when it rolls the journal back.

    Raises:
        ForeignDatabaseError: one is not.
    """
    for name in (path.name, *(f"{path.name}{ending}" for ending in _SIDE_FILES)):
        try:
            mode = path.with_name(name).lstat().st_mode
        except OSError:  # it is not there, or cannot be opened either
            continue
        if not stat.S_ISREG(mode):
            raise ForeignDatabaseError(f"{name} is a link or another special file, which is not followed")
        if name.endswith("-journal") and path.with_name(name).read_bytes()[-8:] == _JOURNAL_END:
            raise ForeignDatabaseError(f"{name} names another file, which would be removed")


def check_schema(database: sqlite3.Connection, schema: str) -> None:
    """Check that the database has exactly the tables of `schema`, and that no value is larger than a run's.

    Raises:
        ForeignDatabaseError: it has others, or views, triggers or virtual tables.
    """
    database.execute("PRAGMA trusted_schema = 0")
    database.execute("PRAGMA cell_size_check = 1")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    found, expected = database.execute(_SCHEMA_QUERY).fetchall(), _list_objects(schema)
    if found != expected:
        other = next((each for each in found if each not in expected), None)
        what = f"the {other[0]} {str(other[1])[:80]!r} is not of this program" if other else "a table is missing"
        raise ForeignDatabaseError(f"its schema is not that of a run: {what}")


@functools.cache
def _list_objects(schema: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(":memory:", isolation_level=None)
    try:
        database.executescript(schema)
        return database.execute(_SCHEMA_QUERY).fetchall()
    finally:
        database.close()


class BestEffortSqlite:
    """SQLite file whose loss costs calls and never a sample: a full disk or a broken file is reported once.

    Written without waiting for the disk: kill -9 loses nothing, power loss the last rows. Any number of threads and
    processes.
    """

    tables: tuple[str, ...] = ()
    consequence = "its calls go to the model again"  # of losing the file

    def __init__(self, path: Path, what: str, warn: Callable[[str], None], set_aside: bool = False) -> None:
        """Open the file or make it.

        Args:
            path: of the file; its folder is made, too.
            what: the file is, for the warning.
            warn: called at the first failure.
            set_aside: rename a broken file and begin a new one; only for a file that one process writes.
        """
        self.path = path
        self._what, self._warn, self._warned, self._may_set_aside = what, warn, False, set_aside
        self._turns = Lock()
        self._database: sqlite3.Connection | None = None
        self._closed = False
        self.execute("SELECT 1")

    @property
    def is_open(self) -> bool:
        return self._database is not None

    def execute(self, query: str, *values: SqlValue) -> list[Row]:
        """Return the rows of a query; none if the file cannot be used."""
        with self._turns:
            try:
                if self._closed:
                    return []
                self._database = self._database or self._connect()
                return self._database.execute(query, values).fetchall()
            except (sqlite3.Error, OSError, UnicodeError) as error:
                self._fail(error)
                return []

    def close(self) -> None:
        with self._turns:
            self._closed = True
            self._disconnect()

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        check_files(self.path)
        database = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=_OPENING_SECONDS)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            for table in self.tables:
                database.execute(table)
            check_schema(database, ";".join(self.tables))
            database.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _fail(self, error: Exception) -> None:
        outcome = f"{self.consequence}; nothing else is lost"
        is_broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        if is_broken and self._may_set_aside:
            with suppress(OSError):
                self._disconnect()
                self.path.replace(f"{self.path}.broken")
                remove_database(self.path)  # what belongs to the broken one
                outcome = f"it is set aside as {self.path.name}.broken; {self.consequence}"
        if not self._warned:
            self._warned = True
            self._warn(f"{self._what} {self.path} cannot be used ({error}); {outcome}")

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def remove_database(path: Path) -> None:
    """Remove a closed database with the files that SQLite keeps next to it, as far as they are there."""
    for ending in ("", *_SIDE_FILES):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def encode_text(text: str) -> bytes:
    """Encode a text for a BLOB; lone surrogates stay as they are."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(kept: bytes) -> str:
    """Return the text that `encode_text` was given."""
    return kept.decode("utf-8", "surrogatepass")
