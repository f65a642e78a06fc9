"""One tuning run from its command line to its pages in MLflow, a local store."""

from pathlib import Path

import pytest

from eval.config.tracking import LocalTracking
from optimize.search.optimizers.gepa_optimizer import GepaOptimizer
from tests.command import run_command, surroundings
from tests.optimize.mlflow_export.tuning_folder import client
from tests.optimize.planted_runs import ALWAYS, Obedient, planted_run
from tests.patience import PATIENCE_SECONDS


@pytest.mark.slow
def test_a_published_run_is_in_mlflow_with_its_proposals_and_its_gate(tmp_path: Path) -> None:
    mlflow = tmp_path / "mlflow"
    model = Obedient(reflected=f"[[ ## new_instruction ## ]]\nAnswer it. {ALWAYS}\n\n[[ ## completed ## ]]")
    where = ("tracking=local", f"tracking.folder={mlflow}", f"++tracking.wait_seconds={PATIENCE_SECONDS}")
    tuned = planted_run(tmp_path, *where, "budget.metric_calls=60", model=model, optimizer=GepaOptimizer())
    assert (tuned.code, tuned.verdict["finish_reason"]) == (0, "improved"), (tuned.out, tuned.err)
    assert "warning" not in tuned.out + tuned.err and "see it: " in tuned.out

    local = LocalTracking(folder=str(mlflow))
    store = client(local)
    runs = store.search_runs([each.experiment_id for each in store.search_experiments()])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    (parent,) = parents
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(children) == len(tuned.proposals) >= 1
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["simulated"] == "true" and "Simulated model" in parent.data.tags["mlflow.note.content"]
    gained = {name: value for name, value in parent.data.metrics.items() if "gain" in name}
    assert tuned.verdict["gain"] in gained.values(), parent.data.metrics

    before = [(run.info.run_id, dict(run.data.metrics), run.info.end_time) for run in runs]
    with surroundings(tmp_path, current="."):
        synced = run_command(tmp_path, "optimize/sync", tuned.folder, *where[:2])
    assert (synced.code, synced.err) == (0, "")
    again = store.search_runs([each.experiment_id for each in store.search_experiments()])
    assert [(run.info.run_id, dict(run.data.metrics), run.info.end_time) for run in again] == before
