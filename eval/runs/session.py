"""One process's share of a run, as the run's store remembers it; a run that was resumed has several.

session = Session(store, facts, changes={})
session.end("interrupted by Ctrl-C", gate_history=[])
"""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from eval.config.tracking import remove_passwords
from eval.runs.folder import DATABASE
from eval.runs.store import RunStore, StoreError
from mas.runtime.errors import UserError

SILENT = "its process ended without notice"


class Session:
    """Begun when made. `meta` of the store then has the run's facts, its wall time and the list of its sessions."""

    def __init__(self, store: RunStore, facts: Mapping[str, str], changes: Mapping[str, str]) -> None:
        """
        Args:
            store: of the run.
            facts: about the run, as of now.
            changes: in which this session's configuration differs from the one before, on purpose.
        """
        self._store = store
        self._began = time.monotonic()
        before = store.meta()
        self._seconds_before = float(before.get("wall_seconds", "0"))
        self._history = json.loads(before.get("gate_history", "[]"))
        self._sessions: list[dict[str, Any]] = json.loads(before.get("sessions", "[]"))
        self._close_the_silent()
        started_at = _now()
        self._sessions.append(
            {
                "started_at": started_at,
                "ended_at": None,
                "stopped": None,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "changes": dict(changes),
            }
        )
        for key, value in {"started_at": started_at, **before, **facts, "finished": "false"}.items():
            if before.get(key) != value:
                store.set_meta(key, value)
        self._note(self._seconds_before)

    def end(self, stopped: str | None, gate_history: Sequence[Mapping[str, Any]]) -> None:
        self._sessions[-1] |= {"ended_at": _now(), "stopped": stopped}
        self._store.set_meta("gate_history", json.dumps([*self._history, *gate_history]))
        self._store.set_meta("finished", json.dumps(stopped is None))
        self._note(self._seconds_before + time.monotonic() - self._began)

    def _close_the_silent(self) -> None:
        """A session that was killed took until its last answer, as far as anybody knows."""
        last = self._sessions[-1] if self._sessions else {"ended_at": "none"}
        if last["ended_at"]:
            return
        ended_at = self._store.last_finished_at() or last["started_at"]
        seconds = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(last["started_at"])).total_seconds()
        self._seconds_before += max(0.0, seconds)  # below 0: the clock was set back, or it had answered nothing
        last |= {"ended_at": max(ended_at, last["started_at"]), "stopped": SILENT}

    def _note(self, wall_seconds: float) -> None:
        self._store.set_meta("sessions", json.dumps(self._sessions))
        self._store.set_meta("wall_seconds", repr(wall_seconds))


def _now() -> str:
    return datetime.now(UTC).isoformat()


def kept_config(folder: Path) -> dict[str, Any]:
    """As nested dictionaries, no address with a password; empty if the run never began.

    Raises:
        UserError: the run's store cannot be read.
    """
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            found = yaml.safe_load(remove_passwords(store.meta().get("config", "")))
    except StoreError as error:
        raise UserError(f"{error}.") from error
    return found if isinstance(found, dict) else {}
