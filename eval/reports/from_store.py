"""Every file of a run but its database and its logs, made from that database alone, as often as one likes.

with RunStore(folder / "run.db", read_only=True) as store:
    summary = write_reports(folder, store)      # answers, records, correlation ids, summary.json, report.html
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from eval.analysis.summary.summary import is_planned, summarise
from eval.analysis.tuned_on import read_tuning_use
from eval.reports.files import write_answers, write_correlation_ids, write_records, write_summary
from eval.reports.heading import describe_run, read_names
from eval.reports.html_report import REPORT, limit_questions, write_report
from eval.runs.folder import in_use
from eval.runs.mlflow_state import read_link
from eval.runs.record import Record, not_run
from eval.runs.run_info import SILENT, SessionInfo
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
    write_report(folder / REPORT, summary, shown, store.planned_ids(), describe_run(store.read_info(), summary))
    return summary


def summarise_store(store: RunStore) -> dict[str, Any]:
    """The numbers of the run as far as it has come."""
    info, state = store.read_info(), store.read_state()
    return summarise(
        info.run_id,
        chain(store.records(without_trajectory=True), read_missing(store)),
        simulated=info.simulated,
        wall_seconds=state.wall_seconds + _open_seconds(state.sessions, store),
        bad_rows=info.bad_rows,
        stopped=_stopped(state.sessions, store),
        epochs=info.epochs,
        question_ids=set(store.planned_ids()),
        model=info.model or None,
        measured=read_names(info, store.path.resolve().parent.name),
        command=info.command or [],
        sessions=[asdict(each) for each in state.sessions],
        gate_history=state.gate_history,
        unfinished=state.unfinished,
        used=read_tuning_use(info),
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
    info = store.read_info()
    for epoch in range(1, info.epochs + 1):
        for planned in store.missing(epoch):
            yield not_run(info.run_id, planned, epoch)


def _epochs(store: RunStore) -> int:
    return store.read_info().epochs


def _stopped(sessions: Sequence[SessionInfo], store: RunStore) -> str | None:
    """Why the run ended, or has not ended yet, short of its last question; None if it did not."""
    last = sessions[-1] if sessions else None
    ended = last is not None and last.ended_at is not None
    if last and ended and last.stopped:
        return last.stopped
    if next(read_missing(store), None) is None:
        return None
    if ended or not store.read_only:
        return WITHOUT_RECORD
    return GOING_ON if in_use(store.path) else SILENT


def _open_seconds(sessions: Sequence[SessionInfo], store: RunStore) -> float:
    """Of a session that has not ended, or was killed: until its last answer."""
    finished_at = store.last_finished_at()
    if not sessions or sessions[-1].ended_at or finished_at is None:
        return 0.0
    return max(0.0, (_moment(finished_at) - _moment(sessions[-1].started_at)).total_seconds())


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
