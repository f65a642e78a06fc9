import pytest

from eval.execution.budget import Budget
from mas.runtime.sample_context import Payment


def pay(cost_usd: float | None) -> Payment:
    return Payment(1, 0, 1, cost_usd=cost_usd)


@pytest.mark.parametrize(
    ("costs", "reported"),
    [
        ([0.25, 0.5], 0),
        ([0.25, 0.75], 1),  # exactly all of it
        ([0.25, 0.75, 0.5, 0.5], 1),  # once
        ([2.0], 1),
        ([None, 0.5], 0),
    ],
)
def test_a_budget_that_is_reached_is_reported_once(costs: list[float | None], reported: int) -> None:
    sentences: list[str] = []
    budget = Budget(1.0, sentences.append)
    for cost in costs:
        budget.spend(pay(cost))
    assert len(sentences) == reported
    assert budget.spent_usd == sum(cost or 0.0 for cost in costs)
    if reported:
        assert sentences[0].endswith("(run.max_cost_usd=1)")


def test_without_a_budget_nothing_is_reported() -> None:
    sentences: list[str] = []
    budget = Budget(None, sentences.append)
    budget.spend(pay(1e9))
    assert sentences == []
