"""Replies from the call log and the shared cache, over real HTTP: what is found again, what is not, what it counts."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from dspy.lm15 import ImagePart, Message, Request, Response, TextPart, Usage

from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.llm.replay import StoredReplies
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import TruncatedReplyError
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Span, Trace, record_trace
from tests.mas.llm.loopback import Handler, Received, answer, complete_with, completion, serving
from tests.mas.llm.test_budget_reservation import Ledger

FIRST = SampleKey("q")
COST = (30 * 1.0 + 4 * 2.0) / 1e6  # of one reply of the server on loopback


class Kept(dict[str, str]):
    """`mas.runtime.sample_context.ReplyLog` in memory."""

    def put(self, key: str, reply: str) -> None:
        self[key] = reply


@dataclass
class Counting:
    """Answers with the number of the request, so that one reply is told from another."""

    asked: int = 0
    delays: list[float] = field(default_factory=list)  # seconds

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        number = self.asked
        if len(self.delays) >= number:
            await asyncio.sleep(self.delays[number - 1])
        await answer(writer, completion(f"reply {number}"))


def ask(base_url: str, context: SampleContext, *texts: str | Request, **settings: Any) -> tuple[list[Any], list[Span]]:
    """The replies to the texts, asked one after the other, and the spans."""
    settings = {"num_retries": 0, "prices": {"any": Price(1.0, 2.0)}, **settings}
    trace = Trace("thread")

    async def all_of_them() -> list[Any]:
        lm = OpenAIChatModel("any", base_url=base_url, **settings).create_lm(AgentModel())
        return [await lm.acall(text) for text in texts]

    with use_context(context), record_trace(trace):
        return run_blocking(all_of_them()), trace.spans


def test_an_interrupted_question_is_not_asked_again_for_what_it_knows() -> None:
    log, budget = Kept(), Ledger()
    with serving(Counting()) as server:
        before, _ = ask(server.base_url, SampleContext(FIRST, call_log=log), "one", "two")
        context = SampleContext(FIRST, call_log=log, budget=budget)
        after, spans = ask(server.base_url, context, "one", "two", "three")
        assert len(server.requests) == 3
    assert after == [*before, ["reply 3"]]
    assert [span.attributes.get("replayed", False) for span in spans] == [True, True, False]
    assert [span.attributes["cost_usd"] for span in spans] == pytest.approx([COST] * 3), "this run has paid for them"
    assert (context.usage.lm_calls, context.usage.tokens, context.usage.cost_usd) == (
        3,
        3 * 34,
        pytest.approx(3 * COST),
    )
    assert [payment.cost_usd for payment in budget.settled if payment] == [pytest.approx(COST)], (
        "what is replayed is not paid for again"
    )
    assert spans[0].outputs == {"role": "assistant", "parts": [{"type": "text", "text": "reply 1"}]}
    assert spans[0].attributes["finish_reason"] == "stop"


def test_the_same_request_twice_is_two_questions_and_each_keeps_its_own_reply() -> None:
    log = Kept()
    with serving(Counting()) as server:
        for _ in range(2):
            replies, _ = ask(server.base_url, SampleContext(FIRST, call_log=log), "again", "again")
            assert replies == [["reply 1"], ["reply 2"]]
        assert len(server.requests) == 2


def test_the_same_request_twice_at_once_is_two_questions_as_well() -> None:
    log = Kept()

    async def at_once(lm: Any) -> list[Any]:
        return await asyncio.gather(lm.acall("again"), lm.acall("again"))

    with serving(Counting(delays=[0.1])) as server:
        lm = OpenAIChatModel("any", base_url=server.base_url, num_retries=0).create_lm(AgentModel())
        with use_context(SampleContext(FIRST, call_log=log)):
            first = run_blocking(at_once(lm))
        with use_context(SampleContext(FIRST, call_log=log)):
            assert run_blocking(at_once(lm)) == first
        assert sorted(map(tuple, first)) == [("reply 1",), ("reply 2",)]
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("sample", "place", "found"),
    [
        (SampleKey("q", 2, 1), "call_log", False),
        (SampleKey("q", 1, 2), "call_log", False),
        (SampleKey("q", 2, 1), "shared_cache", False),
        (SampleKey("q", 1, 2), "shared_cache", True),
        (SampleKey("other"), "shared_cache", True),
    ],
)
def test_another_epoch_is_a_fresh_draw_and_another_attempt_is_one_unless_the_cache_is_shared(
    sample: SampleKey, place: str, found: bool
) -> None:
    kept = {place: Kept()}
    with serving(Counting()) as server:
        ask(server.base_url, SampleContext(FIRST, **kept), "hi")
        ask(server.base_url, SampleContext(sample, **kept), "hi")
        assert len(server.requests) == (1 if found else 2)


def test_a_cached_reply_is_counted_as_such_and_costs_nothing() -> None:
    cache = Kept()
    with serving(Counting()) as server:
        ask(server.base_url, SampleContext(FIRST, shared_cache=cache), "hi")
        context = SampleContext(FIRST, call_log=Kept(), shared_cache=cache)
        replies, (span,) = ask(server.base_url, context, "hi")
        assert (replies, len(server.requests)) == ([["reply 1"]], 1)
    assert (span.attributes["cached"], span.attributes["cost_usd"], context.usage.cost_usd) == (True, 0.0, 0.0)
    assert (context.usage.lm_calls, context.usage.tokens) == (1, 34)


def test_the_endpoint_the_model_and_its_settings_are_part_of_the_question() -> None:
    log = Kept()
    with serving(Counting()) as server, serving(Counting()) as elsewhere:
        for base_url, settings in (
            (server.base_url, {}),
            (elsewhere.base_url, {}),
            (server.base_url, {"temperature": 0.7}),
            (server.base_url, {"max_tokens": 5}),
        ):
            ask(base_url, SampleContext(FIRST, call_log=log), "hi", **settings)
        assert (len(server.requests), len(elsewhere.requests)) == (3, 1)


def test_the_picture_itself_is_part_of_the_question() -> None:
    def showing(data: str) -> Request:
        parts = (TextPart("what is it?"), ImagePart(media_type="image/png", data=data))
        return Request(model="openai/any", messages=(Message(role="user", parts=parts),))

    log = Kept()
    with serving(Counting()) as server:
        for data in ("iVBORw0K", "iVBORw0L", "iVBORw0K"):
            (reply,), _ = ask(server.base_url, SampleContext(FIRST, call_log=log), showing(data), takes_images=True)
            assert isinstance(reply, Response)
        assert len(server.requests) == 2


def test_a_truncated_reply_is_truncated_again_and_is_no_second_request() -> None:
    log = Kept()
    with serving(complete_with("The answer is 4", "length")) as server:
        for _ in range(2):
            with pytest.raises(TruncatedReplyError):
                ask(server.base_url, SampleContext(FIRST, call_log=log), "hi")
        assert len(server.requests) == 1


async def unavailable(request: Received, writer: asyncio.StreamWriter) -> None:
    await answer(writer, {"error": {"message": "busy"}}, "503 Service Unavailable")


@pytest.mark.parametrize("fault", [unavailable, complete_with("")])
def test_a_failure_is_not_kept(fault: Handler) -> None:
    log = Kept()
    with serving(fault) as server, pytest.raises(Exception, match=r"busy|empty"):
        ask(server.base_url, SampleContext(FIRST, call_log=log), "hi")
    assert not log


def test_replayed_calls_count_towards_the_limits() -> None:
    log = Kept()
    with serving(Counting()) as server:
        ask(server.base_url, SampleContext(FIRST, call_log=log), "one", "two")
        with pytest.raises(LimitReachedError):
            ask(server.base_url, SampleContext(FIRST, SampleLimits(lm_calls=1), call_log=log), "one", "two")
        with pytest.raises(LimitReachedError):
            ask(server.base_url, SampleContext(FIRST, SampleLimits(cost_usd=COST), call_log=log), "one", "two")


def test_replies_keep_odd_characters() -> None:
    log = Kept()
    with serving(complete_with("a\ud83db \U0001f600\x00")) as server:
        first, _ = ask(server.base_url, SampleContext(FIRST, call_log=log), "hi")
        assert ask(server.base_url, SampleContext(FIRST, call_log=log), "hi")[0] == first == [["a?b \U0001f600\x00"]]
    next(iter(log.values())).encode("ascii")


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def test_a_replys_key_is_the_same_in_every_version_so_that_old_runs_can_go_on() -> None:
    log, cache = Kept(), Kept()
    context = SampleContext(SampleKey("q", epoch=2, attempt=3), call_log=log, shared_cache=cache)
    reply = Response(None, "any", Message("assistant", (TextPart("hi"),)), "stop", Usage())
    for request in ({"b": 1, "a": [2]}, {"a": [2], "b": 1}):
        stored = StoredReplies(context, "http://a", request)
        assert stored.find() is None
        stored.store(reply)
    asked = digest("http://a", {"a": [2], "b": 1})
    assert set(log) == {digest(asked, 2, 3, occurrence) for occurrence in (1, 2)}
    assert set(cache) == {digest(asked, 2, occurrence) for occurrence in (1, 2)}
    assert context.request_counts == {asked: 2}


def test_without_a_place_nothing_is_computed_or_kept() -> None:
    context = SampleContext(FIRST)
    stored = StoredReplies(context, "http://a", {"a": 1})
    stored.store(Response(None, "any", Message("assistant", (TextPart("hi"),)), "stop", Usage()))
    assert stored.find() is None and context.request_counts == {}
