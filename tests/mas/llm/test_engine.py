"""How long an attempt may take, how large a request is taken to be, and what of it is recorded."""

import asyncio
import copy
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dspy.lm15 import (
    Config,
    ImagePart,
    LM15Error,
    Message,
    RateLimitError,
    Request,
    Response,
    ServerError,
    TextPart,
    TransportError,
    Usage,
)
from dspy.utils.exceptions import LMTimeoutError, LMUnsupportedFeatureError

from mas.llm.call_policy import NO_LIMITS, CallPolicy, ModelLimits
from mas.llm.engine import AgentEngine, SyncAgentEngine, _Call, _omit_media
from mas.llm.prices import Price
from mas.llm.rate_limiter import BackoffTooLongError
from mas.llm.retrying import AttemptTimeoutError, FailedAttempts
from mas.runtime.lm_errors import EmptyReplyError, TruncatedReplyError
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Span, Trace, record_trace
from tests.mas.llm.test_budget_reservation import Ledger


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


COST = (30 * 1.0 + 4 * 2.0) / 1e6  # of one reply
PAID = Payment(30, 0, 4, COST)
REQUEST = Request("any/model", (Message("user", (TextPart("hello"),)),), "Be brief.", config=Config())
WITH_IMAGE = Request("any/model", (Message("user", (ImagePart(data="aGk="),)),), config=Config())
COUNTED = {"finish_reason": "stop", "input_tokens": 30, "cached_input_tokens": 0, "output_tokens": 4, "cost_usd": COST}


def replying(text: str = "hi", finish_reason: Any = "stop") -> Response:
    message = Message("assistant", (TextPart(text),))
    return Response(None, "any/model", message, finish_reason, Usage(input_tokens=30, output_tokens=4))


