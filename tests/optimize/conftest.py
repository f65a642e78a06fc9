"""Tuning runs that have ended, for tests that read them or go on with a copy (`tests.command.copy_run`)."""

import pytest

from tests.command import Finished
from tests.optimize.planted_runs import ALWAYS, SLIGHTLY, planted_run


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return planted_run(tmp_path_factory.mktemp("published"), texts={"finalize": ALWAYS})


@pytest.fixture(scope="session")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return planted_run(tmp_path_factory.mktemp("rejected"), texts={"finalize": SLIGHTLY})
