"""Damage to a run's database: found, and the database made again from the copies in the run's folder.

    inspect(database, folder).damage       # "row 17 cannot be read: …", or None
    rebuild(damaged, folder, target)       # 60: so many rows has the new, empty database now

`records.jsonl` has each row as a line; `run.jsonl` has the facts about the run, and then each planned question.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from eval.runs.folder import FACTS, RECORDS, write_lines
from eval.runs.record import (
    PlannedQuestion,
    PlanRows,
    Record,
    build_row,
    escape,
    insert_row,
    join_line,
    list_columns,
    read_meta,
    read_plan,
    write_meta,
    write_plan,
)

INFO, STATE = "info", "state"  # keys of `meta`: RunInfo and RunState as JSON
HOLDER = "holder"  # the process that writes; not copied
_MAX_LINE_BYTES = 256 * 1024 * 1024  # far more than any record has
_SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ: the file ends too early
_NO_JSON = (ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of JSON whose bytes went bad
_NO_SQLITE = (sqlite3.Error, UnicodeDecodeError)
_ROWS = """
SELECT row, variant, sample_id, epoch, attempt, thread_id, error_class, records.data, details.data
FROM records NOT INDEXED LEFT JOIN details USING(row)"""


def is_damage(error: Exception) -> bool:
    """Return whether an error of SQLite means that bytes of the file are wrong, not that it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's own module, such as for a text that is no UTF-8
        return type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError)
    return code == _SHORT_READ or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@dataclass(frozen=True)
class Inspection:
    """State of a database and of its copy."""

    damage: str | None = None  # the first that was found, in words
    is_copied: bool = False  # records.jsonl has exactly its rows


def inspect(database: sqlite3.Connection, folder: Path) -> Inspection:
    """Read all of a database that nobody writes to, and compare its rows with the lines of `records.jsonl`.

    Raises:
        sqlite3.Error, UnicodeDecodeError: it is damaged in such a way that it cannot be read.
    """
    (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        return Inspection(" ".join(str(result).split())[:200])
    try:
        _check_facts(database)
    except _NO_JSON as error:
        return Inspection(f"its facts about the run cannot be read: {error}")
    lines = [hash(line) for line in _read_lines(folder)]
    left, n_rows = set(lines), 0
    for row, *columns, data, details in database.execute(_ROWS):
        try:
            line = hash(join_line(data, details).encode())
            if line not in left:
                json.loads(details)
            if columns != list_columns(Record.from_dict(json.loads(data))):
                raise ValueError("its columns contradict each other")
        except _NO_JSON as error:
            return Inspection(f"row {row} cannot be read: {error}")
        left.discard(line)
        n_rows += 1
    if left and (n_records := sum(hash(line) in left and _parse(line) is not None for line in _read_lines(folder))):
        return Inspection(f"lines of {RECORDS} that are not in it: {n_records}")
    return Inspection(is_copied=not left and len(lines) == n_rows)


def _check_facts(database: sqlite3.Connection) -> None:
    meta = read_meta(database)
    for name in (INFO, STATE):
        json.loads(meta.get(name, "{}"))
    for sample_id, data in read_plan(database):
        if escape(PlannedQuestion(**json.loads(data)).id) != sample_id:
            raise ValueError("a question has another id than its row")


def _read_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of `records.jsonl` without their ends; the last one may be cut off."""
    with suppress(OSError), (folder / RECORDS).open("rb") as file:
        for line in iter(lambda: file.readline(_MAX_LINE_BYTES), b""):
            yield line.removesuffix(b"\n")


def _parse(line: bytes | str) -> Record | None:
    """Return the record of a line; None if the line is damaged."""
    with suppress(*_NO_JSON):
        return Record.from_dict(json.loads(line))
    return None


def rebuild(damaged: sqlite3.Connection | None, folder: Path, target: sqlite3.Connection) -> int | None:
    """Fill a new database from the copies, and with what only the damaged one has.

    Args:
        damaged: the old one; None: it is not there, or cannot be opened.
        folder: of the run, with its copies.
        target: has empty tables.

    Returns:
        Number of rows; None if nothing at all is left of the run.

    Raises:
        sqlite3.Error: the new one cannot be written.
    """
    target.execute("BEGIN")
    known = set()
    copied = filter(None, map(_parse, _read_lines(folder)))
    for record in chain(copied, _read_whole_rows(damaged)):
        key = (record.variant, record.sample_id, record.epoch, record.attempt)
        if key not in known:
            known.add(key)
            row, details, _ = build_row(record, len(known), _estimate_end(record))
            insert_row(target, row, details)
    meta, plan = _read_copied_facts(folder)
    if damaged is not None:
        with suppress(*_NO_SQLITE):
            meta = {**read_meta(damaged), **meta}
        with suppress(*_NO_SQLITE):
            plan = plan or read_plan(damaged)
    for name, value in meta.items():
        write_meta(target, name, value)
    write_plan(target, plan)
    target.execute("COMMIT")
    return len(known) if known or meta or plan else None


def _read_whole_rows(damaged: sqlite3.Connection | None) -> Iterator[Record]:
    """Yield the records that can still be read."""
    if damaged is None:
        return
    numbers: list[int] = []
    with suppress(*_NO_SQLITE):
        numbers.extend(number for (number,) in damaged.execute("SELECT row FROM details"))
    for number in numbers:
        with suppress(*_NO_SQLITE, *_NO_JSON):
            _, *columns, data, details = damaged.execute(f"{_ROWS} WHERE row = ?", (number,)).fetchone()
            record = _parse(join_line(data, details))
            if record is not None and columns == list_columns(record):
                yield record


def _estimate_end(record: Record) -> str:
    """Return when an answer was finished, which its copy does not say."""
    with suppress(ValueError):
        return (datetime.fromisoformat(record.started_at) + timedelta(seconds=record.wall_seconds)).isoformat()
    return datetime.now(UTC).isoformat()


def _read_copied_facts(folder: Path) -> tuple[dict[str, str], PlanRows]:
    """Return the facts about the run and its plan; nothing if their copy is damaged or gone."""
    with suppress(OSError, *_NO_JSON), (folder / FACTS).open("rb") as file:
        meta = {str(name): str(value) for name, value in json.loads(next(file, b"")).items()}
        return meta, [(str(sample_id), str(data)) for sample_id, data in map(json.loads, file)]
    return {}, []


def write_facts(database: sqlite3.Connection, folder: Path) -> None:
    """Write the copy of the facts about the run and of its plan.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    meta = {name: value for name, value in read_meta(database).items() if name != HOLDER}
    with suppress(OSError):  # a full disk: noticed by the next row
        write_lines(folder / FACTS, map(json.dumps, chain([meta], read_plan(database))))


def set_aside(path: Path) -> None:
    """Keep the damaged database, and its write-ahead log, under names that end in `.damaged`.

    The log goes first: SQLite would apply it to whatever has the database's name. A process that is killed in between
    leaves a database without log, which is made again in the same way.

    Raises:
        OSError: the folder cannot be written.
    """
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    for name in (path.name + "-wal", path.name):
        with suppress(FileNotFoundError):
            path.with_name(name).replace(path.with_name(name + ".damaged"))
