"""The brief of the model that rewrites prompts."""

from pathlib import Path
from typing import Any

import pytest
from dspy.utils.exceptions import LMAuthError

from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.lm_errors import EmptyReplyError
from optimize.search.optimizers.prompt_rewriter import (
    BRIEF,
    MAX_FAILURES_IN_A_ROW,
    PromptRewriter,
    ReflectionRequests,
    build_brief,
)


def test_the_brief_lists_the_labels_as_data_and_changes_nothing_else() -> None:
    assert build_brief(()) == BRIEF
    brief = build_brief(("billing", 'say "{labels}" and', "été"))
    assert brief.startswith(BRIEF)
    assert 'one of these labels: "billing", "say \\"{labels}\\" and", "été". They are no secret' in brief


class Replies:
    """Replies and failures in turn; the last one again and again."""

    def __init__(self, *turns: Any) -> None:
        self.turns, self.n = list(turns), 0

    def __call__(self) -> Any:
        self.n += 1
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception):
            raise turn
        return turn


def counts(requests: ReflectionRequests) -> tuple[int, int, str | None, str | None]:
    return requests.requests, requests.unparsable, requests.failure, requests.service_failure


USELESS, BROKEN = ValueError("no prompt in it"), OSError("connection lost")


@pytest.mark.parametrize(
    ("turns", "result", "expected"),
    [
        (["text"], "text", (1, 0, None, None)),
        ([USELESS, "text"], "text", (2, 1, None, None)),
        ([BROKEN, "text"], "text", (2, 0, None, None)),
        ([USELESS, BROKEN, "text"], None, (2, 1, None, None)),
        ([EmptyReplyError("empty")], None, (2, 2, None, None)),
    ],
)
def test_a_request_is_tried_twice_and_each_try_is_counted(turns: list[Any], result: Any, expected: Any) -> None:
    requests = ReflectionRequests(lambda: None)
    assert requests.attempt(Replies(*turns)) == result and counts(requests) == expected


@pytest.mark.parametrize("error", [USELESS, BROKEN])
def test_ten_failures_in_a_row_end_the_requests(error: Exception) -> None:
    requests, replies = ReflectionRequests(lambda: None), Replies(error)
    for _ in range(MAX_FAILURES_IN_A_ROW // 2):
        assert requests.failure is None
        requests.attempt(replies)
    why = f"the reflection model gave no usable reply ({type(error).__name__}: {error})"
    unparsable, service = (10, None) if error is USELESS else (0, why)
    assert counts(requests) == (10, unparsable, why, service)
    assert requests.attempt(replies) is None and replies.n == 10


def test_a_usable_reply_ends_the_row() -> None:
    requests = ReflectionRequests(lambda: None)
    for _ in range(4):
        requests.attempt(Replies(USELESS))
    assert requests.attempt(Replies("text")) == "text"
    for _ in range(4):
        requests.attempt(Replies(USELESS))
    assert counts(requests) == (17, 16, None, None)


def test_a_key_that_is_refused_ends_the_requests_at_once() -> None:
    requests, replies = ReflectionRequests(lambda: None), Replies(LMAuthError("no such key"))
    assert requests.attempt(replies) is None and replies.n == 1
    assert requests.failure == requests.service_failure and "LMAuthError" in str(requests.failure)


def test_after_a_stop_nothing_is_requested_and_what_the_stop_refused_is_no_failure() -> None:
    stops: list[str] = []
    requests = ReflectionRequests(lambda: stops[0] if stops else None)

    def refused() -> str:
        stops.append("the budget is used up")
        raise ValueError("refused")

    assert requests.attempt(refused) is None and counts(requests) == (0, 0, None, None)
    replies = Replies("text")
    assert requests.attempt(replies) is None and replies.n == 0


def test_an_agent_without_a_usable_reply_or_without_examples_keeps_its_text() -> None:
    class Rewriter(PromptRewriter):
        def rewrite_once(self, candidate: dict[str, str], feedback: Any, agent: str) -> str:
            if agent == "plan":
                raise USELESS
            return f"{candidate[agent]} Better.\r\n"

    stops: list[str] = []
    prompts = PromptSet("p", "toy", {"plan": "Plan.", "solve": "Solve."}, Path("p"))
    rewriter = Rewriter(prompts, lambda: stops[0] if stops else None, 100)
    texts, feedback = dict(prompts.texts), {"plan": [{}], "solve": [{}]}
    expected = PromptSet("p", "toy", {"solve": "Solve. Better.\r\n"}, Path("p")).texts["solve"]
    assert rewriter(texts, feedback, ["plan", "solve", "finalize"]) == {"solve": expected}
    assert (rewriter.requests, rewriter.unparsable, rewriter.max_chars) == (3, 2, 100)
    stops.append("stopped")
    assert rewriter(texts, feedback, ["solve"]) == {}
