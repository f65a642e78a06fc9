from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from eval.execution.budget import Budget, SampleBudget, add_unseen_usage, count_reviews, count_tool_calls, sum_usage
from eval.runs.record import Usage
from mas.runtime.sample_context import Payment, SampleKey
from mas.runtime.trace import Span
from tests.eval.stored_run import answered


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


def a_span(kind: str, error: str | None = None, **attributes: object) -> Span:
    return Span(1, None, kind, "any", 0.0, attributes=attributes, error=error)  # type: ignore[arg-type]


def a_call(**attributes: object) -> Span:
    return a_span("lm", input_tokens=10, cached_input_tokens=4, output_tokens=2, **attributes)


def test_the_usage_of_an_answer_is_the_sum_over_its_calls() -> None:
    spans = [
        a_call(cost_usd=0.5), a_call(cost_usd=0.25, retry=True), a_call(cost_usd=0.0, replayed=True),
        a_call(cost_usd=0.0, cached=True), a_span("lm", error="it failed"),
        a_span("tool", kept_at="2026-03-01"), a_span("tool", cached=True, kept_at="2026-02-01"),
        a_span("tool", replayed=True), a_span("agent", input_tokens=99, cost_usd=9.0),
    ]  # fmt: skip
    assert sum_usage(spans) == Usage(
        lm_calls=5, retries=1, replayed_calls=1, cached_calls=1, tool_calls=3, replayed_tool_calls=1,
        cached_tool_calls=1, input_tokens=40, cached_input_tokens=16, output_tokens=8, cost_usd=0.75,
        known_cost_usd=0.75, unknown_cost_calls=0, oldest_cached_tool_result="2026-02-01",
    )  # fmt: skip


def test_one_unknown_cost_makes_the_sum_unknown_and_the_rest_stays_known() -> None:
    found = sum_usage([a_call(cost_usd=0.5), a_call(), a_call(cost_usd=None)])
    assert (found.cost_usd, found.known_cost_usd, found.unknown_cost_calls) == (None, 0.5, 2)
    assert sum_usage([]).cost_usd is None and sum_usage([]).oldest_cached_tool_result is None


def test_what_was_paid_beyond_the_answers_own_calls_is_added_once() -> None:
    seen = sum_usage([a_call(cost_usd=0.5)])
    trajectory = [
        {
            "kind": "lm",
            "attributes": {"cost_usd": 0.5, "input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2},
        },
        {"kind": "lm", "attributes": {"cost_usd": 7.0, "cached": True, "input_tokens": 70}},  # paid by another run
        {"kind": "lm", "attributes": {"input_tokens": 5}},  # nothing was charged
        {"kind": "tool", "attributes": {"cost_usd": 9.0}},
    ]
    record = answered("q1", "17", usage=seen, trajectory=trajectory)
    paid = Usage(lm_calls=3, input_tokens=30, cached_input_tokens=12, output_tokens=6, known_cost_usd=1.5)
    found = add_unseen_usage(record, paid)
    assert (found.lm_calls, found.input_tokens, found.cached_input_tokens, found.output_tokens) == (3, 30, 12, 6)
    assert (found.cost_usd, found.known_cost_usd) == (1.5, 1.5)
    assert add_unseen_usage(record, replace(paid, lm_calls=1)) is seen, "nothing else was sent"
    unknown = add_unseen_usage(record, replace(paid, unknown_cost_calls=1))
    assert (unknown.cost_usd, unknown.unknown_cost_calls) == (None, 1)


def test_a_sample_pays_for_requests_that_were_not_refused() -> None:
    paid: list[Payment] = []
    log: Any = SimpleNamespace(pay=lambda key, payment: paid.append(payment))
    account = SampleBudget(SampleKey("q1"), log, Budget(None, print))
    account.settle(None)
    account.settle(replace(pay(0.5), refused=True))
    account.settle(pay(0.25))
    assert (paid, account.budget.spent_usd) == ([pay(0.25)], 0.25)


def test_tool_calls_and_failures_are_counted_by_name() -> None:
    steps = [
        {"kind": "tool", "name": "search"}, {"kind": "tool", "name": "search", "error": "no reply"},
        {"kind": "tool", "name": "search", "attributes": {"substitute": "Wikipedia"}}, {"kind": "lm", "name": "search"},
        {"kind": "tool", "name": "x" * 99, "attributes": {"substitute": None}, "error": None},
    ]  # fmt: skip
    assert count_tool_calls(steps) == ({"search": 3, "x" * 60: 1}, {"search": 2})


@pytest.mark.parametrize(
    ("approvals", "counts"),
    [
        ("", (0, 0, 0, 0)),
        ("a", (1, 0, 0, 0)),
        ("ra", (2, 1, 1, 1)),
        ("rra", (3, 2, 1, 1)),
        ("rrr", (3, 3, 1, 0)),
        ("rarra", (5, 3, 2, 2)),
        ("aar", (3, 1, 1, 0)),
    ],
)
def test_reviews_are_counted_by_their_outcome(approvals: str, counts: tuple[int, int, int, int]) -> None:
    found = count_reviews([each == "a" for each in approvals])
    assert tuple(found[name] for name in ("reviews", "rejected", "retried", "recovered")) == counts


def a_step(kind: str = "lm", **attributes: object) -> dict[str, object]:
    return {"kind": kind, "attributes": attributes}


ALL_TOKENS = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}


