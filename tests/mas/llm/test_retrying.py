"""Failures over real HTTP: which requests are sent again, how often, when, and what is told in the end."""

import asyncio
import math
import time
from contextlib import suppress
from typing import Any

import dspy
import pytest
from dspy.lm15 import RateLimitError
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMError,
    LMInvalidRequestError,
    LMProviderError,
    LMRateLimitError,
    LMServerError,
    LMTimeoutError,
    LMTransportError,
)

from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.llm.profiles.profile import RateSettings
from mas.llm.retrying import FailedAttempts, ReplyTimes
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from mas.runtime.loop_clock import now
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import Handler, Received, answer, complete_with, completion, drip, serving
from tests.mas.llm.test_budget_reservation import Ledger

AT_ONCE_SECONDS = 5.0  # far less than any Retry-After below


def profile(base_url: str, **settings: Any) -> OpenAIChatModel:
    return OpenAIChatModel(**{"name": "any", "base_url": base_url, "retry_base_seconds": 0.001, **settings})


def ask(base_url: str, text: str = "hi", **settings: Any) -> Any:
    return run_blocking(profile(base_url, **settings).create_lm(AgentModel()).acall(text))


def failing(status: str, code: str | None = None, message: str = "busy") -> Handler:
    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        await answer(writer, {"error": {"message": message, "type": "t", "code": code}}, status)

    return handle


def body(text: str, kind: str = "application/json") -> Handler:
    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        content = text.encode("utf-8", "surrogateescape")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()

    return handle


async def reset(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    raise ConnectionResetError


async def cut(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"id": ')
    await writer.drain()
    raise ConnectionResetError


def in_turn(*handlers: Handler) -> Handler:
    waiting = list(handlers)

    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request, writer)

    return handle


@pytest.mark.parametrize(
    ("fault", "error", "requests"),
    [
        (failing("429 Too Many Requests"), LMRateLimitError, 9),
        (failing("500 Internal Server Error"), LMServerError, 3),
        (failing("503 Service Unavailable"), LMServerError, 9),
        (failing("529 Overloaded"), LMServerError, 9),
        (body('{"error": {"message": "overloaded", "code": "server_error"}}'), LMServerError, 3),
        (reset, LMTransportError, 3),
        (cut, LMTransportError, 3),
        (body("{no json"), LMTransportError, 3),
        (body('{"id": "c", "choices": [{"index": 0, "mess'), LMTransportError, 3),
        (body('{"model": "caf\udcc3'), LMTransportError, 3),
        (body(""), LMTransportError, 3),
        (body("<html>gateway</html>", "text/html"), LMProviderError, 2),
        (body('{"model": "any", "choices": []}'), EmptyReplyError, 2),
        (body('{"model": "any", "choices": null}'), EmptyReplyError, 2),
        (complete_with(""), EmptyReplyError, 2),
        (complete_with("", "content_filter"), RefusedReplyError, 1),
        (complete_with("", refusal="I will not"), RefusedReplyError, 1),
        (failing("429 Too Many Requests", "insufficient_quota"), LMBillingError, 1),
        (failing("401 Unauthorized"), LMAuthError, 1),
        (failing("400 Bad Request"), LMInvalidRequestError, 1),
        (failing("400 Bad Request", "context_length_exceeded"), ContextWindowExceededError, 1),
    ],
)
def test_only_faults_that_pass_are_tried_again(
    fault: Handler, error: type[Exception], requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mas.llm.adaptive_pace.MAX_PAUSE_SECONDS", 0.01)
    trace = Trace("thread")
    with serving(fault) as server, record_trace(trace), pytest.raises(error):
        ask(server.base_url, num_retries=2)
    assert len(server.requests) == requests
    assert [(span.kind, bool(span.error)) for span in trace.spans] == [("lm", True)] * requests
    assert [span.attributes["attempt"] for span in trace.spans] == list(range(1, requests + 1))
    assert [span.attributes.get("retry", False) for span in trace.spans] == [False] + [True] * (requests - 1)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "529 Overloaded"])
def test_refusals_are_no_faults_and_a_call_survives_more_of_them(status: str) -> None:
    no, fault, yes = failing(status), failing("500 Internal Server Error"), complete_with("hello")
    with serving(in_turn(no, fault, no, no, fault, no, no, yes)) as server:
        assert ask(server.base_url, num_retries=2) == ["hello"]
        assert len(server.requests) == 8
    with serving(in_turn(no, fault, no, fault, no, fault, yes)) as server, pytest.raises(LMServerError):
        ask(server.base_url, num_retries=2)
    assert len(server.requests) == 6


