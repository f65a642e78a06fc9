"""What a reply cost, and which replies are no answers."""

import pytest
from dspy.lm15 import Message, RefusalPart, Response, TextPart, ThinkingPart, ToolCallPart, Usage

from mas.llm import CallSettings
from mas.llm.prices import FREE, Price
from mas.llm.reply_validation import record_cost, validate_reply
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.trace import Span

PRICE = Price(10.0, 30.0, 1.0)


def reply(*parts: object, finish_reason: str = "stop", **usage: int | None) -> Response:
    return Response(None, "any", Message("assistant", parts), finish_reason, Usage(**usage))  # type: ignore[arg-type]


def new_span() -> Span:
    return Span(1, None, "lm", "any", 0.0)


def test_the_cost_of_a_reply_is_recorded_with_its_tokens() -> None:
    context, current = SampleContext(SampleKey("")), new_span()
    full = reply(TextPart("hi"), input_tokens=100, cache_read_tokens=40, output_tokens=10)
    paid = record_cost(full, PRICE, context, current)
    cost = (60 * 10 + 40 * 1 + 10 * 30) / 1e6
    assert (paid.input_tokens, paid.cached_input_tokens, paid.output_tokens) == (100, 40, 10)
    assert (context.usage.tokens, context.usage.cost_usd) == (110, pytest.approx(cost))
    assert paid.cost_usd == pytest.approx(cost)
    assert current.attributes == {
        "finish_reason": "stop", "input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 10,
        "cost_usd": pytest.approx(cost),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (PRICE, {}, None),  # nothing was counted
        (None, {"input_tokens": 5}, None),  # no price
        (FREE, {}, 0.0),
        (PRICE, {"output_tokens": 10}, 0.0003),
        (PRICE, {"input_tokens": 0}, 0.0),
    ],
)
def test_a_cost_that_cannot_be_known_is_unknown_and_not_nothing(
    price: Price | None, usage: dict[str, int], cost: float | None
) -> None:
    paid = record_cost(reply(TextPart("hi"), **usage), price, SampleContext(SampleKey("")), new_span())
    assert paid.cost_usd == (None if cost is None else pytest.approx(cost))


@pytest.mark.parametrize(
    ("parts", "is_empty"),
    [
        ((TextPart(" \n"),), True),
        ((ThinkingPart("hm"),), True),
        ((ThinkingPart("hm"), TextPart("")), True),
        ((TextPart("hi"),), False),
        ((ThinkingPart("hm"), TextPart("hi")), False),
        ((ToolCallPart("1", "search", {}),), False),
        ((RefusalPart("no"),), False),
    ],
)
def test_a_reply_without_text_and_tool_call_is_empty(parts: tuple[object, ...], is_empty: bool) -> None:
    read = validate_reply(reply(*parts), CallSettings(), new_span())
    assert isinstance(read, EmptyReplyError) is is_empty
    assert not is_empty or "no text and no tool call" in str(read)
    for reason in ("length", "content_filter"):  # reported as such
        cut_off = validate_reply(reply(*parts, finish_reason=reason), CallSettings(), new_span())
        assert not isinstance(cut_off, EmptyReplyError)


@pytest.mark.parametrize(
    ("response", "error", "words"),
    [
        (reply(TextPart("hi"), finish_reason="length"), TruncatedReplyError, "cut off at the model's token limit"),
        (reply(TextPart("hi"), finish_reason="content_filter"), RefusedReplyError, "content filter"),
        (reply(TextPart("hi"), RefusalPart("not that")), RefusedReplyError, "refused to answer: not that"),
    ],
)
def test_what_is_no_answer_is_an_error_and_still_recorded(
    response: Response, error: type[Exception], words: str
) -> None:
    current = new_span()
    read = validate_reply(response, CallSettings(), current)
    assert isinstance(read, error) and words in str(read)
    assert current.outputs["parts"][0] == {"type": "text", "text": "hi"}
