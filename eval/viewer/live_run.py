"""A run as it goes on: counts from the new rows of its store, steps from the end of its log; nothing is locked."""

import json
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock

from eval.analysis.run_list.read_runs import parse_time
from eval.analysis.summary.measures import shorten_record
from eval.analysis.summary.summarise import count_answers
from eval.execution.console import format_duration, project
from eval.reports.formats import format_interval, format_percent, list_parts
from eval.reports.html.page import load_template
from eval.reports.step_tree import Json, mark_answer
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.record import Record
from eval.runs.store import RunStore
from mas.runtime.terminal import escape_controls, shorten_line

MAX_STEPS, MAX_RECENT = 16, 12
_TEMPLATE = Path(__file__).with_name("live_run.html.jinja")
_FORMATS = {"percent": format_percent, "format_interval": format_interval, "duration": format_duration}
_MAX_CHARS = 240
_LOG = Path("logs") / "multi_agent_system.log"
_READ_BYTES = 300_000  # from the end of the log


def read_steps(log: Path) -> list[tuple[str, str]]:
    """Return question id and text of the newest lines of a log, the newest first; none of a log that is a link."""
    if log.is_symlink() or not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _READ_BYTES, 0))
        lines = file.read(_READ_BYTES).splitlines()[-MAX_STEPS:]
    steps = []
    for line in reversed(lines):
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                component, agent = found.get("component"), found.get("agent")
                parts = (agent if agent != component else None, found.get("message") or component)
                said = ": ".join(str(part) for part in parts if part)  # a message begins with its component
                steps.append((str(found.get("task_id") or ""), shorten_line(said, _MAX_CHARS)))
    return steps


class LiveRun:
    """Everything that the page of a live run shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._row = 0  # the last one that was read
        self._answers: dict[tuple[str, int], Record] = {}
        self._recent: deque[tuple[str, ...]] = deque(maxlen=MAX_RECENT)
        self._is_cost_known = True
        self._questions = dict[str, str]()  # texts by id
        self._turns = Lock()  # one browser at a time

    @cached_property
    def store(self) -> RunStore:
        return RunStore(self.folder / DATABASE, read_only=True)

    def render(self) -> Json:
        """Return the newest parts of the page."""
        with self._turns:
            state = self.poll()
        html = escape_controls(load_template(_TEMPLATE).render(state, **_FORMATS))
        return {"html": html, "title": state["title"], "ended": not state["is_running"]}

    def poll(self) -> Json:
        """Read what is new and return the values of the page; raise StoreError if the store cannot be read."""
        is_running = is_in_use(self.folder / DATABASE)  # first: of a run that has ended, all is read below
        if not self._questions:  # a run that is just beginning has no plan yet
            self._questions = {each.id: shorten_line(each.question, _MAX_CHARS) for each in self.store.read_plan()}
        info, state = self.store.read_info(), self.store.read_state()
        for row, record in self.store.records_after(self._row):
            self._row = row
            self._count(record)
        session, cost_usd = state.last_session, self.store.cost_usd()
        counts = count_answers(list(self._answers.values()), incomplete=False)
        total, elapsed = len(self._questions) * info.epochs, state.wall_seconds
        if is_running and not session.ended_at and (began := parse_time(session.started_at)):
            elapsed += max((datetime.now(UTC) - began).total_seconds(), 0.0)
        at_once = int(info.part("run").get("concurrency") or 1)
        left, in_all = project(counts.n, total, at_once, elapsed, cost_usd if self._is_cost_known else None)
        steps = read_steps(self.folder / _LOG) if is_running else []
        model = f"{info.model} (simulated)" if info.simulated else info.model
        return {
            "is_running": is_running,
            "title": f"{counts.n}/{total} {self.folder.name}",
            "about": " · ".join(list_parts(info.system, model, info.part("data").get("name"), info.prompts_name)),
            "stopped": session.stopped or "",
            "total": total,
            "counts": counts,
            "cost_usd": cost_usd,
            "is_cost_known": self._is_cost_known,
            "projected_cost_usd": in_all if is_running else None,
            "eta_seconds": left if is_running else None,
            "elapsed_seconds": elapsed,
            "steps": [(self._questions.get(sample_id, sample_id), text) for sample_id, text in steps],
            "recent": list(self._recent),
        }

    def _count(self, record: Record) -> None:
        key = (record.sample_id, record.epoch)
        if key not in self._answers or self._answers[key].attempt < record.attempt:
            self._answers[key] = shorten_record(record)
        self._is_cost_known &= record.usage.cost_usd is not None or not record.usage.lm_calls
        texts = (record.question, record.error or record.answer or "(none)", record.target or "")
        shown = (shorten_line(each, _MAX_CHARS) for each in texts)
        self._recent.appendleft((mark_answer(record), *shown, f"{round(record.wall_seconds, 1):g} s"))
