"""Rows of a damaged database that can still be had: from copies in the run's folder, and what is readable."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from eval.runs.folder import FACTS
from eval.runs.record import Record, build_row, escape
from eval.runs.run_schema import NO_JSON, ROWS, SCHEMA, check_schema, connect, insert_row, read_lines

_OTHERS = ("meta", "questions", "replies", "payments")  # tables besides the rows

_Key = tuple[str, str, int, int]  # columns of a row that no other row has


def read_keys(folder: Path) -> set[_Key]:
    return {key for key, _ in _parse_records(read_lines(folder))}


def restore(
    path: Path, damaged: sqlite3.Connection | None, read_only: bool
) -> tuple[int | None, sqlite3.Connection | None]:
    """Make a run's database again from the copies in its folder, and with what only the old one has.

    Return the number of rows, None if nothing at all is left of the run; and a temporary database for a reader. Of a
    writer the new one has the place of the old one, which is kept as `run.db.damaged`.
    """
    new = path.with_name(f"{path.name}.restored")
    new.unlink(missing_ok=True)
    target = connect("" if read_only else new.absolute().as_uri())
    target.executescript(SCHEMA)
    n_rows = _rebuild(damaged, path.parent, target)
    if n_rows is not None and damaged is not None:
        damaged.close()
    if n_rows is not None and read_only:
        target.execute("PRAGMA query_only = 1")
        return n_rows, target
    target.close()
    if n_rows is None:
        new.unlink(missing_ok=True)
        return None, None
    # The log goes first: SQLite would apply it to whatever has the database's name. A process that is killed in between
    # leaves a database without log, which is made again in the same way.
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    for name in (path.name + "-wal", path.name):
        with suppress(FileNotFoundError):
            path.with_name(name).replace(path.with_name(name + ".damaged"))
    new.replace(path)
    return n_rows, None


def _rebuild(damaged: sqlite3.Connection | None, folder: Path, target: sqlite3.Connection) -> int | None:
    """Fill a new database, with empty tables; return the number of rows, None if nothing is left of the run."""
    target.execute("BEGIN")
    with suppress(OSError, *NO_JSON), (folder / FACTS).open("rb") as file:
        meta = {str(name): str(value) for name, value in json.loads(next(file, b"")).items()}
        plan = [(str(sample_id), str(data)) for sample_id, data in map(json.loads, file)]
        target.executemany("INSERT INTO meta VALUES(?, ?)", meta.items())
        target.executemany("INSERT OR IGNORE INTO questions(id, data) VALUES(?, ?)", plan)
    if damaged is not None:
        try:
            check_schema(damaged, SCHEMA)
            _copy_tables(damaged, target)
        except (sqlite3.Error, UnicodeDecodeError):
            damaged = None
    known: set[_Key] = set()
    for key, record in _parse_records(chain(read_lines(folder), _read_rows(damaged))):
        with suppress(*NO_JSON):
            if key not in known:
                row, details, _ = build_row(record, len(known) + 1, _estimate_end(record))
                insert_row(target, row, details)
                known.add(key)
    target.execute("COMMIT")
    is_empty = target.execute("SELECT 1 FROM meta UNION ALL SELECT 1 FROM questions LIMIT 1").fetchone() is None
    return None if is_empty and not known else len(known)


def _copy_tables(damaged: sqlite3.Connection, target: sqlite3.Connection) -> None:
    for table in _OTHERS:
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
            for values in damaged.execute(f"SELECT * FROM {table}"):
                target.execute(f"INSERT OR IGNORE INTO {table} VALUES({', '.join('?' * len(values))})", values)


def _parse_records(lines: Iterable[bytes]) -> Iterator[tuple[_Key, Record]]:
    for line in lines:
        with suppress(*NO_JSON):
            record = Record.from_dict(json.loads(line))
            key = (record.variant, escape(record.sample_id), record.epoch, record.attempt)
            hash(key)
            yield key, record


def _read_rows(damaged: sqlite3.Connection | None) -> Iterator[bytes]:
    """Yield the rows of a damaged database, as lines of `records.jsonl`, up to a page that cannot be read."""
    if damaged is not None:
        damaged.text_factory = bytes  # a byte that is no UTF-8 costs its row alone
        with suppress(sqlite3.Error, TypeError):
            for data, details in damaged.execute(ROWS):
                yield data[:-1] + b", " + details[1:]


def _estimate_end(record: Record) -> str:
    """Return when an answer was finished, which its copy does not say."""
    with suppress(ValueError):
        return (datetime.fromisoformat(record.started_at) + timedelta(seconds=record.wall_seconds)).isoformat()
    return datetime.now(UTC).isoformat()