def test_a_server_that_answers_nobody_is_given_up_as_after_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mas.llm.retrying.SILENCE_SECONDS", 0.0)
    with serving(failing("429 Too Many Requests")) as server, pytest.raises(LMRateLimitError, match="busy"):
        ask(server.base_url, num_retries=2)
    assert len(server.requests) == 3


@pytest.mark.parametrize(("silence", "answered", "refusals"), [(0.0, 7, 3), (0.0, 8, 9), (60.0, 7, 9)])
def test_how_often_a_call_may_be_refused(
    monkeypatch: pytest.MonkeyPatch, silence: float, answered: int, refusals: int
) -> None:
    monkeypatch.setattr("mas.llm.retrying.SILENCE_SECONDS", silence)
    counts = iter([7])
    attempts = FailedAttempts(2, lambda: next(counts, answered))
    while not attempts.is_last_final:
        attempts.record(RateLimitError("busy"))
    assert attempts.refusals == refusals


def test_a_passing_failure_is_forgotten_and_its_wait_is_no_work() -> None:
    context = SampleContext(SampleKey("q"))
    slow = failing("503 Service Unavailable\r\nRetry-After: 0.2")
    with serving(in_turn(slow, complete_with("hello"))) as server, use_context(context):
        assert ask(server.base_url, num_retries=1) == ["hello"]
    assert (len(server.requests), context.usage.lm_calls, context.usage.tokens) == (2, 2, 34)
    assert 0.2 <= context.usage.waited_seconds < AT_ONCE_SECONDS


def test_an_empty_reply_is_asked_for_once_more() -> None:
    with serving(in_turn(complete_with(""), complete_with("hello"))) as server:
        assert ask(server.base_url) == ["hello"]
        assert len(server.requests) == 2
    refused = failing("429 Too Many Requests"), failing("503 Service Unavailable")
    with serving(in_turn(*refused, complete_with(""), complete_with("hello"))) as server:
        assert ask(server.base_url) == ["hello"], "refusals are no replies"


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
@pytest.mark.parametrize("left", ["of the call", "of the question"])
def test_a_wait_that_would_outlast_the_deadline_is_not_begun(status: str, left: str) -> None:
    context = SampleContext(SampleKey("q"), deadline=now() + 60 if left == "of the question" else float("inf"))
    began = time.monotonic()
    refusing, refused = failing(f"{status}\r\nRetry-After: 100"), pytest.raises((LMRateLimitError, LMServerError))
    with serving(refusing) as server, use_context(context), refused:
        ask(server.base_url, call_deadline_seconds=60 if left == "of the call" else 1000)
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert len(server.requests) == 1


def test_the_deadline_is_that_of_the_whole_call_and_a_drip_does_not_hold_it() -> None:
    began = time.monotonic()
    with serving(in_turn(failing("503 Service Unavailable"), drip)) as server, pytest.raises(LMTimeoutError):
        ask(server.base_url, call_deadline_seconds=0.5)
    assert 0.5 <= time.monotonic() - began < AT_ONCE_SECONDS
    assert len(server.requests) == 4


def test_the_deadline_is_that_of_all_attempts_together() -> None:
    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        await failing("503 Service Unavailable")(request, writer)

    with serving(slow) as server, pytest.raises(LMTimeoutError, match=r"no complete reply within 1 s"):
        ask(server.base_url, call_deadline_seconds=1.0, num_retries=20)
    assert 1 < len(server.requests) <= 4


def hanging(*numbers: int) -> Handler:
    """Answers nothing to the requests with these numbers, and the others at once."""
    asked = 0

    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked in numbers:
            await asyncio.sleep(3600)
        await answer(writer, completion("hello"))

    return handle


@pytest.mark.parametrize("hangs", [1, 2])
@pytest.mark.parametrize("settings", [{"call_deadline_seconds": 1.0}, {"attempt_timeout_seconds": 0.3}])
def test_a_request_that_hangs_is_sent_again(settings: dict[str, float], hangs: int) -> None:
    budget, began = Ledger(), time.monotonic()
    context = SampleContext(SampleKey("q"), budget=budget)
    with serving(hanging(*range(1, hangs + 1))) as server, use_context(context):
        assert ask(server.base_url, **settings) == ["hello"]
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert len(server.requests) == context.usage.lm_calls == hangs + 1
    assert [payment.cost_usd for payment in budget.settled if payment] == [None] * (hangs + 1)


