from collections.abc import Callable

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export.tracked_run import TrackedRun, open_run


@pytest.fixture
def opened(local: LocalTracking) -> Callable[..., TrackedRun]:
    """Opens a run of the test's own experiment; twice for the same run id is the same run."""

    def opened(run_id: str = "run-1", **tags: str) -> TrackedRun:
        own_id = f"{run_id} of {local.experiment}"  # a run with traces is in one experiment only
        return open_run(local, own_id, name=run_id, start_ms=1_795_000_000_000, tags=tags)

    return opened
