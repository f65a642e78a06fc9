"""A tuning run's folder as a run would have left it, made without one.

folder = make_tuning(tmp_path / "t", phase="sealed")
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from eval.runs.folder import DATABASE, TUNING_FILE
from eval.runs.run_info import RunInfo, RunState, SessionInfo, TuningTask
from eval.runs.store import RunStore

STARTED = "2026-11-21T10:00:00+00:00"
TASK = TuningTask("tuned", "gepa", "small", 0, "5d", "5e", "5c", parent_gated=False)


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def store_tuning(folder: Path, info: RunInfo, results: Mapping[str, object] | None = None, **state: Any) -> Path:
    """Write a run; `state`: fields of RunState, and of its only session."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {each.name: state.pop(each.name) for each in fields(SessionInfo) if each.name in state}
    session = SessionInfo(**{"started_at": STARTED, "ended_at": STARTED, **own})
    with RunStore(folder / DATABASE) as store:
        store.write_info(info)
        store.write_state(RunState(sessions=[session], **state))
        store.write_results(results or {})
    write(folder, TUNING_FILE, {})
    return folder


def make_tuning(folder: Path, phase: str = "search", results: Mapping[str, object] | None = None, **state: Any) -> Path:
    config = {"budget": {"metric_calls": 600, "usd": 5.0}, "gate": {"epochs": 2}, "run": {"concurrency": 4}}
    info = RunInfo(run_id="r", system="toy", model="small", simulated=True, config=config, tuning=TASK)
    spent = {"lm_calls": 7, "metric_calls": 30, "cost_usd": 0.5, "seconds": 60.0}
    found = {
        "splits": {"train": ["a"], "val": ["b"], "sealed": ["q1", "q2", "q3"]},
        "baseline": {"val_score": 0.4, "ci95": [0.3, 0.5]},
        **(results or {}),
    }
    known = {"phase": phase, "wall_seconds": 5.0, "spend": spent, **state}
    return store_tuning(folder, info, found, **known)
