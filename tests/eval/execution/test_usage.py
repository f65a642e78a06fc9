from dataclasses import replace

from eval.execution.usage import add_unseen_usage, sum_usage
from eval.runs.record import Usage
from mas.runtime.trace import Span
from tests.eval.stored_run import answered


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
