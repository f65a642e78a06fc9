"""One process's share of a run, recorded in the run's store; a run that was resumed has several.

session = SessionRecorder(store, info, changes={})
session.end("interrupted by Ctrl-C", gate_history=[])
"""

import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.runs.folder import keep_prompts, read_kept_prompts
from eval.runs.record import PlannedQuestion
from eval.runs.run_info import RunInfo, RunState, SessionInfo, dump_config, find_tuning_use
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet

SILENT = "its process ended without notice"


def begin_session(
    folder: Path,
    store: RunStore,
    info: RunInfo,
    samples: Sequence[Sample],
    prompts: PromptSet | None = None,
    changes: Mapping[str, str] | None = None,
) -> "SessionRecorder":
    """Write everything that a run's folder keeps before the first sample: plan, configuration, prompts, info.

    Args:
        folder: of the run.
        store: of the run, open for writing.
        info: of the run as of now.
        samples: that the run is to answer.
        prompts: of this session.
        changes: in which its configuration differs from the one before, on purpose: option → "old → new".

    Raises:
        StoreError, OSError: the folder cannot be written.
    """
    planned = [PlannedQuestion.of(sample) for sample in samples]
    if planned != store.planned():  # of this run, or of a process that died before its run began
        store.plan(planned, again=True)
    (folder / "config.yaml").write_text(dump_config(info.config), encoding="utf-8")
    before = store.read_info()
    names = keep_prompts(folder, before.prompts, prompts) if prompts else before.prompts
    sets = [*read_kept_prompts(folder, names).values()]  # a resumed run may have had others before
    sets += [prompts] if prompts else []  # the copies do not say whether it was edited
    use = find_tuning_use(sets, planned, info.task.file_sha256, before)
    info = replace(info, prompts=names, used_to_tune=use)
    return SessionRecorder(store, info, changes or {})


class SessionRecorder:
    """Begins a session when made: the store then has the run's info, its wall time and the list of its sessions."""

    def __init__(self, store: RunStore, info: RunInfo, changes: Mapping[str, str]) -> None:
        """
        Args:
            store: of the run.
            info: as of now; the run's id, the time of its first session and its sweep are those that the store has.
            changes: in which this session's configuration differs from the one before, on purpose.
        """
        self.store = store
        self._began = time.monotonic()
        before, now = store.read_info(), _now()
        self.info = replace(
            info,
            run_id=before.run_id or info.run_id or uuid.uuid4().hex[:12],
            started_at=before.started_at or now,
            sweep=info.sweep or before.sweep,
        )
        self._state = self._close_silent_session()
        self._seconds_before = self._state.wall_seconds
        session = SessionInfo(now, pid=os.getpid(), host=socket.gethostname(), changes=dict(changes))
        self._state = replace(self._state, sessions=[*self._state.sessions, session], finished=False)
        store.write_info(self.info)
        store.write_state(self._state)

    def note_unfinished(self, usage: Mapping[str, Any] | None) -> None:
        """Keep what was paid for samples that have no record yet, for the summary."""
        self._state = replace(self._state, unfinished=None if usage is None else dict(usage))
        self.store.write_state(self._state)

    def end(self, stopped: str | None, gate_history: Sequence[Mapping[str, Any]]) -> None:
        """Record the end; `stopped`: why it came early, None if it did not."""
        *earlier, last = self._state.sessions
        self._state = replace(
            self._state,
            sessions=[*earlier, replace(last, ended_at=_now(), stopped=stopped)],
            gate_history=[*self._state.gate_history, *map(dict, gate_history)],
            finished=stopped is None,
            wall_seconds=self._seconds_before + time.monotonic() - self._began,
        )
        self.store.write_state(self._state)

    def _close_silent_session(self) -> RunState:
        """A session that was killed took until its last answer, as far as anybody knows."""
        state = self.store.read_state()
        if not state.sessions or state.sessions[-1].ended_at:
            return state
        *earlier, last = state.sessions
        ended_at = self.store.last_finished_at() or last.started_at
        seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last.started_at)).total_seconds()
        return replace(
            state,
            sessions=[*earlier, replace(last, ended_at=max(ended_at, last.started_at), stopped=SILENT)],
            wall_seconds=state.wall_seconds + max(0.0, seconds),  # below 0: the clock was set back, or no answer yet
        )


def _now() -> str:
    return datetime.now(UTC).isoformat()
