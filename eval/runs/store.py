"""SQLite store of a run's records, one row per (sample, epoch, attempt): `run.db` in the run's folder.

Everything else of a run (answer files, tables, MLflow) is made from it and can be made again. One process writes, any
number may read meanwhile. WAL with synchronous=FULL: a row whose `write` has returned survives the death of the process
and of the machine.

    with RunStore(folder / "run.db") as store:             # locked until closed
        store.plan(samples)
        store.write_info(RunInfo(run_id="1f3a…"))
        store.write(record)
        store.read_last_attempts()                                       # {("q1", 1): (1, None)}
    RunStore(folder / "run.db", read_only=True)            # also while another process writes
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar

from eval.benchmarks.dataset import Sample
from eval.runs.folder import DATABASE, Holder, RunInUseError, RunLock
from eval.runs.record import PlannedQuestion, Record, to_jsonable
from eval.runs.run_info import RunInfo, RunState
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey

_DETAILS = ("state", "trajectory")  # the last fields of a record


def encode_record(record: Record) -> tuple[str, str]:
    """Return the record as two JSON objects of plain ASCII: what is read often, and the details."""
    values = vars(record)
    return (
        _json({key: value for key, value in values.items() if key not in _DETAILS}),
        _json({key: values[key] for key in _DETAILS}),
    )


def _json(value: dict[str, object]) -> str:
    """Return JSON; most states are plain already, and `to_jsonable` takes longer than all the rest of a write."""
    try:
        return json.dumps(value, default=to_jsonable, allow_nan=False)
    except (ValueError, TypeError, RecursionError):  # not a number, a key that is no text, a loop
        return json.dumps(to_jsonable(value))


def join_line(data: str, details: str) -> str:
    """Return the whole record as one line of JSON; nothing is parsed for it."""
    return f"{data[:-1]}, {details[1:]}"


def escape(text: str) -> str:
    """Escape a text for a column: SQLite refuses lone surrogates, and its own functions stop at a NUL."""
    return json.dumps(text)[1:-1]


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    return str(json.loads(f'"{text}"'))


SCHEMA_VERSION = 3
RETRIED = ("infrastructure",)  # error classes that run.retry_errors runs again
UNFINISHED = ("quota_or_key",)  # error classes that say nothing about the sample: every later session runs it again
_INFO, _STATE = "info", "state"  # keys of `meta`: RunInfo and RunState as JSON
_SCHEMA = f"""
BEGIN;
CREATE TABLE IF NOT EXISTS records(
    row INTEGER PRIMARY KEY,     -- the order of writing
    sample_id TEXT NOT NULL,    -- as inside a JSON string: escaped, so any Python string fits
    epoch INT NOT NULL,
    attempt INT NOT NULL,
    thread_id TEXT NOT NULL,
    error_class TEXT,            -- null: no error
    cost_usd REAL,               -- of the answer and of judging it, as far as it is known
    finished_at TEXT NOT NULL,   -- UTC, ISO 8601
    line_bytes INT NOT NULL,     -- of the whole Record as a line of JSON
    data TEXT NOT NULL,          -- the Record as JSON, without what is in `details`
    UNIQUE(sample_id, epoch, attempt)
);
CREATE TABLE IF NOT EXISTS details(row INTEGER PRIMARY KEY, data TEXT NOT NULL);  -- state and trajectory: most of it
CREATE TABLE IF NOT EXISTS questions(place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT OR IGNORE INTO meta VALUES('schema_version', '{SCHEMA_VERSION}');
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_PAGE_ROWS = 200  # of records without details, some KB each
_BUSY_SECONDS = 30.0  # only ever waited for while another process folds the write-ahead log into the file
_FROZEN = "?immutable=1"  # in a folder that cannot be written, where nobody can be writing

AttemptKey = tuple[str, int, int]  # sample id, epoch, attempt
LastAttempts = Mapping[tuple[str, int], tuple[int, str | None]]  # (sample id, epoch) → last attempt, its error class


class CorrelationIds(TypedDict):
    """Line of `correlation_ids.jsonl`."""

    task_id: str
    thread_id: str
    epoch: int
    attempt: int


SqlValue = str | int | float | None
Row = tuple[Any, ...]
_Info = TypeVar("_Info", RunInfo, RunState)


class StoreError(Exception):
    """The run's database cannot be read or written; the message is one sentence for the user."""


class RunStore:
    """Records of one run. Any thread may call it; calls take turns."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Open the database; unless it is only to be read, lock it, and make it with its folder if it is missing.

        Raises:
            StoreError: another process writes to it, it cannot be opened, it was made by another version of this
                program, or it is to be read and is not there.
        """
        self.path = path
        self.read_only = read_only
        self._turns = Lock()
        self._run_lock = None if read_only else RunLock(path)
        self._take_lock()
        try:
            with self._access("opened"):
                self._database = self._connection()
            self._prepare()
        except BaseException:
            self._close()
            raise

    def _take_lock(self) -> None:
        if self._run_lock is None:
            return
        try:
            with self._access("opened"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._run_lock.take()
        except RunInUseError as error:
            holder = _holder(self.path) or "another process"
            raise StoreError(f"{self.path} is in use by {holder}; wait for it, or stop it") from error

    def _connection(self) -> sqlite3.Connection:
        options: dict[str, Any] = {"check_same_thread": False, "isolation_level": None, "timeout": _BUSY_SECONDS}
        address = self.path.absolute().as_uri()
        if self.read_only:
            if not self.path.is_file():
                raise StoreError(f"{self.path} is not there; name the folder of a run that has been started")
            # A reader, too, makes files next to the database, and takes them away again unless it is opened as "ro".
            address += "?mode=rw" if os.access(self.path.parent, os.W_OK) or self._is_open_elsewhere() else _FROZEN
        database: sqlite3.Connection = sqlite3.connect(address, uri=True, **options)
        return database

    def _is_open_elsewhere(self) -> bool:
        return self.path.with_name(self.path.name + "-wal").exists()

    def _prepare(self) -> None:
        with self._access("opened"):
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise StoreError(
                    f"{self.path} has schema version {version}, this program reads version {SCHEMA_VERSION}: "
                    f"open it with the program that wrote it, or start a new run"
                )
            if self.read_only:
                self._database.execute("PRAGMA query_only = 1")
                if version == 0:
                    raise StoreError(f"{self.path} holds nothing yet; the run ended before it began, start a new one")
                return
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._database.executescript(_SCHEMA)
        self._write_meta("holder", json.dumps(vars(Holder.this_process())))

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """Let one caller in at a time; an error of the disk or of SQLite becomes a sentence."""
        try:
            with self._turns:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{self.path} already has this row, and a row is written only once: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be {what} ({error}): check that the disk has room, the folder is writable and "
                f"the file is a run's database; rows already written are kept"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit everything inside, or nothing."""
        with self._access("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk has already rolled it back
                    self._database.execute("ROLLBACK")
                raise

    def write(self, record: Record) -> None:
        """Add one row; it is on the disk when this returns.

        Raises:
            StoreError: the row exists already, or the disk refuses it.
        """
        data, details = encode_record(record)
        error_class = record.error_class or (None if record.error is None else "unknown")
        cost_usd = record.usage.at_least_usd + record.scorer_usage.at_least_usd
        row = (
            *(None, escape(record.sample_id), record.epoch, record.attempt, escape(record.thread_id), error_class),
            *(cost_usd, datetime.now(UTC).isoformat(), len(join_line(data, details)), data),
        )
        with self._transaction():
            added = self._database.execute("INSERT INTO records VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._database.execute("INSERT INTO details VALUES(?, ?)", (added.lastrowid, details))

    def records(self, without_trajectory: bool = False) -> Iterator[Record]:
        """Yield all rows in the order they were written, a few in memory at a time, with those written meanwhile.

        Args:
            without_trajectory: leave `trajectory` and `state` empty: they are most of a record, and slow to read.
        """
        if without_trajectory:
            last_row = 0
            while page := self._all(
                "SELECT row, data FROM records WHERE row > ? ORDER BY row LIMIT ?", last_row, _PAGE_ROWS
            ):
                for last_row, data in page:  # noqa: B007 - also where the next page starts
                    yield Record.from_dict(json.loads(data))
        else:
            for whole in self.lines():
                yield Record.from_dict(json.loads(whole))

    def lines(self) -> Iterator[str]:
        """Yield each whole record as one line of JSON, in the order they were written; nothing is parsed for it."""
        for _, whole in self.lines_after(0):
            yield whole

    def lines_after(self, row: int) -> Iterator[tuple[int, str]]:
        """Yield the same with the row's number, from the row after `row` on: for an exporter that follows the run."""
        query = "SELECT row, records.data, details.data FROM records JOIN details USING(row) WHERE row > ?"
        last_row = row
        while found := self._all(f"{query} ORDER BY row LIMIT 1", last_row):  # one at a time: it may have 20 MB
            last_row, data, details = found[0]
            yield last_row, join_line(data, details)

    def final_records(self) -> Iterator[Record]:
        """Yield the last attempt at each (sample, epoch), in the order of the plan; without trajectory and state."""
        finals = self._all(
            "SELECT row, max(attempt) FROM records LEFT JOIN questions ON id = sample_id GROUP BY sample_id, epoch "
            "ORDER BY place IS NULL, coalesce(place, row), epoch"
        )
        for row, _ in finals:
            yield Record.from_dict(json.loads(self._all("SELECT data FROM records WHERE row = ?", row)[0][0]))

    def read_last_attempts(self) -> dict[tuple[str, int], tuple[int, str | None]]:
        """Return (sample id, epoch) → number of the last attempt and its error class; no record is read."""
        rows = self._all("SELECT sample_id, epoch, max(attempt), error_class FROM records GROUP BY sample_id, epoch")
        return {(unescape(escaped_id), epoch): (attempt, kind) for escaped_id, epoch, attempt, kind in rows}

    def list_finished_keys(self) -> set[AttemptKey]:
        """Return (sample id, epoch, attempt) of every row, in error or not."""
        rows = self._all("SELECT sample_id, epoch, attempt FROM records")
        return {(unescape(escaped_id), epoch, attempt) for escaped_id, epoch, attempt in rows}

    def correlation_ids(self) -> Iterator[CorrelationIds]:
        """Yield `task_id, thread_id, epoch, attempt` of every row, in the order they were written."""
        for sample_id, thread_id, epoch, attempt in self._all(
            "SELECT sample_id, thread_id, epoch, attempt FROM records ORDER BY row"
        ):
            yield {
                "task_id": unescape(sample_id),
                "thread_id": unescape(thread_id),
                "epoch": epoch,
                "attempt": attempt,
            }

    def cost_usd(self) -> float:
        """Return what all rows cost as far as it is known, earlier attempts and judging included."""
        return float(self._all("SELECT coalesce(sum(cost_usd), 0) FROM records")[0][0])

    def lines_bytes(self) -> int:
        """Return the length of all lines of `lines`, with a newline each."""
        return int(self._all("SELECT coalesce(sum(line_bytes + 1), 0) FROM records")[0][0])

    def last_finished_at(self) -> str | None:
        """Return the time at which the last row was written: UTC, ISO 8601."""
        found = self._all("SELECT finished_at FROM records ORDER BY row DESC LIMIT 1")
        return str(found[0][0]) if found else None

    def plan(self, questions: Iterable[Sample | PlannedQuestion], again: bool = False) -> None:
        """Keep the samples that the run is to answer; once, unless `again` replaces them (run.allow_config_change).

        Raises:
            StoreError: it has been planned already, an id occurs twice, or the disk refuses it.
        """
        planned = [each if isinstance(each, PlannedQuestion) else PlannedQuestion.of(each) for each in questions]
        rows = [(escape(each.id), json.dumps(to_jsonable(each.to_dict()))) for each in planned]
        with self._transaction():
            if again:
                self._database.execute("DELETE FROM questions")
            if self._database.execute("SELECT 1 FROM questions LIMIT 1").fetchone():
                raise StoreError(f"{self.path} already has its questions; resume that run, or start a new one")
            self._database.executemany("INSERT INTO questions(id, data) VALUES(?, ?)", rows)

    def read_plan(self) -> list[PlannedQuestion]:
        """Return the samples of the run in the dataset's order; each is to be answered `RunInfo.epochs` times."""
        rows = self._all("SELECT data FROM questions ORDER BY place")
        return [PlannedQuestion(**json.loads(data)) for (data,) in rows]

    def list_planned_ids(self) -> list[str]:
        """Return the ids of the planned samples, in the same order."""
        return [unescape(escaped_id) for (escaped_id,) in self._all("SELECT id FROM questions ORDER BY place")]

    def list_missing(self, epoch: int) -> list[PlannedQuestion]:
        """Return the planned samples that have no row of this epoch yet, in the same order."""
        done = "SELECT 1 FROM records WHERE sample_id = id AND epoch = ?"
        rows = self._all(f"SELECT data FROM questions WHERE NOT EXISTS ({done}) ORDER BY place", epoch)
        return [PlannedQuestion(**json.loads(data)) for (data,) in rows]

    def read_info(self) -> RunInfo:
        """Return what is known of the run; an empty RunInfo if it never began.

        Raises:
            StoreError: another version of this program wrote it, or the store cannot be read.
        """
        return self._read_json(_INFO, RunInfo)

    def write_info(self, info: RunInfo) -> None:
        self._write_meta(_INFO, info.to_json())

    def read_state(self) -> RunState:
        """Return the course of the run so far.

        Raises:
            StoreError: another version of this program wrote it, or the store cannot be read.
        """
        return self._read_json(_STATE, RunState)

    def write_state(self, state: RunState) -> None:
        self._write_meta(_STATE, state.to_json())

    def read_holder(self) -> Holder | None:
        """Return the process that opened the store for writing last."""
        found = self._read_meta("holder")
        return Holder(**json.loads(found)) if found else None

    def _read_json(self, key: str, kind: type[_Info]) -> _Info:
        found = self._read_meta(key)
        if found is None:
            return kind()
        try:
            return kind.from_json(found)
        except ValueError as error:
            raise StoreError(f"{self.path} holds {error}: start a new run, or use the program that wrote it") from error

    def _read_meta(self, key: str) -> str | None:
        found = self._all("SELECT value FROM meta WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def _write_meta(self, key: str, value: str) -> None:
        """`value`: plain ASCII, as JSON is."""
        with self._access("written"):
            self._database.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def _all(self, query: str, *values: SqlValue) -> list[Row]:
        with self._access("read"):
            return self._database.execute(query, values).fetchall()

    def close(self) -> None:
        """Fold the write-ahead log into the file and release the lock. Closing twice is harmless."""
        with self._access("closed"):
            self._close()

    def _close(self) -> None:
        try:
            if hasattr(self, "_database"):
                self._database.close()
        finally:
            if self._run_lock is not None:
                self._run_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _holder(path: Path) -> str | None:
    """Return who has locked the run, as its database says; None if that cannot be read yet."""
    with suppress(StoreError, ValueError, TypeError), RunStore(path, read_only=True) as store:
        holder = store.read_holder()
        return None if holder is None else str(holder)
    return None


def list_pending(ids: Sequence[str], epochs: int, done: LastAttempts, retry_errors: bool) -> list[SampleKey]:
    """Return the samples that are still to be run: all of the first epoch, then of the second, and so on."""
    again = (*UNFINISHED, *RETRIED) if retry_errors else UNFINISHED
    left = []
    for epoch in range(1, epochs + 1):
        for sample_id in ids:
            attempt, error_class = done.get((sample_id, epoch), (0, None))
            if attempt == 0 or error_class in again:
                left.append(SampleKey(sample_id, epoch, attempt + 1))
    return left


def check_free(folder: Path) -> None:
    """Check that no run is in the folder. A process that died before its run began may have left a store with a plan.

    Raises:
        UserError: there is one, which cannot be mixed with another.
    """
    database = folder / DATABASE
    if not database.exists():
        return
    info = RunInfo()
    with suppress(StoreError), RunStore(database, read_only=True) as store:
        info = store.read_info()
        if not info.has_begun and not store.read_last_attempts():
            return
    if info.rescored_from:
        raise UserError(f"run.dir={folder} already holds a run, one that was scored again; name a new folder.")
    raise UserError(f"run.dir={folder} already holds a run; resume it with run.resume={folder}, or name a new folder.")


def read_run_info(folder: Path) -> RunInfo:
    """Return what is known of the run in a folder; an empty RunInfo if it never began.

    Raises:
        UserError: the run's store cannot be read.
    """
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return store.read_info()
    except StoreError as error:
        raise UserError(f"{error}.") from error
