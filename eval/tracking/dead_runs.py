"""Runs whose process died without a word: MLflow would show them as running for ever, so the next one closes them.

close_dead_runs(run)        # ["0f3a…"]: MLflow's ids of those that were closed as KILLED
"""

import os
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from eval.tracking.sending import HEARTBEAT_TAG, RUN_TAG, TrackedRun

SILENCE = timedelta(minutes=2)  # heartbeats come every ten seconds
HOST_TAG, PID_TAG = "harness.host", "harness.pid"
PARENT_TAG = "mlflow.parentRunId"


def close_dead_runs(run: TrackedRun) -> list[str]:
    """Close all runs of the same experiment that are dead, except this one. They can still be resumed, or synced.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    now, closed = datetime.now(UTC), []
    for other in _running(run):
        last = _last_beat(other)
        if other.info.run_id == run.run_id or not is_dead(other.data.tags, last, now):
            continue
        last = max([last, *map(_last_beat, _children(run, other))])  # a sweep has no heartbeat but its jobs'
        if is_dead(other.data.tags, last, now):
            run.client.set_terminated(other.info.run_id, "KILLED", round(last.timestamp() * 1000))
            closed.append(str(other.info.run_id))
    return closed


def _running(run: TrackedRun) -> Iterator[Any]:
    """Those of ours; other programs' runs are their own affair."""
    token = None
    found: list[Any] = []
    while True:
        page = run.client.search_runs([run.experiment_id], "attributes.status = 'RUNNING'", page_token=token)
        found += [each for each in page if RUN_TAG in each.data.tags]
        if not (token := page.token):
            return iter(found)


def _children(run: TrackedRun, parent: Any) -> list[Any]:
    return list(run.client.search_runs([run.experiment_id], f"tags.`{PARENT_TAG}` = '{parent.info.run_id}'"))


def is_dead(tags: Mapping[str, str], last_beat: datetime, now: datetime) -> bool:
    """Silent for long, and its process, if it was one of this machine, is gone."""
    if now - last_beat < SILENCE:
        return False
    return tags.get(HOST_TAG) != socket.gethostname() or not _lives(tags.get(PID_TAG, ""))


def _last_beat(run: Any) -> datetime:
    try:
        beat = datetime.fromisoformat(run.data.tags[HEARTBEAT_TAG])
    except (KeyError, ValueError):
        return datetime.fromtimestamp(run.info.start_time / 1000, UTC)
    return beat if beat.tzinfo else beat.replace(tzinfo=UTC)


def _lives(pid: str) -> bool:
    if not pid.isdecimal() or int(pid) <= 0:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
