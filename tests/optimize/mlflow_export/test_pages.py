"""MLflow's own page of a tuning run, seen in a real Chromium: what became of each proposal stands in its name.

The picture is in pytest's folder of the test; MLFLOW_PICTURES=docs/images replaces that of docs/how-to/mlflow.md.
"""

import os
from pathlib import Path

import pytest

from eval.runs.mlflow_state import read_state
from tests.optimize.tuning_command import tuning_command
from tests.pages.browser import browser, picture, see, why_not
from tests.servers.mlflow_server import running_mlflow

pytestmark = pytest.mark.slow


def test_the_list_of_a_tuning_run_s_proposals_tells_them_apart(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    pictures = Path(os.environ.get("MLFLOW_PICTURES", tmp_path)).absolute()
    what = ("system=toy", "data=toy", "model=offline", "name=short_answers", "data.n_test=60", "gate.epochs=2")
    tuned = tuning_command(tmp_path, *what, "tracking=local", f"tracking.folder={tmp_path / 'store'}")
    state = read_state(tuned.folder)
    assert state and state.complete, tuned.err
    store = f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"
    with running_mlflow(tmp_path / "server", store) as server, browser() as page:
        see(page, f"{server.url}/#/experiments/{state.experiment_id}/runs?workflowType=machine_learning", "short_a")
        page.locator(".ag-row button").first.click()
        text = see(page, None, "c001 ")
        picture(page, pictures, "mlflow-tuning")
    assert "mas-harness-tuning" in text
    for each in tuned.proposals[:10]:
        score = each["val_score"]
        told = f"{each['candidate_id']} " + ("rejected" if score is None else f"val {100 * score:.1f}%")
        assert any(line.startswith(told) for line in text.splitlines()), each
