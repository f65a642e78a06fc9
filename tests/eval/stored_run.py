"""A run's folder as a run would have left it, made without one.

folder = stored_run(tmp_path / "run-1", [answered("q1", "17", gold="17")], planned=["q1", "q2"])
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.store import RunStore

CONFIG = {"system": {"name": "toy"}, "scorer": {"_target_": "eval.scorers.exact.ExactScorer", "ignore_case": False}}
SESSION = {"started_at": "2026-11-21T08:00:00+00:00", "ended_at": "2026-11-21T08:00:09+00:00", "stopped": None}


def answered(sample_id: str, answer: str | None, gold: str | None = "17", **changes: Any) -> Record:
    record = Record(
        "run-1", sample_id, 1, 1, f"thread-{sample_id}", f"What is {sample_id}?", None, "1", gold,
        answer=answer, score=None if gold is None else float(answer == gold), usage=Usage(2, cost_usd=0.5),
        reasoning_trace="because", state={"draft": answer}, trajectory=[{"id": 0, "kind": "lm"}],
    )  # fmt: skip
    return replace(record, **changes)


def stored_run(
    folder: Path, records: Sequence[Record], planned: Sequence[str] | None = None, epochs: int = 1, **meta: Any
) -> Path:
    """`planned`: ids; None: those of the records. `meta`: facts beside the usual ones, as text or what JSON takes."""
    facts = {"run_id": "run-1", "simulated": "false", "config": yaml.safe_dump(CONFIG), "sessions": [SESSION], **meta}
    by_id = {record.sample_id: record for record in records}
    with RunStore(folder / "run.db") as store:
        store.plan([question(each, by_id.get(each)) for each in planned or by_id], epochs)
        for key, value in facts.items():
            store.set_meta(key, value if isinstance(value, str) else json.dumps(value))
        for record in records:
            store.write(record)
    return folder


def question(sample_id: str, record: Record | None) -> PlannedQuestion:
    return PlannedQuestion(sample_id, f"What is {sample_id}?", None, record.target if record else "17", "1")
