"""A run as it goes on: counts from its store, steps from its log; nothing is written and nothing locked.

    live = LiveRun(folder)
    live.poll()             # {"state": "running", "done": 12, "total": 66, …}: the values of live_run.html.jinja

Only new rows and new lines of the log are read, so that a poll costs the same at the beginning and at the end.
"""

import json
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.execution.projection import Progress, project
from eval.reports.step_tree import mark_answer
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, RunState
from eval.runs.store import RunStore
from mas.runtime.terminal import shorten_line
from mas.runtime.untrusted import remove_marks

MAX_RUNNING, MAX_STEPS, MAX_RECENT = 64, 6, 12
_MAX_CHARS = 240
_MAX_STEP_CHARS, _MAX_ARGUMENT_CHARS = 200, 60
_LOG = Path("logs") / "multi_agent_system.log"
_READ_BYTES = 1_000_000  # of the log at a time; of a longer piece the end, since steps only pass by
_LOCK_POLLS = 5  # polls without a new row, until the lock is looked at
_QUIET = (  # events that only repeat others
    *("orchestrator started", "orchestrator finished", "step", "message", "lm started", "question started"),
    *("tool started", "tool calls", "approved", "rejected", "input interface started", "input interface completed", ""),
)
Json = dict[str, object]


@dataclass
class Running:
    """Answer that is being made."""

    sample_id: str
    question: str
    epoch: int
    since: str
    steps: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_STEPS))
    agent: str = ""

    @property
    def seconds(self) -> float:
        return measure_seconds(self.since)


@dataclass(frozen=True, slots=True)
class _Answer:
    attempt: int
    is_scored: bool
    value: float
    is_error: bool


