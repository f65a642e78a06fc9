"""SQLite store of a run's records, one row per (sample, epoch, attempt): `run.db` in the run's folder.

Everything else of a run (answer files, tables, MLflow) is made from it and can be made again. One process writes, any
number may read meanwhile. A row whose `write` has returned survives the death of the process and of the machine.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from eval.runs.folder import DATABASE, FACTS, RECORDS, check_empty, is_side
from eval.runs.record import PlannedQuestion, Record, build_row, escape, join_line, name_sample, unescape
from eval.runs.run_database import EmptyStoreError, RunDatabase
from eval.runs.run_info import RunInfo, RunState
from eval.runs.run_schema import NO_JSON, insert_row
from eval.runs.run_schema import StoreError as StoreError  # part of what this module offers
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey
from mas.runtime.security.redaction import Redact, redact_value
from mas.runtime.terminal import print_warning
from mas.runtime.text import to_jsonable

RETRIED = ("infrastructure",)  # error classes that run.retry_errors runs again
PROPOSAL = "proposal "  # begins the names of results that are proposals of a search; their ids follow
UNFINISHED = ("quota_or_key",)  # error classes that say nothing about the sample: every later session runs it again
_PAGE_ROWS = 200  # of records without details, some KB each
INFO, STATE, PLAN = "info", "state", "plan"  # keys of `meta`: RunInfo and RunState as JSON; the planned questions
_RESULT = "result "  # begins the keys in `meta` of what the phases of a tuning run have found

LastAttempts = Mapping[tuple[str, int], tuple[int, str | None]]  # (sample id, epoch) → last attempt, its error class
_Info = TypeVar("_Info", RunInfo, RunState)


class RunStore(RunDatabase):
    """Records of one run. Any thread may call it; calls take turns."""

    def __init__(
        self,
        path: Path,
        read_only: bool = False,
        warn: Callable[[str], None] = print_warning,
        redact: Redact = str,  # removes secrets from results of phases, and keeps replies that have one out
    ) -> None:
        """Open the store as `RunDatabase` does; to be read, also that of a tuning run's candidate.

        UserError: a candidate's answers are not to be read.
        """
        self.redact, folder = redact, path.parent
        is_candidate = read_only and is_side(folder)
        super().__init__(folder.parent / path.name if is_candidate else path, read_only, warn)
        if is_candidate:
            from eval.runs.candidates import show_candidate

            try:
                results = self.read_results("")
                show_candidate(self._get_connection(), folder.name, self.read_info(), results)
            except BaseException:
                self.close()
                raise

    def write(self, record: Record, forget: bool = False) -> None:
        """Add one row; it is on the disk when this returns. StoreError: the row exists already, or the disk refuses it.

        `forget`: remove the replies and payments of the sample (`eval.runs.call_log`) with it.
        """
        with self._turns:
            with self._transaction() as database:
                number = database.execute("SELECT coalesce(max(row), 0) + 1 FROM records").fetchone()[0]
                row, line = build_row(record, number, datetime.now(UTC).isoformat())
                insert_row(database, row)
                for table in ("replies", "payments") if forget else ():
                    database.execute(f"DELETE FROM {table} WHERE sample = ?", (name_sample(record.key),))
            self._append_copy(line)

    def records(self, without_trajectory: bool = False) -> Iterator[Record]:
        """Return all rows in the order they were written, a few in memory at a time, with those written meanwhile.

        `without_trajectory` leaves `trajectory` and `state` empty: they are most of a record, and slow to read.
        """
        if without_trajectory:
            return (record for _, record in self.records_after(0))
        return (self._parse(whole) for whole in self.lines())

    def records_after(self, row: int) -> Iterator[tuple[int, Record]]:
        """Yield number and record of each row after `row`, without trajectory and state: for a reader that follows."""
        query = f"SELECT row, data FROM records WHERE row > ? ORDER BY row LIMIT {_PAGE_ROWS}"
        while page := self._all(query, row):
            for row, data in page:
                yield row, self._parse(data)

    def _parse(self, line: str) -> Record:
        try:
            return Record.from_dict(json.loads(line))
        except NO_JSON as error:
            raise StoreError(
                f"{self.path} holds an answer that cannot be read ({error}): remove that file, "
                f"and it is made again from {RECORDS}"
            ) from error

    def lines(self) -> Iterator[str]:
        """Return each whole record as one line of JSON, in the order they were written; nothing is parsed for it."""
        return (whole for _, whole in self.lines_after(0))

    def lines_after(self, row: int) -> Iterator[tuple[int, str]]:
        """Yield the same with the row's number, from the row after `row` on: for an exporter that follows the run."""
        query = "SELECT row, data, details FROM records WHERE row > ? ORDER BY row LIMIT 1"
        while found := self._all(query, row):  # one at a time: it may have 20 MB
            row, *parts = found[0]
            yield row, join_line(*parts)

    def final_records(self, variant: str = "") -> Iterator[Record]:
        """Yield the last attempt at each (sample, epoch), in the order of the plan; without trajectory and state.

        `variant`: of a tuning run, the SHA-256 of the prompts whose answers are wanted.
        """
        query = "SELECT row, sample_id, epoch, max(attempt) FROM records WHERE variant = ? GROUP BY sample_id, epoch"
        places = {escape(each.id): place for place, each in enumerate(self.read_plan())}
        finals = self._all(query, variant)
        ordered = sorted((places.get(sample, len(places) + row), epoch, row) for row, sample, epoch, _ in finals)
        for _, _, row in ordered:
            yield self._parse(self._all("SELECT data FROM records WHERE row = ?", row)[0][0])

    def read_last_attempts(self, variant: str = "") -> dict[tuple[str, int], tuple[int, str | None]]:
        """Return (sample id, epoch) → number of the last attempt and its error class; no record is read."""
        query = "SELECT sample_id, epoch, max(attempt), error_class FROM records WHERE variant = ?"
        rows = self._all(f"{query} GROUP BY sample_id, epoch", variant)
        return {(unescape(escaped_id), epoch): (attempt, kind) for escaped_id, epoch, attempt, kind in rows}

    def correlation_ids(self) -> Iterator[dict[str, Any]]:
        """Yield `task_id, thread_id, epoch, attempt` of every row, in the order they were written."""
        query = "SELECT sample_id, thread_id, epoch, attempt FROM records ORDER BY row"
        for sample_id, thread_id, epoch, attempt in self._all(query):
            names = {"task_id": unescape(sample_id), "thread_id": unescape(thread_id)}
            yield {**names, "epoch": epoch, "attempt": attempt}

    def cost_usd(self) -> float:
        """Return what all rows cost as far as it is known, earlier attempts and judging included."""
        return float(self._all("SELECT coalesce(sum(cost_usd), 0) FROM records")[0][0])

    def last_finished_at(self) -> str | None:
        found = self._all("SELECT finished_at FROM records ORDER BY row DESC LIMIT 1")
        return str(found[0][0]) if found else None

    def write_plan(self, questions: Iterable[PlannedQuestion]) -> None:
        """Write the samples that the run is to answer, in place of others (run.allow_config_change)."""
        self._write_meta({PLAN: json.dumps(to_jsonable(list(map(asdict, questions))))})

    def read_plan(self) -> list[PlannedQuestion]:
        """Return the samples of the run in the dataset's order; each is to be answered `RunInfo.epochs` times."""
        return [PlannedQuestion(**each) for each in json.loads(self._read_meta(PLAN) or "[]")]

    def list_missing(self, epoch: int) -> list[PlannedQuestion]:
        """Return the planned samples that have no row of this epoch yet, in the same order."""
        done = self.read_last_attempts()
        return [each for each in self.read_plan() if (each.id, epoch) not in done]

    def read_info(self) -> RunInfo:
        """Return what is known of the run; an empty RunInfo if it never began."""
        return self._read_json(INFO, RunInfo)

    def write_info(self, info: RunInfo) -> None:
        self._write_meta({INFO: info.to_json()})

    def read_state(self) -> RunState:
        return self._read_json(STATE, RunState)

    def write_state(self, state: RunState) -> None:
        self._write_meta({STATE: state.to_json()})

    def _read_json(self, key: str, kind: type[_Info]) -> _Info:
        found = self._read_meta(key)
        try:
            return kind() if found is None else kind.from_json(found)
        except ValueError as error:
            raise StoreError(f"{self.path} holds {error}: start a new run, or use the program that wrote it") from error

    # Of a tuning run

    def has_row(self, record: Record) -> bool:
        """Return whether this answer is stored already; a resumed search gives its answers again."""
        query = "SELECT 1 FROM records WHERE (variant, sample_id, epoch, attempt) = (?, ?, ?, ?)"
        return bool(self._all(query, record.variant, escape(record.sample_id), record.epoch, record.attempt))

    def list_scores(self) -> list[float]:
        scores = self._all("SELECT DISTINCT json_extract(data, '$.score') FROM records")
        return [float(score) for (score,) in scores if score is not None]

    def read_result(self, name: str) -> Any:
        found = self._read_meta(f"{_RESULT}{name}")
        return None if found is None else json.loads(found)

    def read_results(self, prefix: str) -> dict[str, Any]:
        """Return those whose names begin with `prefix`, by the rest of the name."""
        begin = f"{_RESULT}{prefix}"
        rows = self._all("SELECT key, value FROM meta WHERE substr(key, 1, ?) = ?", len(begin), begin)
        return {key.removeprefix(begin): json.loads(value) for key, value in rows}

    def write_results(self, results: Mapping[str, object]) -> None:
        """Write what a phase has found, without secrets, all of it or nothing, in place of earlier values."""
        found = {name: redact_value(to_jsonable(content), self.redact) for name, content in results.items()}
        self._write_meta({f"{_RESULT}{name}": json.dumps(content) for name, content in found.items()})


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
    """Check that nothing is in the folder but what a process has left that died before its run began.

    UserError: there is a run, which cannot be mixed with another, or something else, which may be overwritten.
    """
    if not ((folder / DATABASE).exists() or (folder / FACTS).exists()):
        check_empty(folder)
        return
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            has_begun = store.read_info().has_begun or bool(store.read_last_attempts())
    except StoreError as error:  # an empty one is such as on a disk that was full from the beginning
        has_begun = not isinstance(error, EmptyStoreError)
    if has_begun:
        raise UserError(
            f"run.dir={folder} already holds a run; resume it with run.resume={folder}, or name a new folder."
        )


@contextmanager
def open_run(folder: Path) -> Iterator[RunStore]:
    """Open the store of a run to be read; UserError: it cannot be opened, or not be read inside of the block."""
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            yield store
    except StoreError as error:
        raise UserError(f"{error}.") from error


def read_run_info(folder: Path) -> RunInfo:
    """Return what is known of the run in a folder, as `open_run` reads it; an empty RunInfo if it never began."""
    with open_run(folder) as store:
        return store.read_info()
