"""What a model is told of a query that took too long."""

import pytest

from mas.systems.bos.sql.engine import explain_timeout
from mas.systems.bos.sql.settings import QueryLimits


@pytest.mark.parametrize(("seconds", "told"), [(5, "5"), (5.0, "5"), (0.25, "0.25")])
def test_a_query_that_was_stopped_is_told_with_its_seconds(seconds: float, told: str) -> None:
    assert explain_timeout(QueryLimits(seconds=seconds)) == (
        f"The query was stopped after {told} seconds; write one that does less work."
    )
