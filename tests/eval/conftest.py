from collections.abc import Callable

import pytest

from eval.runs.record import Record
from tests.command import Finished, run_command, surroundings


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of the simulated model that has ended, for tests that only read it."""
    place = tmp_path_factory.mktemp("finished")
    with surroundings(place):
        return run_command(
            place, "eval", "experiment=offline", "limit=5", "shuffle=true", "system.agents.expert.retry_limit=4"
        )


@pytest.fixture
def record() -> Callable[..., Record]:
    """Makes a wrong answer to a question of level 1; keywords change it."""

    def make(sample_id: str = "q1", **changes: object) -> Record:
        fields: dict[str, object] = {
            "run_id": "run-1",
            "sample_id": sample_id,
            "epoch": 1,
            "attempt": 1,
            "thread_id": f"thread-{sample_id}",
            "question": "Which?",
            "file": None,
            "level": "1",
            "target": "SECRET-GOLD",
            "answer": "another",
            "score": 0.0,
        }
        return Record(**{**fields, **changes})  # type: ignore[arg-type]

    return make