def test_the_last_attempt_has_all_the_time_that_is_left() -> None:
    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.6)
        await answer(writer, completion("hello"))

    with serving(slow) as server:
        assert ask(server.base_url, attempt_timeout_seconds=0.1, num_retries=1) == ["hello"]
        assert ask(server.base_url, call_deadline_seconds=1.0, num_retries=0) == ["hello"]
        assert len(server.requests) == 3


def test_of_a_thousand_calls_with_one_hang_in_a_hundred_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hang would take 45 s, half of its call; what replies took tells it from a slow reply."""
    monkeypatch.setattr("mas.llm.retrying.MIN_TIMEOUT_SECONDS", 0.5)

    async def all_calls() -> list[Any]:
        async def ask_in_turn() -> list[Any]:
            return [await lm.acall("hi") for _ in range(50)]

        return await asyncio.gather(*(ask_in_turn() for _ in range(20)))

    with serving(hanging(*range(40, 1100, 100))) as server:
        lm = profile(server.base_url, call_deadline_seconds=90.0).create_lm(AgentModel())
        began = time.monotonic()
        assert run_blocking(all_calls()) == [[["hello"]] * 50] * 20
    assert time.monotonic() - began < 40.0
    assert 1000 + 10 <= len(server.requests) < 1100, "on a busy machine a slow reply is cut off, too"


def test_the_timeout_of_an_attempt_is_learnt_from_the_replies() -> None:
    times = ReplyTimes()
    for _ in range(9):
        times.record(3.0)
    assert times.get_timeout() == math.inf
    times.record(100.0)
    assert times.get_timeout() == 15.0, "one slow reply of ten changes nothing"
    times.record(100.0)
    assert times.get_timeout() == 500.0, "two of eleven are what is to be expected"
    for _ in range(100):
        times.record(0.2)
    assert times.get_timeout() == 10.0


def test_a_hang_teaches_the_rate_limiter_nothing() -> None:
    with serving(hanging(1)) as server:
        model = profile(server.base_url, attempt_timeout_seconds=0.2)
        assert run_blocking(model.create_lm(AgentModel()).acall("hi")) == ["hello"]
    assert [entry["reason"] for entry in model.pace_history()] == ["start"]


def test_waiting_for_the_next_attempt_is_not_counted() -> None:
    slow = failing("503 Service Unavailable\r\nRetry-After: 0.7")
    with serving(in_turn(slow, slow, complete_with("hello"))) as server:
        assert ask(server.base_url, call_deadline_seconds=1.2) == ["hello"]
        assert len(server.requests) == 3


def test_waiting_for_a_known_rate_is_not_counted() -> None:
    """Eight calls at five a second, each of which may take one second."""

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(lm.acall("hi") for _ in range(8)))

    with serving(complete_with("hello")) as server:
        settings = {"rate": RateSettings(requests_per_minute=300), "call_deadline_seconds": 1.0}
        lm = profile(server.base_url, **settings).create_lm(AgentModel())
        began = time.monotonic()
        assert run_blocking(all_at_once()) == [["hello"]] * 8
    assert time.monotonic() - began > 1.2


def test_the_questions_time_bounds_the_queue_for_a_thread_too() -> None:
    with serving(complete_with("hello")) as server:
        lm = profile(server.base_url, rate=RateSettings(requests_per_minute=1)).create_lm(AgentModel())
        assert lm("hi") == ["hello"]
        began = time.monotonic()
        context = SampleContext(SampleKey("q"), deadline=now() + 0.3)
        with use_context(context), pytest.raises(LimitReachedError) as raised:
            lm("hi")
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert (raised.value.limit, context.limit_reached) == ("deadline_seconds", "deadline_seconds")


@pytest.mark.parametrize("in_a_thread", [True, False])
@pytest.mark.parametrize(
    ("status", "code", "refusal"),
    [("401 Unauthorized", "invalid_api_key", "LMAuthError"), ("429 No", "insufficient_quota", "LMBillingError")],
)
def test_a_refusal_of_key_or_quota_is_noted_even_if_the_agent_swallows_it(
    status: str, code: str, refusal: str, in_a_thread: bool
) -> None:
    async def swallowing() -> None:
        with suppress(LMError):
            await (asyncio.to_thread(lm, "hi") if in_a_thread else lm.acall("hi"))

    with serving(failing(status, code, "no money")) as server, use_context(SampleContext(SampleKey("q"))) as context:
        lm = profile(server.base_url).create_lm(AgentModel())
        run_blocking(swallowing())
    assert context.server_refusal is not None
    assert context.server_refusal.startswith(f"{refusal}: ")
    assert "no money" in context.server_refusal


@pytest.mark.parametrize("fault", [failing("503 Service Unavailable\r\nRetry-After: 30"), drip])
def test_a_cancelled_call_is_cancelled_whether_it_waits_for_the_server_or_for_the_next_try(fault: Handler) -> None:
    async def given_up() -> None:
        async with asyncio.timeout(0.3):
            await lm.acall("hi")

    with serving(fault) as server:
        lm = profile(server.base_url).create_lm(AgentModel())
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            run_blocking(given_up())
        assert time.monotonic() - began < AT_ONCE_SECONDS
        assert len(server.requests) == 1


def test_refusals_are_reported_to_the_rate_limiter() -> None:
    with serving(in_turn(failing("429 Too Many Requests\r\nRetry-After: 0"), complete_with("hello"))) as server:
        model = profile(server.base_url)
        assert run_blocking(model.create_lm(AgentModel()).acall("hi")) == ["hello"]
    assert [each.traffic.refused for each in model._rate_limiters.values()] == [1]


@pytest.mark.parametrize("reply", ["not the format", '{"answer": "42"}'])
def test_dspys_second_request_in_json_is_marked_as_a_retry(reply: str) -> None:
    trace = Trace("thread")
    with serving(in_turn(complete_with("not the format"), complete_with(reply))) as server, record_trace(trace):
        lm = profile(server.base_url).create_lm(AgentModel())
        with dspy.context(lm=lm):
            asked = dspy.Predict("question -> answer").acall(question="How many?")
            if reply.startswith("{"):
                assert run_blocking(asked).answer == "42"
            else:
                with pytest.raises(dspy.utils.exceptions.AdapterParseError):
                    run_blocking(asked)
    assert [(span.attributes["attempt"], span.attributes.get("retry", False)) for span in trace.spans] == [
        (1, False),
        (1, True),
    ]


def test_a_limit_leaves_the_lm_as_itself_and_nothing_is_sent() -> None:
    with serving(complete_with("[[ ## answer ## ]]\n42")) as server:
        lm = profile(server.base_url).create_lm(AgentModel())
        with use_context(SampleContext(SampleKey("q"), SampleLimits(lm_calls=1))), dspy.context(lm=lm):
            assert run_blocking(dspy.Predict("question -> answer").acall(question="?")).answer == "42"
            with pytest.raises(LimitReachedError, match=r"used its 1 calls to language models \(limits\.lm_calls\)"):
                run_blocking(dspy.Predict("question -> answer").acall(question="?"))
        assert len(server.requests) == 1


def test_a_limit_ends_the_retries() -> None:
    context = SampleContext(SampleKey("q"), SampleLimits(lm_calls=2))
    with serving(failing("503 Service Unavailable")) as server, use_context(context):
        with pytest.raises(LimitReachedError, match="lm_calls"):
            ask(server.base_url, num_retries=5)
        assert len(server.requests) == 2


def test_a_synchronous_call_on_the_loop_tells_of_a_limit_as_well() -> None:
    async def on_the_loop() -> Any:
        return lm("hi")

    with serving(complete_with("hello")) as server:
        lm = profile(server.base_url).create_lm(AgentModel())
        with use_context(SampleContext(SampleKey("q"), SampleLimits(lm_calls=1))) as context:
            assert run_blocking(on_the_loop()) == ["hello"]
            with pytest.raises(LimitReachedError, match="lm_calls"):
                run_blocking(on_the_loop())
    assert (context.usage.lm_calls, context.usage.tokens, len(server.requests)) == (1, 34, 1)


def test_a_truncated_reply_is_charged() -> None:
    async def cached(request: Received, writer: asyncio.StreamWriter) -> None:
        content = completion("The ans", "length")
        content["usage"] |= {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 400}}
        await answer(writer, content)

    budget = Ledger()
    trace, context = Trace("thread"), SampleContext(SampleKey("q"), budget=budget)
    with serving(cached) as server, record_trace(trace), use_context(context), pytest.raises(TruncatedReplyError):
        ask(server.base_url, prices={"any": Price(10.0, 20.0, cached_input_usd_per_million=5.0)})
    cost = (600 * 10 + 400 * 5 + 4 * 20) / 1e6
    assert trace.spans[0].attributes["cost_usd"] == pytest.approx(cost)
    assert trace.spans[0].attributes["cached_input_tokens"] == 400
    assert budget.settled == [Payment(1000, 400, 4, pytest.approx(cost))]
    assert (context.usage.cost_usd, context.usage.tokens) == (pytest.approx(cost), 1004)
