import pytest

from eval.execution.budget import Budget, BudgetSettings
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
    budget = Budget(BudgetSettings(metric_calls=None, usd=1.0), used_up=sentences.append)
    for cost in costs:
        account = budget.open_account(lambda payment: None)
        account.reserve()  # never refused: what is in flight is cancelled by the run
        account.settle(pay(cost))
    assert len(sentences) == reported
    assert budget.spend().cost_usd == sum(cost or 0.0 for cost in costs)
    if reported:
        assert sentences[0].endswith("(run.max_cost_usd=1)")
