"""Damage to a run's database: noticed, named, and restored from what is left of it and from its copies in the folder.

    find_damage(database, read_journal(folder), whole=True)   # "row 17 has a wrong checksum", or None
    restored = restore(database, folder, target)              # fills a new, empty database
    restored.describe()                                       # "59 of 60 answers were restored; …"
    repair_copies(database, folder)                           # the copies are those of the database again

A row counts if its checksum is right, wherever it is found: in the damaged database, or in `records.jsonl`, whose lines
have their checksums in `run.journal`. A run that begins has nothing to recover and comes by none of this.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eval.runs.folder import JOURNAL, RECORDS
from eval.runs.record import (
    PLAN,
    JournalContent,
    JournalRow,
    PlanRows,
    Record,
    Row,
    add_entry,
    build_row,
    encode_entry,
    encode_plan,
    insert_row,
    is_intact,
    is_whole,
    join_line,
    read_meta,
    read_plan,
    read_rows,
    write_meta,
    write_plan,
)
from eval.runs.sqlite_file import compute_crc
from mas.runtime.security.private_file import write_atomically

_SHOWN = 20
_SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ: the file ends too early
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of a line whose bytes went bad
_MAX_BYTES = 256 * 1024 * 1024  # of the journal, or of one line of records.jsonl: far more than any run has


def is_damage(error: Exception) -> bool:
    """Return whether an error of SQLite means that bytes of the file are wrong, not that it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's own module, such as for a text that is no UTF-8
        return type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError)
    return code == _SHORT_READ or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


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


def restore(damaged: sqlite3.Connection | None, folder: Path, target: sqlite3.Connection) -> Restored:
    """Fill a new database with all that is left.

    Args:
        damaged: the old one; None: it is not there, or cannot be opened.
        folder: of the run, with its copies.
        target: has empty tables.

    Raises:
        sqlite3.Error: the new one cannot be written.
    """
    content, restored = read_journal(folder), Restored()
    target.execute("BEGIN")
    _restore_rows(damaged, folder, content, target, restored)
    _restore_rest(damaged, content, target, restored)
    target.execute("COMMIT")
    restored.found_any |= restored.n_rows > 0
    return restored


def _restore_rows(
    damaged: sqlite3.Connection | None,
    folder: Path,
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
    for line in read_lines(folder, wanted):
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


def read_journal(folder: Path) -> JournalContent:
    """Return what can be read; nothing if there is no journal."""
    path = folder / JOURNAL
    content, lines = JournalContent(), []
    with suppress(OSError):
        if path.stat().st_size <= _MAX_BYTES:
            lines = path.read_bytes().split(b"\n")
    *whole, rest = lines or [b""]  # the rest: cut off by a kill, or nothing
    for line in filter(None, whole):
        try:
            add_entry(content, line)
        except _DAMAGED:
            content.n_damaged += 1
    with suppress(*_DAMAGED):
        add_entry(content, rest)
    return content


def read_lines(folder: Path, checksums: Collection[int]) -> Iterator[str]:
    """Yield the lines of `records.jsonl` that have one of the checksums."""
    with suppress(OSError), (folder / RECORDS).open("rb") as file:
        for raw in iter(lambda: file.readline(_MAX_BYTES), b""):
            if _compute_line_crc(raw) in checksums:
                yield raw.decode("ascii", "replace")


def are_copies_whole(folder: Path, meta: dict[str, str], plan: PlanRows, rows: Iterable[JournalRow]) -> bool:
    """Return whether both files hold this, undamaged, and nothing else."""
    wanted = {each.row: each for each in rows}
    content = read_journal(folder)
    if content != JournalContent(meta, content.plan, wanted) or (content.plan or []) != plan:
        return False
    if not wanted and not (folder / RECORDS).exists():
        return True
    return has_lines(folder / RECORDS, [each.line_crc for each in wanted.values()])


def rewrite_copies(
    folder: Path, meta: dict[str, str], plan: PlanRows, rows: Iterable[JournalRow], lines: Iterable[str]
) -> None:
    """Write both files again from the database.

    Raises:
        OSError: the folder cannot be written; the old files stay.
    """
    with write_atomically(folder / RECORDS, "ascii") as file:
        file.writelines(f"{line}\n" for line in lines)
    with write_atomically(folder / JOURNAL, "ascii") as file:
        file.writelines(encode_entry({"meta": [key, value]}) for key, value in meta.items())
        file.write(encode_entry({"plan": plan}))
        file.writelines(encode_entry({"row": asdict(row)}) for row in rows)


def repair_copies(database: sqlite3.Connection, folder: Path) -> None:
    """Write the copies in the folder again if they are not those of the database, as after a kill.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    meta = {key: value for key, value in database.execute("SELECT key, value FROM meta") if key != PLAN}
    plan, rows = read_plan(database), list(read_rows(database).values())
    if not are_copies_whole(folder, meta, plan, rows):
        with suppress(OSError):  # a full disk: noticed again by the first row
            rewrite_copies(folder, meta, plan, rows, _join_lines(database))


def _join_lines(database: sqlite3.Connection) -> Iterator[str]:
    """Yield each whole record as a line of JSON."""
    found = database.execute("SELECT records.data, details.data FROM records JOIN details USING(row) ORDER BY row")
    for data, details in found:
        yield join_line(data, details)


def has_lines(path: Path, checksums: Iterable[int]) -> bool:
    """Return whether a file of records has exactly the lines with these checksums, in this order."""
    expected = iter(checksums)
    try:
        with path.open("rb") as file:
            lines = iter(lambda: file.readline(_MAX_BYTES), b"")
            same = all(_compute_line_crc(raw) == next(expected, None) for raw in lines)
    except OSError:
        return False
    return same and next(expected, None) is None


def _compute_line_crc(raw: bytes) -> int:
    return compute_crc(raw.removesuffix(b"\n").decode("ascii", "replace"))
