from collections.abc import Callable

import pytest

from eval.runs.record import Record


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
