"""Every file of a run but its database and its logs, made from that database alone, as often as one likes.

with RunStore(folder / "run.db", read_only=True) as store:
    summary = write_reports(folder, store)      # answers, records, correlation ids, summary.json, report.html
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from eval.analysis.summary.summary import is_planned, summarise
from eval.analysis.tuned_on import used_to_tune
from eval.reports.files import write_answers, write_correlation_ids, write_records, write_summary
from eval.reports.heading import describe_run, read_names
from eval.reports.html_report import REPORT, limit_questions, write_report
from eval.runs.lock import in_use
from eval.runs.mlflow_state import read_link
from eval.runs.record import Record, not_run
from eval.runs.session import SILENT
from eval.runs.store import RunStore

GOING_ON = "it is still going on"
WITHOUT_RECORD = "some questions ended without a record"


def write_reports(folder: Path, store: RunStore) -> dict[str, Any]:
    """Write them all and return the summary. Questions that the run never came to count as wrong.

    Args:
        folder: of the run; where the files go.
        store: the run's own, or one opened to be read, also while the run is going on.

    Raises:
        StoreError: the store cannot be read.
        OSError: the folder cannot be written; files already there stay as they were.
    """
    summary = summarise_store(store)
    summary["mlflow"] = read_link(folder)
    write_answers(folder, _finals(store))
    write_records(folder, store.lines(), store.lines_bytes())
    write_correlation_ids(folder, store.correlation_ids())
    write_summary(folder, summary)
    shown = chain(_with_steps(store), read_missing(store))
    write_report(folder / REPORT, summary, shown, store.planned_ids(), describe_run(store.meta(), summary))
    return summary


def summarise_store(store: RunStore) -> dict[str, Any]:
    """The numbers of the run as far as it has come."""
    meta = store.meta()
    sessions = json.loads(meta.get("sessions", "[]"))
    return summarise(
        meta.get("run_id", ""),
        chain(store.records(without_trajectory=True), read_missing(store)),
        simulated=meta.get("simulated") == "true",
        wall_seconds=float(meta.get("wall_seconds", 0)) + _open_seconds(sessions, store),
        bad_rows=json.loads(meta.get("bad_rows", "[]")),
        stopped=_stopped(sessions, store),
        epochs=_epochs(store),
        question_ids=set(store.planned_ids()),
        model=meta.get("model"),
        measured=read_names(meta, store.path.resolve().parent.name),
        command=json.loads(meta.get("command", "[]")),
        sessions=sessions,
        gate_history=json.loads(meta.get("gate_history", "[]")),
        unfinished=json.loads(meta.get("unfinished", "null")),
        used=used_to_tune(meta),
    )


def _finals(store: RunStore) -> Iterator[Record]:
    """The last attempts at what is in the plan."""
    epochs, question_ids = _epochs(store), set(store.planned_ids())
    return (record for record in store.final_records() if is_planned(record, epochs, question_ids))


def _with_steps(store: RunStore) -> Iterator[Record]:
    """The last attempts at what the page has room for; no other record is parsed, for each may have megabytes."""
    epochs, last = _epochs(store), store.keys()
    room = set(store.planned_ids()[: limit_questions(epochs)])
    for ids, whole in zip(store.correlation_ids(), store.lines(), strict=False):  # both in the order of writing
        key = (ids["task_id"], ids["epoch"])
        if key[0] in room and key[1] <= epochs and last.get(key, (0, None))[0] == ids["attempt"]:
            yield Record.from_dict(json.loads(whole))


def read_missing(store: RunStore) -> Iterator[Record]:
    """A record in error for each question and epoch of the plan that the run has not come to."""
    run_id = store.meta().get("run_id", "")
    for epoch in range(1, _epochs(store) + 1):
        for planned in store.missing(epoch):
            yield not_run(run_id, planned, epoch)


def _epochs(store: RunStore) -> int:
    return int(store.meta().get("epochs", 1))


def _stopped(sessions: list[dict[str, Any]], store: RunStore) -> str | None:
    """Why the run ended, or has not ended yet, short of its last question; None if it did not."""
    last = sessions[-1] if sessions else {}
    if last.get("ended_at"):
        reason: str | None = last.get("stopped")
        if reason:
            return reason
    if next(read_missing(store), None) is None:
        return None
    if last.get("ended_at") or not store.read_only:
        return WITHOUT_RECORD
    return GOING_ON if in_use(store.path) else SILENT


def _open_seconds(sessions: list[dict[str, Any]], store: RunStore) -> float:
    """Of a session that has not ended, or was killed: until its last answer."""
    last, finished_at = sessions[-1] if sessions else {}, store.last_finished_at()
    if last.get("ended_at") or "started_at" not in last or finished_at is None:
        return 0.0
    return max(0.0, (_moment(finished_at) - _moment(last["started_at"])).total_seconds())


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
