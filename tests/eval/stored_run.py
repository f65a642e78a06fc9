"""A run's folder as a run would have left it, made without one.

folder = stored_run(tmp_path / "run-1", [answered("q1", "17", gold="17")], planned=["q1", "q2"])
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from eval.analysis.attribution.broken_link import RunAttribution
from eval.analysis.summary.summarise import summarise
from eval.analysis.summary.summary import Summary
from eval.runs.own_runs import note_run
from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.run_info import RunInfo, RunState, SessionInfo, TaskInfo
from eval.runs.store import RunStore

CONFIG = {"system": {"name": "toy"}, "scorer": {"_target_": "eval.scorers.text.ExactScorer", "ignore_case": False}}
SESSION = {"started_at": "2026-11-21T08:00:00+00:00", "ended_at": "2026-11-21T08:00:09+00:00", "stopped": None}


def answered(sample_id: str, answer: str | None, gold: str | None = "17", **changes: Any) -> Record:
    record = Record(
        "run-1", sample_id, 1, 1, f"thread-{sample_id}", f"What is {sample_id}?", None, "1", gold,
        answer=answer, score=None if gold is None else float(answer == gold), usage=Usage(2, cost_usd=0.5),
        reasoning_trace="because", state={"draft": answer}, trajectory=[{"id": 0, "kind": "lm"}],
    )  # fmt: skip
    return replace(record, **changes)


def stored_run(
    folder: Path, records: Sequence[Record], planned: Sequence[str] | None = None, epochs: int = 1, **facts: Any
) -> Path:
    """`planned`: ids; None: those of the records. `facts`: fields of RunInfo, TaskInfo and RunState."""
    info, state = run_facts(**{"run_id": "run-1", "config": CONFIG, "sessions": [SESSION], "epochs": epochs, **facts})
    by_id = {record.sample_id: record for record in records}
    with RunStore(folder / "run.db") as store:
        store.write_plan([question(each, by_id.get(each)) for each in planned or by_id])
        note_run(info.run_id, folder, info.command or ())
        store.write_info(info)
        store.write_state(state)
        for record in records:
            store.write(record)
    return folder


def summarise_records(
    records: Iterable[Record],
    *,
    tags: Mapping[str, Mapping[str, str]] | None = None,
    planned: Sequence[str] | None = None,
    attribution: RunAttribution | None = None,
    stopped: str | None = None,
    **facts: Any,
) -> Summary:
    """The summary of records without a store. `planned`: ids; None: those of the records; `facts`: as above."""
    info, state = run_facts(**{"run_id": "run-1", **facts})
    records = records if planned else list(records)
    ids = planned or dict.fromkeys([each.sample_id for each in records] + [*(tags or {})])
    plan = [PlannedQuestion(each, each, None, None, None, (tags or {}).get(each, {})) for each in ids]
    return replace(summarise(records, info, state, plan, attribution), stopped=stopped)


def run_facts(**facts: Any) -> tuple[RunInfo, RunState]:
    """Fields of RunInfo, TaskInfo and RunState, sorted out."""
    task, state = (
        {name: facts.pop(name) for name in [each.name for each in fields(kind)] if name in facts}
        for kind in (TaskInfo, RunState)
    )
    sessions = [SessionInfo(**each) for each in state.pop("sessions", [])]
    return RunInfo(**facts, task=TaskInfo(**task)), RunState(**state, sessions=sessions)


def question(sample_id: str, record: Record | None) -> PlannedQuestion:
    return PlannedQuestion(sample_id, f"What is {sample_id}?", None, record.target if record else "17", "1")
