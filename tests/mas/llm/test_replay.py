"""Replies from the call log, over real HTTP: what is found again, what is not, what it counts."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from dspy.lm15 import Request

from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.runtime.trace import Span, Trace, record_trace
from tests.mas.llm.loopback import Received, answer, completion, serving
from tests.mas.llm.test_budget_reservation import Kept, Ledger
from tests.servers.loopback import Answer

FIRST = SampleKey("q")
COST = (30 * 1.0 + 4 * 2.0) / 1e6  # of one reply of the server on loopback


@dataclass
class Counting:
    """Answers with the number of the request, so that one reply is told from another."""

    asked: int = 0
    delays: list[float] = field(default_factory=list)  # seconds

    def __call__(self, request: Received) -> Answer:
        self.asked += 1
        number = self.asked
        if len(self.delays) >= number:
            time.sleep(self.delays[number - 1])
        return answer(completion(f"reply {number}"))


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


@pytest.mark.parametrize("sample", [SampleKey("q", 2, 1), SampleKey("q", 1, 2)])
def test_another_epoch_and_another_attempt_are_fresh_draws(sample: SampleKey) -> None:
    log = Kept()
    with serving(Counting()) as server:
        ask(server.base_url, SampleContext(FIRST, call_log=log), "hi")
        ask(server.base_url, SampleContext(sample, call_log=log), "hi")
        assert len(server.requests) == 2


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
