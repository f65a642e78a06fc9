"""The model that rewrites prompts: whose settings it has, and that its requests are those of the question at work."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, use_context
from tests.mas.llm.loopback import Received, answer, completion, serving
from tests.mas.llm.test_budget_reservation import REFUSED, Kept, Ledger
from tests.servers.loopback import Answer

REFLECTION = SampleKey("reflection", epoch=0)


@pytest.mark.parametrize(
    ("profile", "name", "expected"),
    [
        (OpenAIChatModel("base"), None, ("openai/base", 1.0)),
        (OpenAIChatModel("base", temperature=0.2), "strong", ("openai/strong", 1.0)),
        (OpenAIChatModel("base"), "o3", ("openai/o3", 1.0)),
        (OpenAIChatModel("base", temperature=None), "strong", ("openai/strong", None)),
    ],
)
def test_it_is_asked_for_variety_unless_the_server_takes_no_temperature(
    profile: OpenAIChatModel, name: str | None, expected: tuple[str, float | None]
) -> None:
    lm = profile.create_reflection_lm(name)
    assert (lm.model, lm.kwargs["temperature"]) == expected


class Counting:
    """Answers with the number of the request; the first of them with a failure that passes."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: Received) -> Answer:
        self.asked += 1
        return answer(completion(f"proposal {self.asked}")) if self.asked > 1 else answer({"error": "busy"}, 503)


def in_a_thread_of_its_own(lm: Any, context: SampleContext, texts: list[str]) -> list[Any]:
    """What an optimizer does that knows nothing of questions: it calls the LM."""
    replies: list[Any] = []

    def search() -> None:
        with use_context(context):
            replies.extend(lm(text)[0] for text in texts)

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    return replies


def test_requests_from_an_optimizers_thread_are_reserved_retried_logged_and_replayed_in_their_order() -> None:
    log, budget = Kept(), Ledger()
    settled = budget.settled
    context = SampleContext(REFLECTION, budget=budget, call_log=log)
    texts = ["improve this", "improve that", "improve this"]
    with serving(Counting()) as server:
        lm = OpenAIChatModel("any", base_url=server.base_url, retry_base_seconds=0.001).create_reflection_lm("strong")
        first = in_a_thread_of_its_own(lm, replace(context), texts)
        assert first == ["proposal 2", "proposal 3", "proposal 4"], "the same asked again is another question"
        assert {request.body["model"] for request in server.requests} == {"strong"}
        assert (len(server.requests), len(settled), settled[0]) == (4, 4, REFUSED)
        resumed = SampleContext(REFLECTION, budget=budget, call_log=log)
        assert in_a_thread_of_its_own(lm, resumed, [*texts, "improve this"]) == [*first, "proposal 5"]
        assert (len(server.requests), len(settled)) == (5, 5), "only what is new is asked and paid"


def test_a_budget_that_is_used_up_reaches_the_optimizer_as_itself() -> None:
    budget = Ledger(requests=0)
    lm = OpenAIChatModel("any", base_url="http://127.0.0.1:9/v1").create_reflection_lm()
    with (
        use_context(SampleContext(REFLECTION, budget=budget)),
        pytest.raises(LimitReachedError, match="its 0 requests"),
    ):
        lm("improve this")
