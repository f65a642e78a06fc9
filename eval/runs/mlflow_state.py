"""State of a run's copy in MLflow: `mlflow.json` in the run's folder, written by the process that sends it.

Only messages depend on it: all ids in MLflow are derived, so a lost file costs no more than a look.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eval.runs.folder import MLFLOW_STATE, write_lines

STATE = MLFLOW_STATE


@dataclass
class ExportState:
    """Result of the last process that sent the run."""

    uri: str = ""  # without user and password
    experiment: str = ""
    experiment_id: str = ""
    run_id: str = ""  # MLflow's; empty: it has no such run yet
    status: str = "RUNNING"  # of the run in MLflow
    complete: bool = False  # whether all counts were equal at the end
    counts: dict[str, dict[str, int]] = field(default_factory=dict)  # "traces" … → {"store": 64, "mlflow": 64}
    warning: str | None = None  # one sentence


def read_state(folder: Path) -> ExportState | None:
    """Return the state; None if nothing was ever sent, or the file cannot be read."""
    try:
        return ExportState(**json.loads((folder / STATE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_state(folder: Path, state: ExportState) -> None:
    write_lines(folder / STATE, [json.dumps(asdict(state), indent=2)])


def read_link(folder: Path) -> dict[str, str] | None:
    """Return the location of the run in MLflow as `summary.json` has it: uri, experiment_id and run_id."""
    state = read_state(folder)
    if state is None or not state.run_id:
        return None
    return {"uri": state.uri, "experiment_id": state.experiment_id, "run_id": state.run_id}
