"""Prompts that a server cut in silence, and inputs that a model cannot take."""

from typing import Any

import pytest

from eval.execution.failure import describe_failure
from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import TruncatedPromptError
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import Handler, Received, answer, completion, serving
from tests.servers.loopback import Answer

WORDS = "the quick brown fox jumps over a lazy dog; " * 100  # 4,300 characters, about 1,000 tokens


def counting(prompt_tokens: int | None) -> Handler:
    """A server that counted so many tokens; None: none at all."""

    def handle(request: Received) -> Answer:
        content = completion("[[ ## answer ## ]]\nhello")
        content["usage"] = {} if prompt_tokens is None else {"prompt_tokens": prompt_tokens, "completion_tokens": 4}
        return answer(content)

    return handle


def ask(text: str, prompt_tokens: int | None, **profile: Any) -> Any:
    with serving(counting(prompt_tokens)) as server:
        settings = {"base_url": server.base_url, "num_retries": 0, "detect_truncation": True, **profile}
        return run_blocking(OpenAIChatModel("qwen3", **settings).create_lm(AgentModel()).acall(text))


@pytest.mark.parametrize(
    ("prompt_tokens", "profile", "words"),
    [(400, {}, "400 tokens for"), (1000, {"context_tokens": 1000}, "all that its context of 1000 holds")],
    ids=["too few", "a full context"],
)
def test_a_reply_to_a_part_of_the_prompt_is_no_answer(prompt_tokens: int, profile: Any, words: str) -> None:
    trace = Trace("thread")
    with record_trace(trace), pytest.raises(TruncatedPromptError, match=words) as raised:
        ask(WORDS, prompt_tokens, **profile)
    assert "qwen3 read only a part" in str(raised.value) and "model.detect_truncation=false" in str(raised.value)
    (span,) = trace.spans
    assert span.attributes["input_tokens"] == prompt_tokens, "what was paid for is on record"
    assert describe_failure(raised.value, trace).kind == "context_overflow"


def test_the_cost_of_a_reply_without_a_count_is_unknown_and_not_nothing() -> None:
    trace = Trace("thread")
    with record_trace(trace):
        ask(WORDS, None, prices={"qwen3": Price(1.0, 2.0)})
    assert trace.spans[0].attributes["cost_usd"] is None
