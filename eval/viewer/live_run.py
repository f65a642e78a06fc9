"""A run as it goes on: counts from the new rows of its store, steps from the end of its log; nothing is locked.

live = LiveRun(folder)
live.poll()             # {"state": "running", "done": 12, "total": 66, …}: the values of live_run.html.jinja
live.render()           # the parts of its page, read once a second at most for all browsers together
"""

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from eval.analysis.run_list.read_runs import parse_time
from eval.analysis.summary.measures import Answer
from eval.analysis.summary.summarise import count_answers
from eval.execution.console import format_duration, project
from eval.reports.formats import format_interval, format_percent, list_parts
from eval.reports.html.page import load_template
from eval.reports.step_tree import mark_answer
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, RunState
from eval.runs.store import RunStore
from mas.runtime.terminal import escape_controls, shorten_line

POLL_SECONDS = 1.0
MAX_RUNNING, MAX_STEPS, MAX_RECENT = 64, 6, 12
_TEMPLATE = Path(__file__).with_name("live_run.html.jinja")
_FORMATS = {"percent": format_percent, "format_interval": format_interval, "duration": format_duration}
_MAX_CHARS = 240
_LOG = Path("logs") / "multi_agent_system.log"
_READ_BYTES = 300_000  # from the end of the log
_ENDS = ("question finished", "question failed")  # events
Json = dict[str, object]


@dataclass
class Running:
    sample_id: str
    epoch: int
    since: str
    question: str = ""
    steps: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_STEPS))
    agent: str = ""

    @property
    def seconds(self) -> float:
        return _measure_seconds(self.since)

    @property
    def facts(self) -> list[str]:
        epoch = f"epoch {self.epoch}" if self.epoch > 1 else ""
        return [each for each in (self.agent, format_duration(self.seconds), epoch) if each]


def read_running(log: Path) -> dict[tuple[str, int, int], Running]:
    """Return the answers that are under way, as far as the end of a run's log shows them."""
    running: dict[tuple[str, int, int], Running] = {}
    for line in _read_end(log):
        sample_id, epoch, attempt = line.get("task_id"), line.get("epoch"), line.get("attempt")
        if not isinstance(sample_id, str) or not isinstance(epoch, int) or not isinstance(attempt, int):
            continue
        key = (sample_id, epoch, attempt)
        if line.get("event") in _ENDS:
            running.pop(key, None)
            continue
        each = running.setdefault(key, Running(sample_id, epoch, str(line.get("timestamp") or "")))
        each.agent = shorten_line(str(line.get("agent") or each.agent), 60)
        each.steps.append(shorten_line(f"{line.get('component')}: {line.get('message') or ''}", _MAX_CHARS))
    return running


def _read_end(log: Path) -> Iterator[Mapping[str, object]]:
    """Yield the last lines of a log that are JSON objects; nothing of a log that is a link."""
    if log.is_symlink() or not log.is_file():
        return
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _READ_BYTES, 0))
        lines = file.read(_READ_BYTES).splitlines()
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


class LiveRun:
    """Everything that the page of a live run shows. One thread at a time calls `poll`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store: RunStore | None = None
        self._info, self._questions = RunInfo(), dict[str, str]()
        self._row = 0  # the last one that was read
        self._answers: dict[tuple[str, int], Answer] = {}
        self._recent: deque[tuple[str, ...]] = deque(maxlen=MAX_RECENT)
        self._is_cost_known = True
        self._done_before = 0  # answers of earlier sessions, which say nothing of this one's pace
        self._turns, self._read_at, self._page = Lock(), float("-inf"), Json()

    def render(self) -> Json:
        """Return the newest parts of the page: whoever comes first reads them, others within a second get the same."""
        with self._turns:
            if time.monotonic() - self._read_at >= POLL_SECONDS:
                state = self.poll()
                html = escape_controls(load_template(_TEMPLATE).render(state, **_FORMATS))
                self._page = {"html": html, "title": state["title"], "ended": state["state"] == "ended"}
                self._read_at = time.monotonic()
            return self._page

    def poll(self) -> Json:
        """Read what is new and return the values of the page; raise StoreError if the store cannot be read."""
        if self._store is None:
            self._store = RunStore(self.folder / DATABASE, read_only=True)
            self._info = self._store.read_info()
            self._questions = {each.id: each.question for each in self._store.read_plan()}
        state = self._store.read_state()
        for row, record in self._store.records_after(self._row):
            self._row = row
            self._count(record, state)
        return self._describe(state, self._store.cost_usd(), is_in_use(self.folder / DATABASE))

    def _count(self, record: Record, state: RunState) -> None:
        key = (record.sample_id, record.epoch)
        before = self._answers.get(key)
        if before is None or before.attempt < record.attempt:
            self._answers[key] = Answer.of(record)
        self._is_cost_known &= record.usage.cost_usd is not None or not record.usage.lm_calls
        self._done_before += record.started_at < state.last_session.started_at
        texts = (record.question, record.error or record.answer or "(none)", record.target or "")
        shown = (shorten_line(each, _MAX_CHARS) for each in texts)
        self._recent.appendleft((mark_answer(record), *shown, f"{round(record.wall_seconds, 1):g} s"))

    def _list_running(self) -> list[Running]:
        running = []
        for (sample_id, epoch, attempt), each in read_running(self.folder / _LOG).items():
            known = self._answers.get((sample_id, epoch))
            if known is None or known.attempt < attempt:  # else it is done, and the line came late
                each.question = shorten_line(self._questions.get(sample_id, ""), _MAX_CHARS)
                running.append(each)
        return sorted(running, key=lambda each: each.since)

    def _describe(self, state: RunState, cost_usd: float, is_running: bool) -> Json:
        info, session = self._info, state.last_session
        counts = count_answers(list(self._answers.values()), incomplete=False)
        total, done = len(self._questions) * info.epochs, counts.n
        model = f"{info.model} (simulated)" if info.simulated else info.model
        elapsed = _measure_seconds(session.started_at) if is_running and not session.ended_at else state.wall_seconds
        new, cost_before = done - self._done_before, cost_usd * self._done_before / max(done, 1)
        at_once = int(info.part("run").get("concurrency") or 1)
        new_cost = cost_usd - cost_before if self._is_cost_known else None
        left, in_all = project(new, max(total - self._done_before, 0), at_once, elapsed, new_cost)
        is_projected = is_running and new and in_all is not None
        running = self._list_running() if is_running else []
        return {
            "state": "running" if is_running else "ended",
            "title": f"{done}/{total} {self.folder.name}",
            "about": " · ".join(list_parts(info.system, model, info.part("data").get("name"), info.prompts_name)),
            "stopped": session.stopped or "",
            "done": done,
            "total": total,
            "correct": counts.n_correct,
            "wrong": counts.n_wrong,
            "errors": counts.n_error,
            "scored": counts.n_scored,
            "share": counts.accuracy,
            "interval": counts.accuracy_ci95,
            "cost_usd": cost_usd,
            "is_cost_known": self._is_cost_known,
            "projected_cost_usd": cost_before + (in_all or 0.0) if is_projected else None,
            "eta_seconds": left if is_running else None,
            "elapsed_seconds": elapsed,
            "running": running[:MAX_RUNNING],
            "n_running": len(running),
            "recent": list(self._recent),
        }

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _measure_seconds(since: str) -> float:
    began = parse_time(since)
    return max(round((datetime.now(UTC) - began).total_seconds(), 1), 0.0) if began else 0.0