def test_only_what_is_beyond_the_answers_own_calls_is_added_to_the_rest_of_its_usage() -> None:
    own = Usage(
        lm_calls=2, retries=1, tool_calls=3, input_tokens=20, cached_input_tokens=8, output_tokens=4, cost_usd=0.75,
        known_cost_usd=0.0, oldest_cached_tool_result="2026-02-01",
    )  # fmt: skip
    trajectory = [a_step(cost_usd=0.5, **ALL_TOKENS), a_step(cost_usd=0.25, **ALL_TOKENS)]
    record = answered("q1", "17", usage=own, trajectory=trajectory)
    paid = Usage(lm_calls=3, input_tokens=21, cached_input_tokens=7, output_tokens=9, known_cost_usd=1.0)
    assert add_unseen_usage(record, paid) == replace(
        own, lm_calls=3, input_tokens=21, output_tokens=9, cost_usd=1.0, known_cost_usd=1.0
    )
    assert (own.lm_calls, own.cost_usd, own.known_cost_usd) == (2, 0.75, 0.0), "the record itself stays"
    assert add_unseen_usage(record, replace(paid, lm_calls=2)) is own
    assert add_unseen_usage(record, replace(paid, lm_calls=1)) is own


@pytest.mark.parametrize(("n_paid", "n_found"), [(0, 1), (1, 1), (2, 2)])
def test_a_call_of_unknown_cost_in_the_trajectory_was_seen(n_paid: int, n_found: int) -> None:
    trajectory = [
        a_step(cost_usd=None, input_tokens=None, cached_input_tokens=None, output_tokens=None),
        a_step(cost_usd=None, cached=True),
        a_step(cost_usd=0.5, cached=False),
    ]
    own = Usage(lm_calls=3, known_cost_usd=0.5, unknown_cost_calls=1)
    found = add_unseen_usage(
        answered("q1", "17", usage=own, trajectory=trajectory),
        Usage(lm_calls=3, input_tokens=5, cached_input_tokens=3, output_tokens=1, known_cost_usd=0.75,
              unknown_cost_calls=n_paid),
    )  # fmt: skip
    assert found == Usage(
        lm_calls=4, input_tokens=5, cached_input_tokens=3, output_tokens=1, cost_usd=None, known_cost_usd=0.75,
        unknown_cost_calls=n_found,
    )  # fmt: skip


def test_a_failed_call_costs_nothing_unless_its_cost_was_noted() -> None:
    spans = [a_span("lm", error="cut off"), a_span("lm", error="cut off", cost_usd=0.25, input_tokens=None)]
    assert sum_usage(spans) == Usage(lm_calls=2, cost_usd=0.25, known_cost_usd=0.25)
    assert sum_usage([a_span("lm", error="cut off", cost_usd=None)]) == Usage(lm_calls=1, unknown_cost_calls=1)
    assert sum_usage([a_span("tool", cost_usd=0.5)]) == Usage(tool_calls=1)


def test_a_spent_budget_is_told_with_what_was_spent() -> None:
    sentences: list[str] = []
    budget = Budget(0.3, sentences.append, spent_usd=0.25)
    budget.spend(pay(0.0))
    assert sentences == []
    budget.spend(pay(0.12345))
    assert sentences == ["the run has spent $0.3735 (run.max_cost_usd=0.3)"]
    assert Budget(1.0, print).spent_usd == 0.0


def test_a_run_that_begins_beyond_its_budget_does_not_reach_it_again() -> None:
    sentences: list[str] = []
    Budget(1.0, sentences.append, spent_usd=1.0).spend(pay(0.5))
    assert sentences == []


def test_a_tool_call_fails_by_an_error_or_a_substitute() -> None:
    steps: list[dict[str, Any]] = [
        {"kind": "tool", "name": "a"}, {"kind": "tool", "name": "a", "error": "", "attributes": "none"},
        {"kind": "tool", "name": "b", "error": "e", "attributes": {"substitute": "s"}},
        {"kind": "tool", "name": "b" * 60, "error": None, "attributes": {"substitute": ""}},
        {"kind": "tool", "name": "b" * 61, "error": "e"}, {"kind": "agent", "name": "a", "error": "e"},
    ]  # fmt: skip
    assert count_tool_calls(steps) == ({"a": 2, "b": 1, "b" * 60: 2}, {"b": 1, "b" * 60: 1})
