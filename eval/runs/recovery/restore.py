"""Damage to a run's database, and restoring it from what is left of it and from its copies in the folder.

    find_damage(database, journal.read(), whole=True)         # "row 17 has a wrong checksum", or None
    restored = restore(database, journal, target)             # fills a new, empty database
    restored.describe()                                       # "59 of 60 answers were restored; …"

A row counts if its checksum is right, wherever it is found: in the damaged database, or in `records.jsonl`, whose lines
have their checksums in `run.journal`.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from eval.runs.record import Record, Row, build_row, is_intact, join_line, unescape
from eval.runs.recovery.journal import Journal, JournalContent, JournalRow, PlanRows
from eval.runs.sqlite_file import compute_crc

PLAN = "plan"  # key of `meta`: number of planned questions, and the checksum over them
_SHOWN = 20
_SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ: the file ends too early
_ROW = "SELECT row, sample_id, epoch, attempt, finished_at, line_crc FROM records"


def is_damage(error: Exception) -> bool:
    """Return whether an error of SQLite means that bytes of the file are wrong, not that it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's own module, such as for a text that is no UTF-8
        return type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError)
    return code == _SHORT_READ or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def encode_plan(rows: PlanRows) -> str:
    """Return the value of PLAN in `meta`."""
    return json.dumps([len(rows), compute_crc(*(part for row in rows for part in row))])


def read_meta(database: sqlite3.Connection, key: str) -> str | None:
    """Return a value of `meta`; None if there is none.

    Raises:
        sqlite3.DatabaseError: it is damaged.
    """
    found = database.execute("SELECT key, value, checksum FROM meta WHERE key = ?", (key,)).fetchone()
    if found is None:
        return None
    if not is_intact(found):
        raise sqlite3.DatabaseError(f"its {key} has a wrong checksum")
    return str(found[1])


def read_rows(database: sqlite3.Connection) -> dict[int, JournalRow]:
    """Return the rows of the database without their content."""
    found = database.execute(f"{_ROW} ORDER BY row")
    rows = (JournalRow(row, unescape(sample_id), *rest) for row, sample_id, *rest in found)
    return {each.row: each for each in rows}


def find_damage(database: sqlite3.Connection, content: JournalContent, whole: bool) -> str | None:
    """Return the first damage that is found, in words; None if there is none.

    Args:
        database: of a run that nobody writes to.
        content: of the run's journal.
        whole: read states and trajectories, too; they are most of the file.

    Raises:
        sqlite3.DatabaseError: the damage is such that SQLite cannot go on.
    """
    for scope in ("",) if whole else ("(records)", "(questions)", "(meta)"):
        (result,) = database.execute(f"PRAGMA integrity_check{scope}").fetchone()
        if result != "ok":
            return " ".join(str(result).split())[:200]
    for row in database.execute("SELECT * FROM records NOT INDEXED ORDER BY row"):
        if not is_intact(row):
            return f"row {row[0]} has a wrong checksum"
    plan = read_meta(database, PLAN)
    if plan is not None and plan != encode_plan(read_plan(database)):
        return "its list of questions has a wrong checksum"
    for key in (*content.meta, *_list_keys(database)):
        if read_meta(database, key) is None:
            return f"its {key} is missing"
    if missing := content.rows.keys() - read_rows(database).keys():
        return f"{len(missing)} rows that were written to it are missing, as if its write-ahead log had been shortened"
    for number, *parts in _read_whole_rows(database) if whole else ():
        if not is_whole(*parts):
            return f"row {number} has a wrong checksum"
    return None


def is_whole(data: object, details: object, line_crc: object) -> bool:
    """Return whether two parts of a record, of any type, have the checksum of the whole."""
    return isinstance(data, str) and isinstance(details, str) and compute_crc(join_line(data, details)) == line_crc


def read_plan(database: sqlite3.Connection) -> PlanRows:
    """Return the plan as it is stored."""
    return [
        (str(sample_id), str(data))
        for sample_id, data in database.execute("SELECT id, data FROM questions ORDER BY place")
    ]


def _read_whole_rows(database: sqlite3.Connection) -> Iterator[Row]:
    return database.execute(
        "SELECT row, records.data, details.data, line_crc FROM records LEFT JOIN details USING(row)"
    )


@dataclass
class Restored:
    """Outcome of restoring a database."""

    n_rows: int = 0
    n_from_copy: int = 0  # of which: from records.jsonl
    lost: list[str] = field(default_factory=list)  # answers that were written and are nowhere, in words
    other: list[str] = field(default_factory=list)  # parts besides the answers that are nowhere
    found_any: bool = False  # whether anything was left

    def describe(self) -> str:
        """Return the outcome in words."""
        copies = f", {self.n_from_copy} of them from records.jsonl" if self.n_from_copy else ""
        parts = [f"{self.n_rows} of {self.n_rows + len(self.lost)} answers were restored{copies}"]
        if self.lost:
            more = f" and {len(self.lost) - _SHOWN} more" if len(self.lost) > _SHOWN else ""
            parts.append(f"lost, and asked again by a resumed run: {', '.join(self.lost[:_SHOWN])}{more}")
        if self.other:
            parts.append(f"also lost: {', '.join(self.other)}")
        return "; ".join(parts)


