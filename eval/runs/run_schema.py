"""Tables of a run's database, and the copy of its rows as lines."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eval.runs.folder import RECORDS
from eval.runs.record import Row

SCHEMA_VERSION = 6
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
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
ROWS = "SELECT records.data, details.data FROM main.records NOT INDEXED JOIN details USING(row)"
NO_JSON = (ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of JSON whose bytes went bad


def insert_row(database: sqlite3.Connection, row: Row, details: str) -> None:
    """Write a row and its details, which are kept apart."""
    database.execute(f"INSERT INTO records VALUES({', '.join('?' * len(row))})", row)
    database.execute("INSERT INTO details VALUES(?, ?)", (row[0], details))


def read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of `records.jsonl`; the last one may be cut off."""
    with suppress(OSError), (folder / RECORDS).open("rb") as file:
        yield from file