class Scripted:
    """An engine of either kind that gives each outcome in turn; None: no reply at all."""

    def __init__(self, *outcomes: Response | Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[Request] = []

    def take(self, request: Request) -> Response | None:
        self.requests.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def complete(self, request: Request) -> Response:
        reply = self.take(request)
        if reply is None:
            await asyncio.sleep(60)
        assert reply is not None
        return reply


class ScriptedNow(Scripted):
    def complete(self, request: Request) -> Response:  # type: ignore[override]
        reply = self.take(request)
        assert reply is not None
        return reply


class Turnstile:
    """A rate limiter that lets everything pass, its own permit, and a list of all that it is told."""

    def __init__(self, pause_seconds: float | None = None) -> None:
        self.answered, self.pause_seconds = 0, pause_seconds
        self.told: list[object] = []

    async def acquire(self, tokens: int, get_patience: Callable[[], float] = lambda: math.inf) -> "Turnstile":
        self.told.append(("acquire", tokens))
        self.patience = get_patience()
        if self.pause_seconds is not None:
            raise BackoffTooLongError(self.pause_seconds)
        return self

    def record_success(self) -> None:
        self.told.append("success")

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        self.told.append(("rate limit", retry_after_seconds))

    def record_server_error(self) -> None:
        self.told.append("server error")

    def __enter__(self) -> "Turnstile":
        return self

    def __exit__(self, *_: object) -> None:
        self.told.append("end")


class Question:
    """A sample with a budget, an optional log and cache, and the trace of what was asked for it."""

    def __init__(self, **settings: Any) -> None:
        self.ledger, self.trace = Ledger(), Trace("thread")
        self.context = self.ledger.question(**settings)

    def ask(self, engine: AgentEngine, request: Request = REQUEST) -> Response:
        with use_context(self.context), record_trace(self.trace):
            return asyncio.run(engine.complete(request))

    @property
    def spans(self) -> list[Span]:
        for span in self.trace.spans:
            assert 0 <= span.attributes.pop("waited_seconds", 0) < 30
        return self.trace.spans


def policy(**settings: Any) -> CallPolicy:
    fixed = {"url": "here", "price": Price(1.0, 2.0), "retry_base_seconds": 0.0001, "deadline_seconds": 100.0}
    return CallPolicy(**{**fixed, **settings})


def remember(kept: dict[str, str]) -> Any:
    return SimpleNamespace(get=kept.get, put=kept.__setitem__)


def test_a_reply_is_paid_recorded_and_stored() -> None:
    log: dict[str, str] = {}
    question, inner = Question(call_log=remember(log)), Scripted(replying())
    assert question.ask(AgentEngine(inner, policy())) == replying()
    assert inner.requests == [REQUEST] and len(log) == 1
    assert (question.ledger.reserved, question.ledger.settled) == (1, [PAID])
    (span,) = question.spans
    assert (span.kind, span.name, span.error, span.attributes) == ("lm", "any/model", None, {"attempt": 1, **COUNTED})
    assert span.inputs["system"] == "Be brief." and "model" not in span.inputs
    assert span.outputs == {"role": "assistant", "parts": [{"type": "text", "text": "hi"}]}
    usage = question.context.usage
    assert (usage.lm_calls, usage.tokens, usage.cost_usd) == (1, 34, COST)


@pytest.mark.parametrize(("place", "source", "cost"), [("call_log", "replayed", COST), ("shared_cache", "cached", 0.0)])
def test_a_stored_reply_is_counted_but_not_asked_for(place: str, source: str, cost: float) -> None:
    kept: dict[str, str] = {}
    Question(**{place: remember(kept)}).ask(AgentEngine(Scripted(replying()), policy()))
    again, inner = Question(**{place: remember(kept)}), Scripted()
    assert again.ask(AgentEngine(inner, policy())) == replying()
    assert (inner.requests, again.ledger.reserved) == ([], 0)
    (span,) = again.spans
    assert span.attributes == {"attempt": 1, source: True, **COUNTED, "cost_usd": cost}
    assert span.inputs["system"] == "Be brief."
    assert (again.context.usage.lm_calls, again.context.usage.cost_usd) == (1, cost)


def test_a_stored_reply_counts_towards_the_limit_and_is_validated_again() -> None:
    kept: dict[str, str] = {}
    with pytest.raises(TruncatedReplyError):
        Question(call_log=remember(kept)).ask(AgentEngine(Scripted(replying(finish_reason="length")), policy()))
    with pytest.raises(TruncatedReplyError):
        Question(call_log=remember(kept)).ask(AgentEngine(Scripted(), policy()))
    full = Question(call_log=remember(kept), limits=SampleLimits(lm_calls=0))
    with pytest.raises(LimitReachedError):
        full.ask(AgentEngine(Scripted(), policy()))
    assert full.spans == []


def test_an_empty_reply_is_paid_asked_for_once_more_and_never_stored() -> None:
    log: dict[str, str] = {}
    question = Question(call_log=remember(log))
    with pytest.raises(EmptyReplyError):
        question.ask(AgentEngine(Scripted(replying(" "), replying("")), policy(num_retries=3)))
    assert question.ledger.settled == [PAID, PAID] and log == {}
    assert [span.attributes for span in question.spans] == [
        {"attempt": 1, **COUNTED},
        {"attempt": 2, "retry": True, **COUNTED},
    ]


def test_what_the_model_does_not_take_is_neither_sent_nor_paid() -> None:
    limits = ModelLimits("small", takes_images=False)
    question, inner = Question(), Scripted(replying())
    with pytest.raises(LMUnsupportedFeatureError):
        question.ask(AgentEngine(inner, policy(limits=limits)), WITH_IMAGE)
    assert (inner.requests, question.ledger.settled) == ([], [None])
    assert "[4 characters of base64]" in str(question.spans[0].inputs)


@pytest.mark.parametrize("limiter", [False, True])
@pytest.mark.parametrize(
    ("error", "told", "settled"),
    [
        (RateLimitError("no", retry_after=0.0), ("rate limit", 0.0), Payment(cost_usd=0.0, refused=True)),
        (ServerError("no", status=500), "server error", Payment(cost_usd=0.0, refused=True)),
        (TransportError("no"), "server error", Payment()),
    ],
)
def test_the_rate_limiter_is_told_of_each_attempt(
    limiter: bool, error: LM15Error, told: object, settled: Payment
) -> None:
    turnstile, question = Turnstile(), Question()
    engine = AgentEngine(
        Scripted(error, replying()), policy(num_retries=1, rate_limiter=turnstile if limiter else None)
    )
    assert question.ask(engine) == replying()
    attempts = [("acquire", 0), told, "end", ("acquire", 0), "success", "end"]
    assert turnstile.told == (attempts if limiter else [])
    assert question.ledger.settled == [settled, PAID]
    assert [span.attributes["attempt"] for span in question.spans] == [1, 2]
    assert len(engine.reply_times._seconds) == 1, "a failure says nothing about the time of a reply"


@pytest.mark.parametrize("counts", [False, True])
def test_tokens_are_estimated_only_for_a_limit_of_tokens(counts: bool) -> None:
    turnstile = Turnstile()
    Question().ask(AgentEngine(Scripted(replying()), policy(rate_limiter=turnstile, counts_tokens=counts)))
    call = _Call(REQUEST, SampleContext(SampleKey("")), 1.0, FailedAttempts(0, lambda: 0))
    assert turnstile.told[0] == ("acquire", call.estimate_tokens() if counts else 0)
    assert turnstile.patience == 100.0


def test_a_pause_that_is_too_long_is_a_refusal_that_nothing_was_paid_for() -> None:
    turnstile, question, inner = Turnstile(pause_seconds=500.0), Question(), Scripted()
    with pytest.raises(RateLimitError) as raised:
        question.ask(AgentEngine(inner, policy(rate_limiter=turnstile, num_retries=1)))
    assert raised.value.message.splitlines()[0] == (
        "nothing may be sent for 500 s: the server has asked for a pause that is longer than this call may last"
    )
    assert raised.value.retry_after == 500.0
    assert (inner.requests, question.ledger.settled, turnstile.told) == ([], [None], [("acquire", 0)])
    assert question.context._waiting_calls == 0


def test_an_attempt_that_is_cut_off_is_repeated_and_its_time_is_learnt_from() -> None:
    turnstile, question = Turnstile(), Question()
    engine = AgentEngine(
        Scripted(None, replying()), policy(rate_limiter=turnstile, num_retries=1, attempt_timeout_seconds=0.01)
    )
    assert question.ask(engine) == replying()
    assert turnstile.told == [("acquire", 0), "end", ("acquire", 0), "success", "end"]
    assert question.ledger.settled == [Payment(), PAID]
    assert len(engine.reply_times._seconds) == 2
    assert max(engine.reply_times._seconds) >= 0.005
    assert str(question.spans[0].error).endswith(
        "no complete reply within 0.01 s to attempt 1 of a call that may take 100 s (model.call_deadline_seconds)"
    )


def test_an_attempt_that_may_take_the_whole_call_ends_with_it() -> None:
    call = new_call(seconds=0.01)

    async def attempt() -> None:
        async with call.limit_work(0.01):
            await asyncio.sleep(60)

    with pytest.raises(LMTimeoutError) as raised:
        asyncio.run(attempt())
    assert raised.value.message == "no complete reply within 0.01 s (model.call_deadline_seconds)"
    assert (raised.value.model, call.cut_off) == ("any", 0)


def test_a_call_on_the_loop_itself_is_one_plain_attempt_with_its_own_accounts() -> None:
    log: dict[str, str] = {}
    question, inner, turnstile = Question(call_log=remember(log)), ScriptedNow(replying()), Turnstile()
    engine = SyncAgentEngine(inner, policy(rate_limiter=turnstile, num_retries=3))
    with use_context(question.context), record_trace(question.trace):
        assert engine.complete(REQUEST) == replying()
    assert (inner.requests, question.ledger.settled, log, turnstile.told) == ([REQUEST], [PAID], {}, [])
    (span,) = question.spans
    assert (span.kind, span.name, span.attributes) == ("lm", "any/model", {"attempt": 1, **COUNTED})
    assert span.inputs["system"] == "Be brief." and span.outputs["role"] == "assistant"


@pytest.mark.parametrize(
    ("outcome", "request_", "error", "settled"),
    [
        (replying(" "), REQUEST, EmptyReplyError, PAID),
        (replying(finish_reason="length"), REQUEST, TruncatedReplyError, PAID),
        (ServerError("no", status=500), REQUEST, ServerError, Payment(cost_usd=0.0, refused=True)),
        (TransportError("no"), REQUEST, TransportError, Payment()),
        (replying(), WITH_IMAGE, LMUnsupportedFeatureError, None),
    ],
)
def test_a_plain_attempt_that_fails_is_final_and_settled(
    outcome: Response | Exception, request_: Request, error: type[Exception], settled: Payment | None
) -> None:
    question, limits = Question(), ModelLimits("small", takes_images=False)
    engine = SyncAgentEngine(ScriptedNow(outcome), policy(num_retries=3, limits=limits))
    with pytest.raises(error), use_context(question.context):
        engine.complete(request_)
    assert question.ledger.settled == [settled]


def test_outside_a_run_either_engine_answers() -> None:
    assert asyncio.run(AgentEngine(Scripted(replying()), policy()).complete(REQUEST)) == replying()
    assert SyncAgentEngine(ScriptedNow(replying()), policy()).complete(REQUEST) == replying()


def test_copies_of_an_engine_are_the_engine() -> None:
    for engine in (AgentEngine(Scripted(), policy()), SyncAgentEngine(ScriptedNow(), policy())):
        assert copy.deepcopy(engine) is engine


def test_a_repeated_attempt_has_waited_since_the_end_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr("mas.llm.engine.time", SimpleNamespace(monotonic=lambda: clock.seconds))

    class Slow(Scripted):
        async def complete(self, request: Request) -> Response:
            clock.seconds += 7.0
            return await super().complete(request)

    question = Question()
    question.ask(AgentEngine(Slow(ServerError("no", status=500), replying()), policy(num_retries=1)))
    assert question.trace.spans[1].attributes["waited_seconds"] == 0.0, "the work of the first is no waiting"