def restore(damaged: sqlite3.Connection | None, journal: Journal, target: sqlite3.Connection) -> Restored:
    """Fill a new database with all that is left.

    Args:
        damaged: the old one; None: it is not there, or cannot be opened.
        journal: the run's.
        target: has empty tables.

    Raises:
        sqlite3.Error: the new one cannot be written.
    """
    content, restored = journal.read(), Restored()
    target.execute("BEGIN")
    _restore_rows(damaged, journal, content, target, restored)
    _restore_rest(damaged, content, target, restored)
    target.execute("COMMIT")
    restored.found_any |= restored.n_rows > 0
    return restored


def _restore_rows(
    damaged: sqlite3.Connection | None,
    journal: Journal,
    content: JournalContent,
    target: sqlite3.Connection,
    restored: Restored,
) -> None:
    known = content.rows
    left = set(known)
    if damaged is not None:
        for number in sorted(left | _list_numbers(damaged)):
            row = _read_intact_row(damaged, number)
            if row is None:
                left.add(number)
            else:
                insert_row(target, *row)
                restored.n_rows += 1
                left.discard(number)
    wanted = {known[number].line_crc: known[number] for number in left if number in known}
    for line in journal.read_lines(wanted):
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            record = Record.from_dict(json.loads(line))
            place = wanted.pop(compute_crc(line.removesuffix("\n")))
            insert_row(target, *build_row(record, place.row, place.finished_at)[:2])
            restored.n_rows += 1
            restored.n_from_copy += 1
            left.discard(place.row)
    restored.lost = [_describe(known.get(number), number) for number in sorted(left)]


def _describe(row: JournalRow | None, number: int) -> str:
    if row is None:
        return f"row {number}"
    epoch = f" (epoch {row.epoch})" if row.epoch > 1 else ""
    return f"{row.sample_id}{epoch}"


def _list_numbers(damaged: sqlite3.Connection) -> set[int]:
    """Return the numbers of the rows that can still be listed."""
    found: set[int] = set()
    with suppress(sqlite3.Error, UnicodeDecodeError):
        for (number,) in damaged.execute("SELECT row FROM records NOT INDEXED ORDER BY row"):
            found.add(number)
    return found


def _read_intact_row(damaged: sqlite3.Connection, number: int) -> tuple[Row, str] | None:
    with suppress(sqlite3.Error, UnicodeDecodeError):
        row = damaged.execute("SELECT * FROM records NOT INDEXED WHERE row = ?", (number,)).fetchone()
        details = damaged.execute("SELECT data FROM details WHERE row = ?", (number,)).fetchone()
        if row and details and is_intact(row) and is_whole(row[-2], details[0], row[-3]):
            return row, details[0]
    return None


def insert_row(target: sqlite3.Connection, row: Row, details: str) -> None:
    target.execute(f"INSERT INTO records VALUES({', '.join('?' * len(row))})", row)
    target.execute("INSERT INTO details VALUES(?, ?)", (row[0], details))


def _restore_rest(
    damaged: sqlite3.Connection | None, content: JournalContent, target: sqlite3.Connection, restored: Restored
) -> None:
    """Restore the facts about the run, and its plan: from the database, which is never older, or from the journal."""
    keys = [*content.meta, *(key for key in _list_keys(damaged) if key not in content.meta)]
    for key in keys:
        value = _read_intact_meta(damaged, key) or content.meta.get(key)
        if value is None:
            restored.other.append(key)
        elif key != PLAN:
            write_meta(target, key, value)
            restored.found_any = True
    plan = _read_intact_plan(damaged)
    if plan is None and content.plan is None:
        restored.other.append("its list of questions")
    write_plan(target, plan if plan is not None else content.plan or [])


def write_meta(database: sqlite3.Connection, key: str, value: str) -> None:
    database.execute("INSERT OR REPLACE INTO meta VALUES(?, ?, ?)", (key, value, compute_crc(key, value)))


def write_plan(database: sqlite3.Connection, plan: PlanRows) -> None:
    database.executemany("INSERT INTO questions(id, data) VALUES(?, ?)", plan)
    write_meta(database, PLAN, encode_plan(plan))


def _list_keys(damaged: sqlite3.Connection | None) -> list[str]:
    if damaged is not None:
        with suppress(sqlite3.Error, UnicodeDecodeError):
            return [str(key) for (key,) in damaged.execute("SELECT key FROM meta")]
    return []


def _read_intact_meta(damaged: sqlite3.Connection | None, key: str) -> str | None:
    if damaged is not None:
        with suppress(sqlite3.Error, UnicodeDecodeError):
            return read_meta(damaged, key)
    return None


def _read_intact_plan(damaged: sqlite3.Connection | None) -> PlanRows | None:
    if damaged is not None:
        with suppress(sqlite3.Error, UnicodeDecodeError):
            plan = read_plan(damaged)
            return plan if encode_plan(plan) == read_meta(damaged, PLAN) else None
    return None


def set_aside(path: Path) -> None:
    """Keep the damaged database, and its write-ahead log, under names that end in `.damaged`.

    The log goes first: SQLite would apply it to whatever has the database's name. A process that is killed in between
    leaves a database without log, which is restored in the same way.

    Raises:
        OSError: the folder cannot be written.
    """
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    for name in (path.name + "-wal", path.name):
        with suppress(FileNotFoundError):
            path.with_name(name).replace(path.with_name(name + ".damaged"))
