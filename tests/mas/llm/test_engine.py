"""How long an attempt may take, how large a request is taken to be, and what of it is recorded."""

import asyncio
import math

import pytest
from dspy.lm15 import Config, Message, Request, TextPart
from dspy.utils.exceptions import LMTimeoutError

from mas.llm.call_policy import NO_LIMITS, CallPolicy
from mas.llm.engine import AgentEngine, _Call, _omit_media
from mas.llm.retrying import AttemptTimeoutError, FailedAttempts
from mas.runtime.sample_context import SampleContext, SampleKey


def new_call(
    seconds: float = 100.0,
    retries: int = 3,
    text: str = "hello",
    max_tokens: int | None = None,
    system: str | None = None,
) -> _Call:
    request = Request("any", (Message("user", (TextPart(text),)),), system, config=Config(max_tokens=max_tokens))
    return _Call(request, SampleContext(SampleKey("")), seconds, FailedAttempts(retries, lambda: 0))


def limit(call: _Call, attempt_seconds: float | None = None) -> float:
    engine = AgentEngine(None, CallPolicy(attempt_timeout_seconds=attempt_seconds))  # type: ignore[arg-type]
    engine.reply_times.get_timeout = lambda: 10.0  # type: ignore[method-assign]
    return engine._get_attempt_seconds(call)


def test_an_attempt_ends_in_time_for_others() -> None:
    call = new_call()
    assert limit(call) == 10.0
    call.cut_off = 2
    assert limit(call) == 40.0, "twice as long after each attempt that was cut off"
    call.cut_off = 9
    assert limit(call) == 50.0, "at most half of the time left"
    call.worked_seconds = 74.0
    assert limit(call) == 13.0
    call.worked_seconds = 75.0
    assert limit(call) == math.inf, "little is left"


def test_the_timeout_that_is_set_is_used_but_for_the_last_attempt() -> None:
    assert limit(new_call(), 7.0) == 7.0
    assert limit(new_call(retries=0), 7.0) == math.inf


def test_a_call_has_the_time_that_its_attempts_have_not_worked() -> None:
    call = new_call(seconds=100.0)
    call.worked_seconds = 30.0
    assert call.get_seconds_left() == 70.0


def test_the_tokens_of_a_request_are_estimated_with_a_reply_of_usual_length() -> None:
    short, long = new_call(text="x" * 400), new_call(text="x" * 4_400)
    assert long.estimate_tokens() - short.estimate_tokens() == 1_000
    assert short.estimate_tokens() - new_call(text="x" * 400, max_tokens=100).estimate_tokens() == pytest.approx(
        200, abs=10
    )
    assert new_call(max_tokens=5_000).estimate_tokens() == pytest.approx(new_call().estimate_tokens(), abs=10)


@pytest.mark.parametrize(
    ("attempts", "system", "is_repeat"),
    [
        (1, None, False),
        (2, None, True),
        (1, "Outputs will be a JSON object with the following fields.", True),
        (1, "Be brief.", False),
    ],
)
def test_a_later_attempt_and_a_request_for_json_are_repeats(attempts: int, system: str | None, is_repeat: bool) -> None:
    call = new_call(system=system)
    call.attempts = attempts
    assert call.is_repeat is is_repeat
    attributes = call.span_attributes()
    assert attributes["attempt"] == attempts and attributes.get("retry", False) is is_repeat


def test_a_record_has_the_size_of_media_and_all_of_the_rest() -> None:
    image = {"type": "image", "data": "x" * 500, "media_type": "image/png"}
    request = {
        "parts": [image, {"type": "text", "text": "look", "data": "kept"}, {"type": "image", "url": "https://a"}]
    }
    assert _omit_media(request) == {
        "parts": [
            {"type": "image", "data": "[500 characters of base64]", "media_type": "image/png"},
            {"type": "text", "text": "look", "data": "kept"},
            {"type": "image", "url": "https://a"},
        ]
    }
    assert "model" not in new_call().describe()


@pytest.mark.parametrize(
    ("attempt_seconds", "worked_seconds", "error", "cut_off"),
    [
        (0.01, 0.0, AttemptTimeoutError, 1),
        (math.inf, 99.99, LMTimeoutError, 0),
        (50.0, 99.99, LMTimeoutError, 0),
    ],
)
def test_an_attempt_ends_at_its_own_timeout_or_at_the_calls_deadline(
    attempt_seconds: float, worked_seconds: float, error: type[Exception], cut_off: int
) -> None:
    call = new_call(seconds=100.0)
    call.worked_seconds = worked_seconds

    async def attempt() -> None:
        async with call.limit_work(attempt_seconds):
            await asyncio.sleep(60)

    with pytest.raises(error, match=r"no complete reply within .*model\.call_deadline_seconds"):
        asyncio.run(attempt())
    assert call.cut_off == cut_off
    assert 0.005 <= call.worked_seconds - worked_seconds < 30


def test_a_timeout_of_the_code_inside_keeps_its_name_and_the_time_is_counted() -> None:
    call = new_call()

    async def attempt() -> None:
        async with call.limit_work(50.0):
            await asyncio.sleep(0.01)
            raise TimeoutError("of the transport")

    with pytest.raises(TimeoutError, match="of the transport"):
        asyncio.run(attempt())
    assert call.cut_off == 0 and 0.005 <= call.worked_seconds < 30


def test_a_span_says_how_long_the_attempt_has_waited_for_its_turn() -> None:
    call = new_call()
    assert 0 <= call.span_attributes()["waited_seconds"] < 30  # type: ignore[operator]


def test_without_settings_nothing_is_estimated_and_nothing_is_repeated() -> None:
    policy = CallPolicy()
    assert (policy.counts_tokens, policy.num_retries, policy.price, policy.rate_limiter) == (False, 0, None, None)
    assert policy.deadline_seconds == math.inf and policy.limits == NO_LIMITS
