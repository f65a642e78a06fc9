"""Tables of a run's database, and the check that a file has them and nothing else.

A run's folder may come from anywhere, and a schema can hold programs: a view that never ends, a trigger that changes
what is written, a virtual table. Only files with exactly this program's tables are used, and links are not followed.
"""

import functools
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from eval.runs.folder import RECORDS
from eval.runs.record import Row

MAX_VALUE_BYTES = 256 * 1024 * 1024  # of a record's state and trajectory, which may have 20 MB
_BUSY_SECONDS = 30.0  # only ever waited for while another process folds the write-ahead log into the file
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # after the name of a journal of several databases

SCHEMA_VERSION = 9
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
    details TEXT NOT NULL,       -- its state and trajectory as JSON: most of it
    UNIQUE(variant, sample_id, epoch, attempt)
);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS replies(
    sample TEXT NOT NULL,        -- JSON: sample id, epoch, attempt; in a tuning run the variant, too; or "tools"
    key TEXT NOT NULL,           -- of the request, or of the call of a tool; escaped, as is the reply
    reply TEXT NOT NULL,         -- without secrets
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
_SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name LIMIT 100"
ROWS = "SELECT data, details FROM main.records NOT INDEXED"
NO_JSON = (ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of JSON whose bytes went bad


class StoreError(Exception):
    """The run's database cannot be read or written; the message is one sentence for the user."""


class DamagedError(StoreError):
    """Bytes of the database are wrong, or it is another's."""


def connect(address: str) -> sqlite3.Connection:
    """Connect to the file at an URI, or, if it is empty, to a temporary database."""
    return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS)


def check_files(path: Path) -> None:
    """Check that the database and the files that SQLite reads with it are ordinary files, or raise a StoreError.

    A journal that names another file is refused: SQLite removes that file when it rolls the journal back.
    """
    for name in (path.name, *(f"{path.name}{ending}" for ending in ("-wal", "-shm", "-journal"))):
        try:
            mode = path.with_name(name).lstat().st_mode
        except OSError:  # it is not there, or cannot be opened either
            continue
        if not stat.S_ISREG(mode):
            raise StoreError(f"{path} is not opened: {name} is a link or another special file, which is not followed")
        if name.endswith("-journal") and path.with_name(name).read_bytes()[-8:] == _JOURNAL_END:
            raise StoreError(f"{path} is not opened: {name} names another file, which would be removed")


def check_schema(database: sqlite3.Connection, path: Path) -> bool:
    """Check that it has exactly this program's tables, and let no value be larger than a run's.

    Return False if it has no tables yet. DamagedError: it has others. StoreError: another version wrote it.
    """
    database.execute("PRAGMA trusted_schema = 0")
    database.execute("PRAGMA cell_size_check = 1")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise StoreError(
            f"{path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
            f"open it with the program that wrote it, or start a new run"
        )
    found, expected = database.execute(_SCHEMA_QUERY).fetchall(), _list_objects() if version else []
    if found != expected:
        other = next((each for each in found if each not in expected), None)
        what = f"the {other[0]} {str(other[1])[:80]!r} is not of this program" if other else "a table is missing"
        raise DamagedError(f"{path} is no database of a run: its schema is not that of a run: {what}")
    return bool(version)


@functools.cache
def _list_objects() -> list[tuple[object, ...]]:
    with closing(connect("")) as database:
        database.executescript(SCHEMA)
        return database.execute(_SCHEMA_QUERY).fetchall()


def insert_row(database: sqlite3.Connection, row: Row) -> None:
    database.execute(f"INSERT INTO records VALUES({', '.join('?' * len(row))})", row)


def read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of `records.jsonl`; the last one may be cut off."""
    with suppress(OSError), (folder / RECORDS).open("rb") as file:
        yield from file
