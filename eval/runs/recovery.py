"""Rows and facts of a damaged database that can still be had: from the copies in the run's folder, and from itself."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from eval.runs.folder import FACTS
from eval.runs.record import NO_JSON, ROWS, SCHEMA, Record, build_row, insert_row, read_lines


def rebuild(damaged: sqlite3.Connection | None, folder: Path, target: sqlite3.Connection) -> int | None:
    """Fill a new database from the copies in the run's folder and with what only the damaged one has, if that is there.

    Returns:
        Number of rows; None if nothing at all is left of the run.
    """
    target.executescript(SCHEMA)
    target.execute("BEGIN")
    known = set[tuple[object, ...]]()
    for line in chain(read_lines(folder), _read_rows(damaged)):
        with suppress(*NO_JSON):
            record = Record.from_dict(json.loads(line))
            key = (record.variant, record.sample_id, record.epoch, record.attempt)
            if key not in known:
                row, details, _ = build_row(record, len(known) + 1, record.started_at)
                insert_row(target, row, details)
                known.add(key)
    meta, plan = _read_facts(folder, damaged)
    target.executemany("INSERT INTO meta VALUES(?, ?)", meta.items())
    target.executemany("INSERT INTO questions(id, data) VALUES(?, ?)", plan)
    target.execute("COMMIT")
    return len(known) if known or meta or plan else None


def _read_rows(damaged: sqlite3.Connection | None) -> Iterator[bytes]:
    """Yield the rows of a damaged database up to one that cannot be read, as lines of `records.jsonl`."""
    if damaged is not None:
        with suppress(sqlite3.Error):
            parts = "CAST(records.data AS BLOB), CAST(details.data AS BLOB)"  # their bytes may be no text any more
            for data, details in damaged.execute(f"SELECT {parts} {ROWS} ORDER BY row"):
                yield (data or b"")[:-1] + b", " + (details or b"")[1:]


def _read_facts(folder: Path, damaged: sqlite3.Connection | None) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the facts about the run and its plan, as far as they are left."""
    with suppress(OSError, *NO_JSON), (folder / FACTS).open("rb") as file:
        meta = {str(name): str(value) for name, value in json.loads(next(file, b"")).items()}
        return meta, [(str(sample_id), str(data)) for sample_id, data in map(json.loads, file)]
    with suppress(sqlite3.Error, UnicodeDecodeError):
        if damaged is not None:
            plan = damaged.execute("SELECT id, data FROM questions ORDER BY place").fetchall()
            return dict(damaged.execute("SELECT key, value FROM meta").fetchall()), plan
    return {}, []
