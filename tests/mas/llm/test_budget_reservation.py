"""Requests reserved before they are sent and settled exactly once, whatever becomes of them; over real HTTP."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import dspy
import pytest
from dspy.lm15 import ImagePart, Message, Request, TextPart
from dspy.utils.exceptions import LMError

from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel, RateSettings
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey, use_context
from tests.mas.llm.loopback import Handler, body, complete_with, drip, failing, reset, serving

ANSWERED = Payment(30, 0, 4, (30 * 1.0 + 4 * 2.0) / 1e6)  # of one reply of the server on loopback
REFUSED, CUT_OFF, NEVER_SENT = Payment(cost_usd=0.0, refused=True), Payment(), None


class Ledger:
    """A budget of so many requests, and all that it is told."""

    def __init__(self, requests: int = 1_000) -> None:
        self.left = requests
        self.reserved = 0
        self.settled: list[Payment | None] = []

    def reserve(self) -> None:
        if self.reserved >= self.left:
            raise LimitReachedError("budget.lm_calls", f"the run has used its {self.left} requests")
        self.reserved += 1

    def settle(self, payment: Payment | None) -> None:
        self.settled.append(payment)

    def question(self, **settings: Any) -> SampleContext:
        return SampleContext(SampleKey("q"), budget=self, **settings)


def lm_at(base_url: str, **settings: Any) -> Any:
    fixed = {"num_retries": 2, "retry_base_seconds": 0.001, "prices": {"any": Price(1.0, 2.0)}}
    return OpenAIChatModel("any", base_url=base_url, **{**fixed, **settings}).create_lm(AgentModel())


OUTCOMES: dict[str, tuple[Handler, list[Payment | None]]] = {
    "a whole reply": (complete_with("hello"), [ANSWERED]),
    "a truncated reply": (complete_with("hel", "length"), [ANSWERED]),
    "a withheld reply": (complete_with("", "content_filter"), [ANSWERED]),
    "a reply that declines": (complete_with("", refusal="I will not"), [ANSWERED]),
    "empty replies": (complete_with(""), [ANSWERED] * 2),
    "server errors": (failing(500), [REFUSED] * 3),
    "a wrong key": (failing(401), [REFUSED]),
    "a quota used up": (failing(429, "insufficient_quota"), [REFUSED]),
    "a bad request": (failing(400), [REFUSED]),
    "resets": (reset, [CUT_OFF] * 3),
    "no JSON": (body("{no js"), [CUT_OFF] * 3),
    "a drip until the deadline": (drip, [CUT_OFF] * 3),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_reservation_is_settled_once(outcome: str) -> None:
    handler, settled = OUTCOMES[outcome]
    ledger, seconds = Ledger(), {"call_deadline_seconds": 0.6, "attempt_timeout_seconds": 0.1}
    with serving(handler) as server, use_context(ledger.question()), suppress(LMError):
        run_blocking(lm_at(server.base_url, **(seconds if handler is drip else {})).acall("hi"))
    assert (ledger.reserved, ledger.settled) == (len(settled), settled)
    assert len(server.requests) == len(settled)


def test_a_request_that_nobody_takes_or_that_may_not_be_made_was_never_sent() -> None:
    ledger = Ledger()
    picture = ImagePart(media_type="image/png", data="iVBORw0K")
    request = Request(model="openai/any", messages=(Message(role="user", parts=(TextPart("what?"), picture)),))
    with serving(complete_with("hello")) as server:
        closed = server.base_url
    for ask in (lambda lm: lm.acall("hi"), lambda lm: lm.acall(request)):
        with use_context(ledger.question()), pytest.raises(LMError):
            run_blocking(ask(lm_at(closed, num_retries=1)))
    assert ledger.settled == [NEVER_SENT] * ledger.reserved
    assert ledger.reserved == 3, "one is tried twice, the other once"


def cancelled_after(seconds: float, work: Callable[[], Any]) -> None:
    async def given_up() -> None:
        async with asyncio.timeout(seconds):
            await work()

    with pytest.raises(TimeoutError):
        run_blocking(given_up())


def test_a_call_that_is_cancelled_is_settled_as_cut_off_or_as_never_sent() -> None:
    ledger = Ledger()
    with serving(drip) as server, use_context(ledger.question()):
        lm = lm_at(server.base_url)
        cancelled_after(0.2, lambda: lm.acall("hi"))
    assert ledger.settled == [CUT_OFF]

    ledger = Ledger()
    with serving(complete_with("hello")) as server, use_context(ledger.question()):
        lm = lm_at(server.base_url, rate=RateSettings(requests_per_minute=1))
        run_blocking(lm.acall("hi"))
        cancelled_after(0.1, lambda: lm.acall("hi"))  # at the rate limiter
    assert ledger.settled == [ANSWERED, NEVER_SENT]


class Kept(dict[str, str]):
    """`mas.runtime.sample_context.ReplyLog` in memory."""

    def put(self, key: str, reply: str) -> None:
        self[key] = reply


@pytest.mark.parametrize("ask", ["awaited", "in a thread"])
def test_a_refusal_of_the_run_leaves_dspy_as_itself_and_nothing_is_sent(ask: str) -> None:
    ledger = Ledger(requests=0)
    context = ledger.question()
    with serving(complete_with("[[ ## answer ## ]]\n42")) as server:
        lm = lm_at(server.base_url)
        predict = dspy.Predict("question -> answer")

        asking = {
            "awaited": lambda: run_blocking(predict.acall(question="?")),
            "in a thread": lambda: predict(question="?"),
        }[ask]
        with use_context(context), dspy.context(lm=lm), pytest.raises(LimitReachedError, match="its 0 req") as raised:
            asking()
    assert (raised.value.limit, context.limit_reached) == ("budget.lm_calls", "budget.lm_calls")
    assert (server.requests, ledger.settled) == ([], [])


def test_a_reply_is_paid_for_before_it_is_kept() -> None:
    """A process that is killed in between has paid for nothing that is not counted."""
    order: list[str] = []

    class Watched(Kept):
        def put(self, key: str, reply: str) -> None:
            order.append("kept")

    class Ordered(Ledger):
        def settle(self, payment: Payment | None) -> None:
            order.append("settled")

    context = SampleContext(SampleKey("q"), budget=Ordered(), call_log=Watched())
    with serving(complete_with("hello")) as server, use_context(context):
        run_blocking(lm_at(server.base_url).acall("hi"))
    assert order == ["settled", "kept"]
