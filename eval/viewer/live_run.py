"""A run as it goes on: counts from its store, steps from its log, read once a second for all browsers together.

    live = LiveRun(folder)
    live.poll()             # {"state": "running", "done": 12, "total": 66, …}; nothing is written and nothing locked

Only new rows and new lines of the log are read, so that a poll costs the same at the beginning and at the end.
"""

import json
import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.execution.projection import Progress, project
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, RunState
from eval.runs.store import RunStore
from eval.viewer.steps import describe_event
from mas.runtime.terminal import shorten_line

POLL_SECONDS = 1.0
MAX_RUNNING, MAX_STEPS, MAX_RECENT = 64, 6, 12
_MAX_CHARS = 240
_LOG = Path("logs") / "multi_agent_system.log"
_READ_BYTES = 1_000_000  # of the log at a time; of a longer piece the end, since steps only pass by
_LOCK_POLLS = 5  # polls without a new row, until the lock is looked at
Json = dict[str, object]


@dataclass
class _Running:
    """Answer that is being made."""

    sample_id: str
    epoch: int
    since: str
    steps: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_STEPS))
    agent: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    attempt: int
    is_scored: bool
    value: float
    is_error: bool


class LogTail:
    """New lines of a log, as JSON objects; a log of another format gives none."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._rest = path, 0, b""

    def read(self) -> Iterator[Mapping[str, object]]:
        for line in self._read_new().splitlines():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found

    def _read_new(self) -> bytes:
        """Return whole new lines; where there are too many, the last ones."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # there is none yet, or it is a link
            return b""
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return b""
            if about.st_size - self._offset > _READ_BYTES or about.st_size < self._offset:
                self._offset, self._rest = max(about.st_size - _READ_BYTES, 0), b""
            file.seek(self._offset)
            new = file.read(_READ_BYTES)
        self._offset += len(new)
        whole, newline, self._rest = (self._rest + new).rpartition(b"\n")
        self._rest = self._rest[-_READ_BYTES:]
        return whole + newline


