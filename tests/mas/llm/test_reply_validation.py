"""What a reply cost, and which replies are no answers."""

import pytest
from dspy.lm15 import Message, RefusalPart, Request, Response, TextPart, ThinkingPart, ToolCallPart, Usage

from mas.llm import reply_validation
from mas.llm.call_policy import NO_LIMITS, ModelLimits
from mas.llm.prices import FREE, Price
from mas.llm.reply_validation import check_not_empty, record_cost, validate_reply
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedPromptError, TruncatedReplyError
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.trace import Span

PRICE = Price(10.0, 30.0, 1.0)
REQUEST = Request("any", (Message("user", (TextPart("hello"),)),))


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
    if is_empty:
        with pytest.raises(EmptyReplyError, match="empty: no text and no tool call"):
            check_not_empty(reply(*parts))
    else:
        check_not_empty(reply(*parts))
    for reason in ("length", "content_filter"):  # reported as such
        check_not_empty(reply(*parts, finish_reason=reason))


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
    with pytest.raises(error, match=words):
        validate_reply(REQUEST, response, NO_LIMITS, current)
    assert current.outputs["parts"][0] == {"type": "text", "text": "hi"}


def test_a_reply_may_have_as_many_characters_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_validation, "MAX_REPLY_CHARS", 10)
    monkeypatch.setattr(reply_validation, "BEGINNING_CHARS", 3)
    current = new_span()
    assert validate_reply(REQUEST, reply(ThinkingPart("abcd"), TextPart("efghij")), NO_LIMITS, current)
    assert [part["text"] for part in current.outputs["parts"]] == ["abcd", "efghij"]
    with pytest.raises(TruncatedReplyError, match="has 11 characters, and 10 are taken at most"):
        validate_reply(REQUEST, reply(ThinkingPart("abcde"), TextPart("fghijk")), NO_LIMITS, current)
    assert current.outputs["parts"] == [{"type": "text", "text": "fgh […]"}]


def test_half_a_character_is_replaced_in_texts_and_arguments() -> None:
    found = validate_reply(
        REQUEST, reply(TextPart("a\ud83d"), ToolCallPart("1", "search", {"q": "b\ud83d"})), NO_LIMITS, new_span()
    )
    text, call = found.message.parts
    assert (text.text, call.input) == ("a?", {"q": "b?"})  # type: ignore[union-attr]


def test_a_prompt_of_which_a_part_was_read_is_reported_before_the_reply_is() -> None:
    limits = ModelLimits("any", context_tokens=50, detect_truncation=True)
    with pytest.raises(TruncatedPromptError, match="all that its context of 50 holds"):
        validate_reply(REQUEST, reply(TextPart("hi"), finish_reason="length", input_tokens=50), limits, new_span())
    assert validate_reply(REQUEST, reply(TextPart("hi"), input_tokens=49), limits, new_span())


@pytest.mark.parametrize(
    ("text", "prompt_tokens", "is_cut"),
    [
        ("ab" * 1_000, 1, False),  # too short to judge
        ("ab" * 1_000 + "c", 1, True),
        ("ab" * 2_000, 500, False),  # 8 characters a token
        ("ab" * 2_000, 499, True),
        ("a" * 100_000 + "bc" * 1_000, 100, True),
        ("a" * 100_000 + "bc" * 999, 100, False),  # a run of one character counts once
    ],
)
def test_too_few_tokens_for_a_long_prompt_mean_that_it_was_cut(text: str, prompt_tokens: int, is_cut: bool) -> None:
    request = Request("any", (Message("user", (TextPart(text),)),))
    limits = ModelLimits("any", detect_truncation=True)
    if is_cut:
        with pytest.raises(TruncatedPromptError, match=f"it counted {prompt_tokens} tokens for "):
            limits.check_not_truncated(request, prompt_tokens)
    else:
        limits.check_not_truncated(request, prompt_tokens)


def test_a_model_takes_images_and_sounds_unless_its_profile_denies_it() -> None:
    assert NO_LIMITS.takes_images and NO_LIMITS.takes_audio and not NO_LIMITS.detect_truncation
