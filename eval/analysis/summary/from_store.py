"""Summarise a run from its database alone, also while it is going on.

with RunStore(folder / "run.db", read_only=True) as store:
    summarise_store(store).accuracy
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from eval.analysis.human_review import attach_labels, find_gold_folder
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import Summary
from eval.runs.folder import is_in_use
from eval.runs.record import Record, Usage, build_missing_record
from eval.runs.run_info import SILENT, SessionInfo
from eval.runs.store import RunStore
from eval.scorers.labels import LabelSet
from eval.scorers.score import read_scorer_name

if TYPE_CHECKING:
    from eval.analysis.attribution.run_attribution import RunAttribution

GOING_ON = "it is still going on"
WITHOUT_RECORD = "some questions ended without a record"


def summarise_store(store: RunStore, attribution: "RunAttribution | None" = None) -> Summary:
    """Return the numbers of the run as far as it has come; samples that it has not run count as wrong.

    Args:
        store: of the run.
        attribution: of its answers (`attribute_run`), which needs their steps; None: the summary has none.

    Raises:
        StoreError: the store cannot be read.
    """
    info, state, plan = store.read_info(), store.read_state(), store.read_plan()
    folder, config = store.path.resolve().parent, info.config
    prompts = Path(str(config["prompts"])).name if config.get("prompts") else None
    used = None
    if info.tuning_use is not None:
        from eval.analysis.tuned_on import read_tuning_use

        used = read_tuning_use(info)
    details = RunDetails(
        run_id=info.run_id,
        folder=folder.name,
        system=info.system or info.part("system").get("name"),
        model=info.model or None,
        data=info.part("data").get("name"),
        split=config.get("split"),
        prompts=info.prompts_name or prompts,  # the arms of a tuning run use others than their configuration names
        scorer=read_scorer_name(info.part("scorer")),
        simulated=info.simulated,
        no_measurement=info.describe_gold(),
        wall_seconds=state.wall_seconds + _measure_open_session(state.sessions, store),
        labels=LabelSet(tuple(info.task.labels)),
        tags={each.id: each.tags for each in plan},
        shown_tags=tuple(map(str, info.part("data").get("tags") or ())),
        extra_scorers={name: read_scorer_name(node) for name, node in info.part("extra_scorers").items()},
        stopped=_find_stop_reason(state.sessions, store),
        epochs=info.epochs,
        sample_ids={each.id for each in plan},
        bad_rows=tuple(info.bad_rows),
        command=tuple(info.command or ()),
        sessions=tuple(state.sessions),
        unfinished=Usage(**state.unfinished) if state.unfinished else None,
        used=used,
        attribution=attribution,
        agents_with_tools=tuple(agent for agent, tools in (info.tools or {}).items() if tools),
    )
    records = attach_labels(store.records(without_trajectory=True), info, find_gold_folder(folder))
    return summarise(chain(records, read_missing(store)), details)


def read_missing(store: RunStore) -> Iterator[Record]:
    """Yield a record in error for each (sample, epoch) of the plan that has not been run."""
    info = store.read_info()
    for epoch in range(1, info.epochs + 1):
        for planned in store.list_missing(epoch):
            yield build_missing_record(info.run_id, planned, epoch)


def _find_stop_reason(sessions: Sequence[SessionInfo], store: RunStore) -> str | None:
    """Return why the run ended before its last sample, or has not ended yet; None if every sample has a record."""
    ended = bool(sessions) and sessions[-1].ended_at is not None
    if ended and sessions[-1].stopped:
        return sessions[-1].stopped
    if next(read_missing(store), None) is None:
        return None
    if ended or not store.read_only:
        return WITHOUT_RECORD
    return GOING_ON if is_in_use(store.path) else SILENT


def _measure_open_session(sessions: Sequence[SessionInfo], store: RunStore) -> float:
    """Return the seconds of a session that has not ended, or was killed: until its last answer."""
    finished_at = store.last_finished_at()
    if not sessions or sessions[-1].ended_at or finished_at is None:
        return 0.0
    began, ended = (datetime.fromisoformat(text) for text in (sessions[-1].started_at, finished_at))
    return max(0.0, (ended.replace(tzinfo=UTC) - began.replace(tzinfo=UTC)).total_seconds())
