"""One real MLflow store for all tests of this folder: making one takes seconds. Each test has its own experiment."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from eval.tracking.sending import TrackedRun, open_run
from eval.tracking.settings import LocalTracking

_numbers = count()


@pytest.fixture(scope="session")
def mlflow_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LocalTracking(folder=str(folder)).environment().items():
            patch.setenv(name, value)  # so that what the code sets is undone at the end
        yield folder


@pytest.fixture
def local(mlflow_folder: Path) -> LocalTracking:
    assert "MLFLOW_TRACKING_USERNAME" not in os.environ
    return LocalTracking(experiment=f"experiment {next(_numbers)}", folder=str(mlflow_folder))


@pytest.fixture
def opened(local: LocalTracking) -> Callable[..., TrackedRun]:
    """Opens a run of the test's own experiment; twice for the same run id is the same run."""

    def opened(run_id: str = "run-1", **tags: str) -> TrackedRun:
        own_id = f"{run_id} of {local.experiment}"  # a run with traces is in one experiment only
        return open_run(local, own_id, name=run_id, start_ms=1_795_000_000_000, tags=tags)

    return opened
