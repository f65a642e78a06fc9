"""Rows of a damaged database that can still be had: from copies in the run's folder, and what is readable."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from eval.runs.folder import FACTS, RECORDS, TUNING_FILE
from eval.runs.record import Record, build_row, escape
from eval.runs.run_schema import NO_JSON, ROWS, SCHEMA, StoreError, connect, insert_row, read_lines

_Key = tuple[str, str, int, int]  # columns of a row that no other row has


def read_keys(folder: Path) -> set[_Key]:
    """Return which rows `records.jsonl` has."""
    return {key for key, _ in _parse_records(read_lines(folder))}


def restore(
    path: Path, damaged: sqlite3.Connection | None, read_only: bool, reason: str, warn: Callable[[str], None]
) -> sqlite3.Connection | None:
    """Make a run's database again from the copies in its folder, and with what only the old one has.

    Return a temporary database for a reader. Of a writer the new one has the place of the old one, which is kept as
    `run.db.damaged`. StoreError: nothing at all is left of the run.
    """
    new, is_kept = path.with_name(f"{path.name}.restored"), not read_only and path.is_file()
    new.unlink(missing_ok=True)
    target = connect("" if read_only else new.absolute().as_uri())
    target.executescript(SCHEMA)
    n_rows = _rebuild(damaged, path.parent, target)
    if n_rows is None:
        target.close()
        new.unlink(missing_ok=True)
        raise StoreError(f"{reason}, and its folder has no copy to restore it from: start a new run")
    if damaged is not None:
        damaged.close()
    if read_only:
        target.execute("PRAGMA query_only = 1")
    else:
        target.close()
        # The log goes first: SQLite would apply it to whatever has the database's name. A process that is killed in
        # between leaves a database without log, which is made again in the same way.
        path.with_name(path.name + "-shm").unlink(missing_ok=True)
        for name in (path.name + "-wal", path.name):
            with suppress(FileNotFoundError):
                path.with_name(name).replace(path.with_name(name + ".damaged"))
        new.replace(path)
    resume = "resume" if path.with_name(TUNING_FILE).is_file() else "run.resume"
    warn(f"{reason}: made again from {RECORDS} with {n_rows} answers; {resume} asks again what is missing")
    if is_kept:  # a warning of its own: the first is that of a process that has read the run before
        warn(f"the damaged file is kept as {path}.damaged")
    return target if read_only else None


def _rebuild(damaged: sqlite3.Connection | None, folder: Path, target: sqlite3.Connection) -> int | None:
    """Fill a new database, with empty tables; return the number of rows, None if nothing is left of the run."""
    target.execute("BEGIN")
    with suppress(OSError, *NO_JSON), (folder / FACTS).open("rb") as file:
        facts = {str(name): str(value) for name, value in json.loads(next(file, b"")).items()}
        target.executemany("INSERT INTO meta VALUES(?, ?)", facts.items())
    if damaged is not None:
        damaged.text_factory = bytes  # a byte that is no UTF-8 costs its row alone
        for table in ("meta", "replies", "payments"):
            _copy_table(damaged, target, table)
    known: set[_Key] = set()
    for key, record in _parse_records(chain(read_lines(folder), _read_rows(damaged))):
        with suppress(*NO_JSON):
            if key not in known:
                row, _ = build_row(record, len(known) + 1, str(record.started_at))
                insert_row(target, row)
                known.add(key)
    target.execute("COMMIT")
    has_facts = target.execute("SELECT 1 FROM meta").fetchone() is not None
    return len(known) if has_facts or known else None


def _copy_table(damaged: sqlite3.Connection, target: sqlite3.Connection, table: str) -> None:
    """Copy rows up to a page that cannot be read; of two with one key the first stays."""
    with suppress(sqlite3.DatabaseError):
        for values in damaged.execute(f"SELECT * FROM {table}"):
            with suppress(UnicodeDecodeError):
                row = [each.decode() if isinstance(each, bytes) else each for each in values]
                target.execute(f"INSERT OR IGNORE INTO {table} VALUES({', '.join('?' * len(row))})", row)


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
        with suppress(sqlite3.Error, TypeError):
            for data, details in damaged.execute(ROWS):
                yield data[:-1] + b", " + details[1:]
