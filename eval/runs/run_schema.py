"""Tables of a run's database, and the check that a file has them and nothing else.

A run's folder may come from anywhere, and a schema can hold programs: a view that never ends, a trigger that changes
what is written, a virtual table. Only files with exactly this program's tables are used, and links are not followed.
"""

import functools
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eval.runs.folder import RECORDS
from eval.runs.record import Row

MAX_VALUE_BYTES = 256 * 1024 * 1024  # of a record's state and trajectory, which may have 20 MB
_BUSY_SECONDS = 30.0  # only ever waited for while another process folds the write-ahead log into the file
_SIDE_FILES = ("-wal", "-shm", "-journal")
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # after the name of a journal of several databases
_SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name LIMIT 100"

SCHEMA_VERSION = 8
SCHEMA = f"""
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
CREATE TABLE IF NOT EXISTS replies(
    sample TEXT NOT NULL,        -- JSON: sample id, epoch, attempt; in a tuning run the variant, too; or "tools"
    key BLOB NOT NULL,           -- of the request, or of the call of a tool
    reply BLOB NOT NULL,         -- UTF-8, lone surrogates as they are, without secrets
    PRIMARY KEY(sample, key)
);
CREATE TABLE IF NOT EXISTS payments(
    sample TEXT PRIMARY KEY,     -- as above
    lm_calls INT NOT NULL,       -- that were answered or cut off
    input_tokens INT NOT NULL,
    cached_input_tokens INT NOT NULL,
    output_tokens INT NOT NULL,
    known_cost_usd REAL NOT NULL,
    unknown_cost_calls INT NOT NULL
);
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
ROWS = "SELECT records.data, details.data FROM main.records NOT INDEXED JOIN details USING(row)"
NO_JSON = (ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of JSON whose bytes went bad


class ForeignDatabaseError(sqlite3.DatabaseError):
    """The file is no database as this program writes it; the message is part of a sentence."""


def connect(address: str) -> sqlite3.Connection:
    """Connect to the file at an URI, or, if it is empty, to a temporary database."""
    return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS)


def check_files(path: Path) -> None:
    """Check that the database and the files that SQLite reads with it are ordinary files.

    A journal that names another file is refused: SQLite removes that file when it rolls the journal back.
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
    """Check that the database has exactly the tables of `schema`, and let no value be larger than a run's."""
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


def insert_row(database: sqlite3.Connection, row: Row, details: str) -> None:
    database.execute(f"INSERT INTO records VALUES({', '.join('?' * len(row))})", row)
    database.execute("INSERT INTO details VALUES(?, ?)", (row[0], details))


def read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of `records.jsonl`; the last one may be cut off."""
    with suppress(OSError), (folder / RECORDS).open("rb") as file:
        yield from file
