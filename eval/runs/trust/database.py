"""Checks of an SQLite file before it is used: a run's folder may come from anywhere.

A schema can hold programs: a view that never ends, a trigger that changes what is written, a virtual table. Only files
with exactly this program's tables are used, links are not followed, and every query can be stopped.

    check_files(path)                            # ForeignDatabaseError: it is a link, or names another file
    guard = QueryGuard(database)
    with guard:
        check_schema(database, SCHEMA)           # ForeignDatabaseError: other tables, or a view, trigger, …
"""

import functools
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

MAX_VALUE_BYTES = 256 * 1024 * 1024  # of a record's state and trajectory, which may have 20 MB
MAX_STEPS = 2_000_000_000  # of SQLite's machine, for one query: about a minute
_STEPS_AT_ONCE = 100_000  # a millisecond
_SIDE_FILES = ("-wal", "-shm", "-journal")
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # after the name of a journal of several databases
_SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name LIMIT 100"


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


class QueryGuard:
    """Ends a query that takes too long, and handles signals while one is running: SQLite itself does neither.

    with guard:
        database.execute(query)         # sqlite3.OperationalError: interrupted; or KeyboardInterrupt
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._calls = 0
        self._interrupt: BaseException | None = None
        # A generator that has begun, since Python handles a signal as soon as a function begins, before any `try` in
        # it: the exception would be lost in SQLite.
        watch = self._watch()
        next(watch)
        database.set_progress_handler(watch.__next__, _STEPS_AT_ONCE)

    def _watch(self) -> Iterator[int]:
        """Yield 0 to let the query go on, 1 to end it."""
        while True:
            try:
                self._calls += 1
                yield int(self._interrupt is not None or self._calls * _STEPS_AT_ONCE >= MAX_STEPS)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - raised by a signal's handler; `__exit__` raises it again
                self._interrupt = error

    def __enter__(self) -> Self:
        self._calls, self._interrupt = 0, None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._interrupt is not None:
            raise self._interrupt