class LiveRun:
    """Everything that the page of a live run shows. One thread at a time calls `poll`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store: RunStore | None = None
        self._info, self._questions = RunInfo(), dict[str, str]()
        self._row = self._quiet_polls = 0
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._recent: deque[Json] = deque(maxlen=MAX_RECENT)
        self._running: dict[tuple[str, int, int], _Running] = {}
        self._log = LogTail(folder / _LOG)
        self._cost_usd, self._is_cost_known = 0.0, True
        self._done_before = 0  # answers of earlier sessions, which say nothing of this one's pace
        self._is_running: bool | None = None  # None: not looked at yet

    def poll(self) -> Json:
        """Read what is new and return the state of the page.

        Raises:
            StoreError: the run's store cannot be read.
        """
        if self._store is None:
            self._open()
        assert self._store is not None
        state = self._store.read_state()
        n_new = 0
        for row, record in self._store.records_after(self._row):
            self._row, n_new = row, n_new + 1
            self._count(record, state)
        self._follow_log()
        self._quiet_polls = 0 if n_new else self._quiet_polls + 1
        ended = bool(state.sessions) and state.sessions[-1].ended_at is not None
        if ended or self._is_running is None or self._quiet_polls % _LOCK_POLLS == 1:
            self._is_running = is_in_use(self.folder / DATABASE)
        return self._describe(state)

    def _open(self) -> None:
        self._store = RunStore(self.folder / DATABASE, read_only=True)
        self._info = self._store.read_info()
        self._questions = {each.id: each.question for each in self._store.read_plan()}

    def _count(self, record: Record, state: RunState) -> None:
        key = (record.sample_id, record.epoch)
        before = self._answers.get(key)
        if before is None or before.attempt < record.attempt:
            self._answers[key] = _Answer(record.attempt, record.scored, record.value, record.error is not None)
        self._cost_usd += record.usage.at_least_usd + record.scorer_usage.at_least_usd
        self._is_cost_known &= record.usage.cost_usd is not None or not record.usage.lm_calls
        session = state.sessions[-1].started_at if state.sessions else ""
        self._done_before += record.started_at < session
        self._running.pop((*key, record.attempt), None)
        self._recent.appendleft(
            {
                "id": record.sample_id,
                "question": shorten_line(record.question, _MAX_CHARS),
                "mark": _mark(record),
                "answer": shorten_line(record.error or record.answer or "(none)", _MAX_CHARS),
                "target": shorten_line(record.target or "", _MAX_CHARS),
                "seconds": round(record.wall_seconds, 1),
            }
        )

    def _follow_log(self) -> None:
        for line in self._log.read():
            sample_id, epoch, attempt = line.get("task_id"), line.get("epoch"), line.get("attempt")
            if not isinstance(sample_id, str) or not isinstance(epoch, int) or not isinstance(attempt, int):
                continue
            key, event = (sample_id, epoch, attempt), line.get("event")
            known = self._answers.get((sample_id, epoch))
            if event in ("question finished", "question failed") or (known and known.attempt >= attempt):
                self._running.pop(key, None)
                continue
            running = self._running.setdefault(key, _Running(sample_id, epoch, str(line.get("timestamp") or "")))
            running.agent = str(line.get("agent") or running.agent)
            if step := describe_event(line):
                running.steps.append(step)

    def _describe(self, state: RunState) -> Json:
        answers = list(self._answers.values())
        scored = [each for each in answers if each.is_scored]
        total = len(self._questions) * self._info.epochs
        low_high = compute_clustered_interval(self._tally()) if scored else None
        elapsed = self._measure_elapsed(state)
        at_once = self._info.part("run").get("concurrency")
        new = Progress(
            len(answers) - self._done_before,
            max(total - self._done_before, 0),
            at_once if isinstance(at_once, int) and at_once > 0 else 1,
        )
        share_new = (len(answers) - self._done_before) / max(len(answers), 1)
        projected = project(new, elapsed, self._cost_usd * share_new if self._is_cost_known else None)
        left = projected.cost_usd is not None and new.done > 0
        cost_all = self._cost_usd - self._cost_usd * share_new + (projected.cost_usd or 0.0) if left else None
        last = state.sessions[-1] if state.sessions else None
        return {
            "state": "running" if self._is_running else "ended",
            "stopped": (last.stopped if last else None) or "",
            "done": len(answers),
            "total": total,
            "correct": sum(each.value == 1.0 for each in scored),
            "wrong": sum(each.value < 1.0 and not each.is_error for each in scored),
            "errors": sum(each.is_error for each in answers),
            "scored": len(scored),
            "share": sum(each.value == 1.0 for each in scored) / len(scored) if scored else None,
            "interval": list(low_high) if low_high else None,
            "cost_usd": self._cost_usd,
            "is_cost_known": self._is_cost_known,
            "projected_cost_usd": cost_all if self._is_running else None,
            "eta_seconds": projected.eta_seconds if self._is_running else None,
            "elapsed_seconds": elapsed,
            "running": self._list_running() if self._is_running else [],
            "n_running": len(self._running) if self._is_running else 0,
            "recent": list(self._recent),
        }

    def _tally(self) -> list[tuple[int, int]]:
        tallies: dict[str, tuple[int, int]] = {}
        for (sample_id, _), each in self._answers.items():
            if each.is_scored:
                correct, n = tallies.get(sample_id, (0, 0))
                tallies[sample_id] = (correct + (each.value == 1.0), n + 1)
        return list(tallies.values())

    def _list_running(self) -> list[Json]:
        now = datetime.now(UTC)
        found = sorted(self._running.values(), key=lambda each: each.since)[:MAX_RUNNING]
        return [
            {
                "id": each.sample_id,
                "question": shorten_line(self._questions.get(each.sample_id, ""), _MAX_CHARS),
                "epoch": each.epoch,
                "agent": shorten_line(each.agent, 60),
                "seconds": _measure_seconds(each.since, now),
                "steps": list(each.steps),
            }
            for each in found
        ]

    def _measure_elapsed(self, state: RunState) -> float:
        if not state.sessions:
            return 0.0
        last = state.sessions[-1]
        end = datetime.now(UTC)
        if last.ended_at or not self._is_running:
            return state.wall_seconds
        return _measure_seconds(last.started_at, end)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _measure_seconds(since: str, now: datetime) -> float:
    try:
        begin = datetime.fromisoformat(since)
    except ValueError:
        return 0.0
    begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    return max(round((now - begin).total_seconds(), 1), 0.0)


def _mark(record: Record) -> str:
    if record.error is not None:
        return "error"
    if not record.scored:
        return "unscored"
    return "right" if record.correct else "partial" if record.value else "wrong"


class Live(Protocol):
    """A run or tuning run as it goes on."""

    def poll(self) -> Json: ...

    def close(self) -> None: ...


class Follower:
    """One reader of a live run, shared by all browsers: a snapshot is read again only when it is older than a poll.

    Each browser asks for the newest snapshot; whoever comes first reads, the others get the same.
    """

    def __init__(self, live: Live, poll_seconds: float = POLL_SECONDS) -> None:
        self._live, self._poll_seconds = live, poll_seconds
        self._read_at, self._snapshot = float("-inf"), Json()
        self.n_polls = 0

    def read(self) -> Json:
        """Return the snapshot; called under a lock.

        Raises:
            StoreError: the run's store cannot be read.
        """
        if time.monotonic() - self._read_at >= self._poll_seconds:
            self.n_polls += 1
            self._snapshot = self._live.poll()
            self._read_at = time.monotonic()
        return self._snapshot

    def close(self) -> None:
        self._live.close()
