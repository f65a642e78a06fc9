"""The truth about a run: one SQLite row per (question, epoch, attempt), in `run.db` of the run's folder.

Answer files, tables and MLflow are made from it and can be made again. WAL with synchronous=FULL: a row whose `write`
has returned survives the death of the process and of the machine.

    with RunStore(folder / "run.db") as store:
        store.write(record)
        store.finished_keys()      # {("q1", 1, 1)}
"""

import dataclasses
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePath
from threading import Lock
from types import TracebackType
from typing import Any, Self

from eval.record import Record

SCHEMA_VERSION = 1
_SCHEMA = f"""
BEGIN;
CREATE TABLE IF NOT EXISTS records(
    example_id TEXT NOT NULL,    -- as inside a JSON string: escaped, so any Python string fits
    epoch INT NOT NULL,
    attempt INT NOT NULL,
    data TEXT NOT NULL,          -- the Record as JSON
    finished_at TEXT NOT NULL,   -- UTC, ISO 8601
    PRIMARY KEY(example_id, epoch, attempt)
);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT OR IGNORE INTO meta VALUES('schema_version', '{SCHEMA_VERSION}');
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_PAGE_ROWS = 100
_MAX_DEPTH = 40

Key = tuple[str, int, int]  # example id, epoch, attempt


class StoreError(Exception):
    """The run's database cannot be read or written; the message is one sentence for the user."""


class RunStore:
    """The records of one run. Any thread may call it; calls take turns."""

    def __init__(self, path: Path) -> None:
        """Open the database, or make it together with its folder.

        Raises:
            StoreError: it cannot be opened, or it was made by another version of this program.
        """
        self.path = path
        self._lock = Lock()
        with self._access("opened"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._prepare()
        except StoreError:
            self._database.close()
            raise

    def _prepare(self) -> None:
        with self._access("opened"):
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise StoreError(
                    f"{self.path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
                    f"open it with the program that wrote it, or start a new run"
                )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._database.executescript(_SCHEMA)

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """One caller at a time; what the disk or SQLite says becomes a sentence."""
        try:
            with self._lock:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{self.path} already has this row, and a row is written only once: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be {what} ({error}): check that the disk has room, the folder is writable and "
                f"the file is a run's database; rows already written are kept, and show in the run's answers"
            ) from error

    def write(self, record: Record) -> None:
        """Add one row; it is on the disk when this returns.

        Raises:
            StoreError: the row exists already, or the disk refuses it.
        """
        data = json.dumps(plain(vars(record)))
        row = (_escaped(record.example_id), record.epoch, record.attempt, data, datetime.now(UTC).isoformat())
        with self._access("written"):
            self._database.execute("INSERT INTO records VALUES(?, ?, ?, ?, ?)", row)

    def records(self) -> Iterator[Record]:
        """All rows in the order they were written; rows written meanwhile are included."""
        last_row = 0
        while rows := self._page(last_row):
            for last_row, data in rows:  # noqa: B007 - also where the next page starts
                yield Record.from_dict(json.loads(data))

    def _page(self, after_row: int) -> list[tuple[int, str]]:
        query = "SELECT rowid, data FROM records WHERE rowid > ? ORDER BY rowid LIMIT ?"
        with self._access("read"):
            return self._database.execute(query, (after_row, _PAGE_ROWS)).fetchall()

    def finished_keys(self) -> set[Key]:
        """The (example id, epoch, attempt) of every row, in error or not."""
        with self._access("read"):
            rows = self._database.execute("SELECT example_id, epoch, attempt FROM records").fetchall()
        return {(_unescaped(escaped_id), epoch, attempt) for escaped_id, epoch, attempt in rows}

    def set_meta(self, key: str, value: str) -> None:
        """Keep one fact about the whole run; a second value replaces the first."""
        with self._access("written"):
            self._database.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (_escaped(key), _escaped(value)))

    def meta(self) -> dict[str, str]:
        """The facts about the whole run, among them `schema_version`."""
        with self._access("read"):
            rows = self._database.execute("SELECT key, value FROM meta").fetchall()
        return {_unescaped(key): _unescaped(value) for key, value in rows}

    def close(self) -> None:
        """Fold the write-ahead log into the file. Closing twice is harmless."""
        with self._access("closed"):
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _escaped(text: str) -> str:
    """SQLite refuses lone surrogates and its own functions stop at a NUL; JSON's escapes are plain ASCII."""
    return json.dumps(text)[1:-1]


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))


def plain(value: Any, depth: int = 0) -> Any:
    """The value as what JSON can hold, whatever a system left in its state; never raises for the value's type.

    Pydantic models and dataclasses become objects, sets become sorted lists, paths their bare name (an absolute path
    would put this machine into the record), and what remains its `repr`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, PurePath):
        return value.name
    if depth >= _MAX_DEPTH:  # also how a structure that contains itself ends
        return repr(value)
    return _plain_container(value, depth + 1)


def _plain_container(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {_plain_key(key): plain(element, depth) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element, depth) for element in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(element, depth) for element in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth) for each in dataclasses.fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return plain(value.model_dump(), depth)
    return repr(value)


def _plain_key(key: Any) -> str:
    return key if isinstance(key, str) else str(plain(key))
