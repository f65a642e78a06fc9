"""Second copy of a run's database as text: each row is appended to `records.jsonl`, all else to `run.journal`.

A line of the journal is the checksum of its JSON, a space, and the JSON. Both files are appended to after the database
has the row, so they never hold more than it was given: what it lacks was lost. They are conveniences like all copies; a
line that cannot be written is no failure of the run, and is written again when the run is resumed or reported.

    journal = Journal(folder)
    journal.add_meta("info", "{…}")
    journal.add_row(JournalRow(1, "q1", 1, 1, compute_crc(line)), line)
    journal.read().rows                 # [JournalRow(row=1, sample_id="q1", …)]
    journal.read_lines({crc})           # the lines of records.jsonl with these checksums
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

from eval.runs.folder import JOURNAL, RECORDS, write_atomically
from eval.runs.sqlite_file import compute_crc

_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)  # of a line whose bytes went bad
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_MAX_BYTES = 256 * 1024 * 1024  # of the journal, or of one line of records.jsonl: far more than any run has
PlanRows = list[tuple[str, str]]  # id, escaped, and the question as JSON


@dataclass(frozen=True)
class JournalRow:
    """Row of the database, without its content."""

    row: int
    sample_id: str
    epoch: int
    attempt: int
    finished_at: str
    line_crc: int  # of the whole record as a line of JSON

    @property
    def key(self) -> tuple[str, int, int]:
        return self.sample_id, self.epoch, self.attempt


@dataclass
class JournalContent:
    """Everything that the journal has, as far as its lines are undamaged; of each key and of the plan the last one."""

    meta: dict[str, str] = field(default_factory=dict)
    plan: PlanRows | None = None
    rows: dict[int, JournalRow] = field(default_factory=dict)
    n_damaged: int = 0  # lines, without a last one that was cut off


class Journal:
    """Both copies in a run's folder. One process writes, the one that holds the database."""

    def __init__(self, folder: Path) -> None:
        self.path, self.records_path = folder / JOURNAL, folder / RECORDS

    def exists(self) -> bool:
        return self.path.is_file()

    def add_meta(self, key: str, value: str) -> None:
        self._append(self.path, _encode({"meta": [key, value]}))

    def add_plan(self, plan: PlanRows) -> None:
        self._append(self.path, _encode({"plan": plan}))

    def add_row(self, row: JournalRow, line: str) -> None:
        """Append a record and its row; `line`: the record as JSON."""
        self._append(self.records_path, line + "\n")
        self._append(self.path, _encode({"row": asdict(row)}))

    def read(self) -> JournalContent:
        """Return what can be read; nothing if there is no journal."""
        content, lines = JournalContent(), []
        with suppress(OSError):
            if self.path.stat().st_size <= _MAX_BYTES:
                lines = self.path.read_bytes().split(b"\n")
        *whole, rest = lines or [b""]  # the rest: cut off by a kill, or nothing
        for line in filter(None, whole):
            try:
                _add_line(content, line)
            except _DAMAGED:
                content.n_damaged += 1
        with suppress(*_DAMAGED):
            _add_line(content, rest)
        return content

    def read_lines(self, checksums: Collection[int]) -> Iterator[str]:
        """Yield the lines of `records.jsonl` that have one of the checksums."""
        with suppress(OSError), self.records_path.open("rb") as file:
            for raw in iter(lambda: file.readline(_MAX_BYTES), b""):
                if _compute_line_crc(raw) in checksums:
                    yield raw.decode("ascii", "replace")

    def holds(self, meta: dict[str, str], plan: PlanRows, rows: Iterable[JournalRow]) -> bool:
        """Return whether both files hold this, undamaged, and nothing else."""
        wanted = {each.row: each for each in rows}
        content = self.read()
        if content != JournalContent(meta, content.plan, wanted) or (content.plan or []) != plan:
            return False
        if not wanted and not self.records_path.exists():
            return True
        return has_lines(self.records_path, [each.line_crc for each in wanted.values()])

    def rewrite(self, meta: dict[str, str], plan: PlanRows, rows: Iterable[JournalRow], lines: Iterable[str]) -> None:
        """Write both files again from the database.

        Raises:
            OSError: the folder cannot be written; the old files stay.
        """
        with write_atomically(self.records_path, "ascii") as file:
            file.writelines(f"{line}\n" for line in lines)
        with write_atomically(self.path, "ascii") as file:
            _write_all(file, meta, plan, rows)

    def _append(self, path: Path, text: str) -> None:
        """Append the whole text or nothing: half a line would spoil the next one, too."""
        with suppress(OSError), os.fdopen(os.open(path, _APPEND, 0o666), "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                data = memoryview(text.encode("ascii"))
                while data:
                    data = data[file.write(data) :]
            except OSError:
                os.ftruncate(file.fileno(), end)


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


def _write_all(file: TextIO, meta: dict[str, str], plan: PlanRows, rows: Iterable[JournalRow]) -> None:
    file.writelines(_encode({"meta": [key, value]}) for key, value in meta.items())
    file.write(_encode({"plan": plan}))
    file.writelines(_encode({"row": asdict(row)}) for row in rows)


def _encode(entry: dict[str, object]) -> str:
    text = json.dumps(entry)
    return f"{compute_crc(text)} {text}\n"


def _add_line(content: JournalContent, line: bytes) -> None:
    """
    Raises:
        ValueError, TypeError, KeyError: the line is damaged.
    """
    crc, _, text = line.decode("ascii").partition(" ")
    if int(crc) != compute_crc(text):
        raise ValueError(crc)
    entry = json.loads(text)
    if "meta" in entry:
        key, value = entry["meta"]
        content.meta[str(key)] = str(value)
    elif "plan" in entry:
        content.plan = [(str(sample_id), str(data)) for sample_id, data in entry["plan"]]
    else:
        row = JournalRow(**entry["row"])
        content.rows[row.row] = row
