"""A tuning run whose proposals somebody deletes in MLflow."""

from contextlib import closing
from pathlib import Path

import pytest

from eval.config.tracking import LocalTracking
from eval.runs.logs import Log
from optimize.mlflow_export.tuning_export import TuningExport, find_children
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, verdict

pytestmark = pytest.mark.slow  # whole runs, or whole stores


def test_a_proposal_that_somebody_deletes_while_the_run_goes_on_is_sent_again_at_its_end(
    tmp_path: Path, local: LocalTracking
) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), system="crown_d", name="tuned")
    with closing(Log(folder, "mlflow")) as log, closing(TuningExport(folder, local, log)) as export:
        while export.send_new():
            pass
        export.run.client.delete_run(find_children(export.run)["c002"].info.run_id)
        state = export.export(None)
    assert (state.complete, state.warning) == (True, None)
    assert state.counts == {"proposals": {"store": 3, "mlflow": 3}}