class LogTail:
    """New lines of a log, as JSON objects; a log of another format gives none."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

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
            if not 0 <= about.st_size - self._offset <= _READ_BYTES:
                self._offset = max(about.st_size - _READ_BYTES, 0)
            file.seek(self._offset)
            whole, newline, _ = file.read(_READ_BYTES).rpartition(b"\n")
        self._offset += len(whole + newline)
        return whole


class LiveRun:
    """Everything that the page of a live run shows. One thread at a time calls `poll`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store: RunStore | None = None
        self._info, self._questions = RunInfo(), dict[str, str]()
        self._row = self._quiet_polls = 0
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._recent: deque[tuple[str, ...]] = deque(maxlen=MAX_RECENT)
        self._running: dict[tuple[str, int, int], Running] = {}
        self._log = LogTail(folder / _LOG)
        self._cost_usd, self._is_cost_known = 0.0, True
        self._done_before = 0  # answers of earlier sessions, which say nothing of this one's pace
        self._is_running: bool | None = None  # None: not looked at yet

    def poll(self) -> Json:
        """Read what is new and return the values of the page.

        Raises:
            StoreError: the run's store cannot be read.
        """
        if self._store is None:
            self._store = RunStore(self.folder / DATABASE, read_only=True)
            self._info = self._store.read_info()
            self._questions = {each.id: each.question for each in self._store.read_plan()}
        state = self._store.read_state()
        n_new = 0
        for row, record in self._store.records_after(self._row):
            self._row, n_new = row, n_new + 1
            self._count(record, state)
        self._follow_log()
        self._quiet_polls = 0 if n_new else self._quiet_polls + 1
        if state.last_session.ended_at is not None or self._is_running is None or self._quiet_polls % _LOCK_POLLS == 1:
            self._is_running = is_in_use(self.folder / DATABASE)
        return self._describe(state)

    def _count(self, record: Record, state: RunState) -> None:
        key = (record.sample_id, record.epoch)
        before = self._answers.get(key)
        if before is None or before.attempt < record.attempt:
            self._answers[key] = _Answer(record.attempt, record.scored, record.value, record.error is not None)
        self._cost_usd += record.usage.at_least_usd + record.scorer_usage.at_least_usd
        self._is_cost_known &= record.usage.cost_usd is not None or not record.usage.lm_calls
        self._done_before += record.started_at < state.last_session.started_at
        self._running.pop((*key, record.attempt), None)
        texts = (record.question, record.error or record.answer or "(none)", record.target or "")
        shown = (shorten_line(each, _MAX_CHARS) for each in texts)
        self._recent.appendleft((mark_answer(record), *shown, f"{round(record.wall_seconds, 1):g} s"))

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
            if (running := self._running.get(key)) is None:
                question = shorten_line(self._questions.get(sample_id, ""), _MAX_CHARS)
                running = Running(sample_id, question, epoch, str(line.get("timestamp") or ""))
                self._running[key] = running
            running.agent = shorten_line(str(line.get("agent") or running.agent), 60)
            if step := describe_event(line):
                running.steps.append(step)

    def _describe(self, state: RunState) -> Json:
        answers = list(self._answers.values())
        scored = [each for each in answers if each.is_scored]
        total, done = len(self._questions) * self._info.epochs, len(answers)
        correct = sum(each.value == 1.0 for each in scored)
        session = state.last_session
        is_live = bool(session.started_at and self._is_running and not session.ended_at)
        elapsed = measure_seconds(session.started_at) if is_live else state.wall_seconds
        at_once = self._info.part("run").get("concurrency")
        new = done - self._done_before
        progress = Progress(
            new, max(total - self._done_before, 0), at_once if isinstance(at_once, int) and at_once > 0 else 1
        )
        cost_new = self._cost_usd * new / max(done, 1)
        projected = project(progress, elapsed, cost_new if self._is_cost_known else None)
        is_projected = self._is_running and projected.cost_usd is not None and new > 0
        running = sorted(self._running.values(), key=lambda each: each.since) if self._is_running else []
        return {
            "state": "running" if self._is_running else "ended",
            "title": f"{done}/{total} {self.folder.name}",
            "about": self._describe_parts(),
            "stopped": session.stopped or "",
            "done": done,
            "total": total,
            "correct": correct,
            "wrong": sum(each.value < 1.0 and not each.is_error for each in scored),
            "errors": sum(each.is_error for each in answers),
            "scored": len(scored),
            "share": correct / len(scored) if scored else None,
            "interval": compute_clustered_interval(self._tally()) if scored else None,
            "cost_usd": self._cost_usd,
            "is_cost_known": self._is_cost_known,
            "projected_cost_usd": self._cost_usd - cost_new + (projected.cost_usd or 0.0) if is_projected else None,
            "eta_seconds": projected.eta_seconds if self._is_running else None,
            "elapsed_seconds": elapsed,
            "running": running[:MAX_RUNNING],
            "n_running": len(running),
            "recent": list(self._recent),
        }

    def _describe_parts(self) -> str:
        info = self._info
        model = f"{info.model} (simulated)" if info.simulated else info.model
        parts = {"system": info.system, "model": model, "data": info.part("data").get("name")}
        listed = [f"{name} {value}" for name, value in (parts | {"prompts": info.prompts_name}).items() if value]
        return " · ".join(listed) + (f", {info.epochs} epochs" if info.epochs > 1 else "")

    def _tally(self) -> list[tuple[int, int]]:
        tallies: dict[str, tuple[int, int]] = {}
        for (sample_id, _), each in self._answers.items():
            if each.is_scored:
                correct, n = tallies.get(sample_id, (0, 0))
                tallies[sample_id] = (correct + (each.value == 1.0), n + 1)
        return list(tallies.values())

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def measure_seconds(since: str) -> float:
    """Return the seconds since a time in ISO 8601; 0 if it is none."""
    try:
        begin = datetime.fromisoformat(since)
    except ValueError:
        return 0.0
    begin = begin if begin.tzinfo else begin.replace(tzinfo=UTC)
    return max(round((datetime.now(UTC) - begin).total_seconds(), 1), 0.0)


def describe_event(line: Mapping[str, object]) -> str:
    """Return a line of the log in words; empty for what only repeats others."""
    event, name, seconds = str(line.get("event") or ""), str(line.get("component") or ""), line.get("seconds")
    took = f", {seconds:.1f} s" if isinstance(seconds, int | float) else ""
    if event in _QUIET:
        return ""
    if event == "agent started":
        text = f"{name} …"
    elif event == "agent finished":
        text = f"{name} finished{took}"
    elif event == "lm finished":
        text = f"{name}: {line.get('input_tokens', '?')} + {line.get('output_tokens', '?')} tokens{took}"
    elif event == "decision":
        text = f"{name}: {line.get('decision', '')}: {line.get('feedback', '')}"
    elif event == "tool finished":
        text = f"{name}({_list_arguments(line.get('arguments'))}) → {remove_marks(str(line.get('observation', '')))}"
    else:
        text = f"{name}: {event}: {line['error']}" if line.get("error") else f"{name}: {event}"
    return shorten_line(text, _MAX_STEP_CHARS)


def _list_arguments(arguments: object) -> str:
    if not isinstance(arguments, Mapping):
        return "…"
    values = ((name, json.dumps(value, ensure_ascii=False, default=str)) for name, value in arguments.items())
    return ", ".join(f"{name}={shorten_line(text, _MAX_ARGUMENT_CHARS)}" for name, text in values)
