"""A tuning run's folder as a run would have left it, made without one.

folder = make_tuning(tmp_path / "t", phase="sealed")
"""

import json
from pathlib import Path
from typing import Any

from eval.runs.run_info import TUNING_FILE

STARTED = "2026-11-21T10:00:00+00:00"


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def make_tuning(folder: Path, phase: str = "search", **state: Any) -> Path:
    begun = {
        name: {"lm_calls": n, "seconds": 1.0 * n, "cost_usd": 0.1 * n} for n, name in enumerate(("baseline", phase))
    }
    known = {"phase": phase, "session_started_at": STARTED, "session_seconds_before": 5.0, "ended_at": STARTED}
    config = {"budget": {"metric_calls": 600, "usd": 5.0}, "gate": {"epochs": 2}, "run": {"concurrency": 4}}
    about = {"run_id": "r", "system": "toy", "model": "small", "optimizer": "gepa", "simulated": True}
    spent = {"lm_calls": 7, "metric_calls": 30, "cost_usd": 0.5, "seconds": 60.0}
    write(
        folder,
        TUNING_FILE,
        {**about, "config": config, "state": {**known, "spend_by_phase": begun, "spend": spent, **state}},
    )
    write(folder, "splits.json", {"train": ["a"], "val": ["b"], "sealed": ["q1", "q2", "q3"]})
    write(folder, "baseline.json", {"val_score": 0.4, "ci95": [0.3, 0.5]})
    return folder
