"""Failures over real HTTP: which requests are sent again, how often, when, and what is told in the end."""

import asyncio
import math
import time
from contextlib import suppress
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import (
    LMBillingError,
    LMError,
    LMRateLimitError,
    LMServerError,
    LMTimeoutError,
    LMTransportError,
)

from mas.llm.engine import learn_timeout
from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import RefusedReplyError, TruncatedReplyError
from mas.runtime.sample_context import Payment, SampleContext, SampleKey, use_context
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import (
    Handler,
    Received,
    answer,
    body,
    complete_with,
    completion,
    drip,
    failing,
    in_turn,
    serving,
)
from tests.mas.llm.test_budget_reservation import Ledger
from tests.patience import wait_for
from tests.servers.loopback import HANG, Answer

AT_ONCE_SECONDS = 25.0  # far less than any Retry-After below


def profile(base_url: str, **settings: Any) -> OpenAIChatModel:
    return OpenAIChatModel(**{"name": "any", "base_url": base_url, "retry_base_seconds": 0.001, **settings})


def ask(base_url: str, text: str = "hi", **settings: Any) -> Any:
    return run_blocking(profile(base_url, **settings).create_lm(AgentModel()).acall(text))


@pytest.mark.parametrize(
    ("fault", "error", "requests"),
    [
        (failing(429), LMRateLimitError, 9),
        (failing(500), LMServerError, 3),
        (body('{"model": "caf\udcc3'), LMTransportError, 3),
        (body(""), LMTransportError, 3),
        (complete_with("", refusal="I will not"), RefusedReplyError, 1),
        (failing(429, "insufficient_quota"), LMBillingError, 1),
    ],
)
def test_only_faults_that_pass_are_tried_again_and_each_attempt_is_a_span(
    fault: Handler, error: type[Exception], requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/test_faults.py` has the others."""
    monkeypatch.setattr("mas.llm.rate_limiter.MAX_PAUSE_SECONDS", 0.01)
    trace = Trace("thread")
    with serving(fault) as server, record_trace(trace), pytest.raises(error):
        ask(server.base_url, num_retries=2)
    assert len(server.requests) == requests
    assert [(span.kind, bool(span.error)) for span in trace.spans] == [("lm", True)] * requests
    assert [span.attributes["attempt"] for span in trace.spans] == list(range(1, requests + 1))
    assert [span.attributes.get("retry", False) for span in trace.spans] == [False] + [True] * (requests - 1)


@pytest.mark.parametrize("status", [429, 503, 529])
def test_refusals_are_no_faults_and_a_call_survives_more_of_them(status: int) -> None:
    no, fault, yes = failing(status), failing(500), complete_with("hello")
    with serving(in_turn(no, fault, no, no, fault, no, no, yes)) as server:
        assert ask(server.base_url, num_retries=2) == ["hello"]
        assert len(server.requests) == 8
    with serving(in_turn(no, fault, no, fault, no, fault, yes)) as server, pytest.raises(LMServerError):
        ask(server.base_url, num_retries=2)
    assert len(server.requests) == 6


def test_a_used_up_limit_without_retry_after_is_waited_for_until_its_reset() -> None:
    used_up = failing(429, x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="0m0.2s400ms")
    left = failing(429, x_ratelimit_remaining_tokens="9", x_ratelimit_reset_tokens="1h")
    with serving(in_turn(used_up, left, complete_with("hello"))) as server:
        began = time.monotonic()
        assert ask(server.base_url) == ["hello"]
        assert 0.6 <= time.monotonic() - began < AT_ONCE_SECONDS


def test_an_empty_reply_is_asked_for_once_more() -> None:
    with serving(in_turn(complete_with(""), complete_with("hello"))) as server:
        assert ask(server.base_url) == ["hello"]
        assert len(server.requests) == 2
    refused = failing(429), failing(503)
    with serving(in_turn(*refused, complete_with(""), complete_with("hello"))) as server:
        assert ask(server.base_url) == ["hello"], "refusals are no replies"


def test_the_deadline_is_that_of_the_whole_call_and_a_drip_does_not_hold_it() -> None:
    began = time.monotonic()
    with serving(in_turn(failing(503), drip)) as server, pytest.raises(LMTimeoutError):
        ask(server.base_url, call_deadline_seconds=2.0)
    assert 2.0 <= time.monotonic() - began < AT_ONCE_SECONDS
    assert len(server.requests) == 2


def hanging(*numbers: int) -> Handler:
    """Answers nothing to the requests with these numbers, and the others at once."""
    asked = 0

    def handle(request: Received) -> Answer:
        nonlocal asked
        asked += 1
        return HANG if asked in numbers else answer(completion("hello"))

    return handle


@pytest.mark.parametrize("hangs", [1, 2])
def test_a_request_that_hangs_is_sent_again(hangs: int) -> None:
    budget, began = Ledger(), time.monotonic()
    context = SampleContext(SampleKey("q"), budget=budget)
    with serving(hanging(*range(1, hangs + 1))) as server, use_context(context):
        assert ask(server.base_url, attempt_timeout_seconds=1.5) == ["hello"]
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert len(server.requests) == context.usage.lm_calls == hangs + 1
    assert [payment.cost_usd for payment in budget.settled if payment] == [None] * (hangs + 1)


def test_the_timeout_of_an_attempt_is_learnt_from_the_replies() -> None:
    assert learn_timeout([3.0] * 9) == math.inf
    assert learn_timeout([3.0] * 9 + [100.0]) == 15.0, "one slow reply of ten changes nothing"
    assert learn_timeout([3.0] * 9 + [100.0] * 2) == 500.0, "two of eleven are what is to be expected"
    assert learn_timeout([0.2] * 100) == 10.0


@pytest.mark.parametrize("in_a_thread", [True, False])
@pytest.mark.parametrize(
    ("status", "code", "refusal"),
    [(401, "invalid_api_key", "LMAuthError"), (429, "insufficient_quota", "LMBillingError")],
)
def test_a_refusal_of_key_or_quota_is_noted_even_if_the_agent_swallows_it(
    status: int, code: str, refusal: str, in_a_thread: bool
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


@pytest.mark.parametrize("fault", [failing(503, Retry_After="30"), drip])
def test_a_cancelled_call_is_cancelled_whether_it_waits_for_the_server_or_for_the_next_try(fault: Handler) -> None:
    async def given_up() -> None:
        call = asyncio.create_task(lm.acall("hi"))
        await asyncio.to_thread(wait_for, lambda: server.requests)
        async with asyncio.timeout(0.3):
            await call

    with serving(fault) as server:
        lm = profile(server.base_url).create_lm(AgentModel())
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            run_blocking(given_up())
        assert time.monotonic() - began < AT_ONCE_SECONDS
        assert len(server.requests) == 1


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


def test_a_truncated_reply_is_charged() -> None:
    def cached(request: Received) -> Answer:
        content = completion("The ans", "length")
        content["usage"] |= {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 400}}
        return answer(content)

    budget = Ledger()
    trace, context = Trace("thread"), SampleContext(SampleKey("q"), budget=budget)
    with serving(cached) as server, record_trace(trace), use_context(context), pytest.raises(TruncatedReplyError):
        ask(server.base_url, prices={"any": Price(10.0, 20.0, cached_input_usd_per_million=5.0)})
    cost = (600 * 10 + 400 * 5 + 4 * 20) / 1e6
    assert trace.spans[0].attributes["cost_usd"] == pytest.approx(cost)
    assert trace.spans[0].attributes["cached_input_tokens"] == 400
    assert budget.settled == [Payment(1000, 400, 4, pytest.approx(cost))]
    assert (context.usage.cost_usd, context.usage.tokens) == (pytest.approx(cost), 1004)
