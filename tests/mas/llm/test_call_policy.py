"""Prompts that a server cut in silence, and inputs that a model cannot take."""

import asyncio
import json
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, TextPart
from dspy.utils.exceptions import ContextWindowExceededError, LMUnsupportedFeatureError

from eval.execution.failure import describe_failure
from mas.llm.call_policy import CallPolicy, ModelLimits, OptionNames
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import TruncatedPromptError
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import Handler, Received, Server, answer, completion, serving

WORDS = "the quick brown fox jumps over a lazy dog; " * 100  # 4,300 characters, about 1,000 tokens
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="


def counting(prompt_tokens: int | None) -> Handler:
    """A server that counted so many tokens; None: none at all."""

    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        content = completion("[[ ## answer ## ]]\nhello")
        content["usage"] = {} if prompt_tokens is None else {"prompt_tokens": prompt_tokens, "completion_tokens": 4}
        await answer(writer, content)

    return handle


def ask(text: str, prompt_tokens: int | None, **profile: Any) -> Any:
    with serving(counting(prompt_tokens)) as server:
        settings = {"base_url": server.base_url, "num_retries": 0, "detect_truncation": True, **profile}
        return run_blocking(OpenAIChatModel("qwen3", **settings).create_lm(AgentModel()).acall(text))


@pytest.mark.parametrize(
    ("text", "prompt_tokens", "profile"),
    [
        (WORDS, 1000, {}),
        (WORDS, 600, {}),
        (WORDS, None, {}),
        (WORDS, 100, {"detect_truncation": False}),
        (WORDS[:1900], 20, {}),
        (WORDS + " " * 50_000, 1000, {}),
        ("-" * 50_000, 800, {}),
        (WORDS, 1000, {"context_tokens": 1001}),
    ],
    ids=["whole", "long words", "no count", "switched off", "too short to tell", "blanks", "a line", "just fits"],
)
def test_a_plausible_count_is_taken_for_a_whole_prompt(
    text: str, prompt_tokens: int | None, profile: dict[str, Any]
) -> None:
    assert ask(text, prompt_tokens, **profile)


@pytest.mark.parametrize(
    ("prompt_tokens", "profile", "words"),
    [
        (400, {}, "400 tokens for"),
        (1000, {"context_tokens": 1000}, "all that its context of 1000 holds"),
    ],
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


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "the request exceeds the available context size. try increasing the context size",
    ],
)
def test_an_overflow_has_its_name_however_the_server_words_it(message: str) -> None:
    async def refuse(request: Received, writer: asyncio.StreamWriter) -> None:
        await answer(writer, {"error": {"message": message, "type": "BadRequestError", "code": 400}}, "400 Bad Request")

    with serving(refuse) as server:
        lm = OpenAIChatModel("any", base_url=server.base_url, num_retries=0).create_lm(AgentModel())
        for call in (lambda: run_blocking(lm.acall("hi")), lambda: type(lm).__mro__[1].__call__(lm, "hi")):
            with pytest.raises(ContextWindowExceededError, match="context"):
                call()


class Look(dspy.Signature):
    """Look and listen."""

    picture: dspy.Image | None = dspy.InputField()
    sound: dspy.Audio | None = dspy.InputField()
    answer: str = dspy.OutputField()


def look(server: Server, synchronous: bool = False, **profile: Any) -> Any:
    lm = OpenAIChatModel("any", base_url=server.base_url, num_retries=0, **profile).create_lm(AgentModel())
    inputs = {
        "picture": dspy.Image(f"data:image/png;base64,{PIXEL}"),
        "sound": dspy.Audio(data=SOUND, audio_format="wav"),
    }
    with dspy.context(lm=lm):
        predict = dspy.Predict(Look)
        return predict(**inputs) if synchronous else run_blocking(predict.acall(**inputs))


@pytest.mark.parametrize("synchronous", [True, False])
def test_images_and_sounds_go_over_the_wire_as_such(synchronous: bool) -> None:
    trace = Trace("thread")
    with serving(counting(50)) as server, record_trace(trace):
        assert look(server, synchronous, takes_images=True, takes_audio=True).answer == "hello"
    (request,) = server.requests
    blocks = request.body["messages"][-1]["content"]
    assert {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}} in blocks
    assert {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}} in blocks
    assert [block["type"] for block in blocks].count("text") == len(blocks) - 2
    assert "[sound" not in json.dumps(request.body)
    assert PIXEL not in json.dumps(trace.spans[0].inputs), "a record does not hold the picture again for each request"
    assert SOUND not in json.dumps(trace.spans[0].inputs)


@pytest.mark.parametrize(
    ("profile", "key"),
    [({"takes_audio": True}, "model.takes_images=false"), ({"takes_images": True}, "model.takes_audio=false")],
)
def test_what_the_profile_says_the_model_cannot_take_is_never_sent(profile: dict[str, Any], key: str) -> None:
    with serving(counting(50)) as server:
        with pytest.raises(LMUnsupportedFeatureError, match=key) as raised:
            look(server, **profile)
        assert server.requests == []
    assert "any was not asked" in str(raised.value)


def test_without_a_profile_a_model_takes_everything_and_nothing_is_checked() -> None:
    assert ModelLimits() == ModelLimits("", True, True, None, False)
    assert OptionNames() == OptionNames("model.name", "model.base_url", "model.api_key_env", None)
    assert CallPolicy() == CallPolicy("", ModelLimits(), OptionNames(), None, None, False, 0, 1.0, None, float("inf"))


def is_cut(text: str, prompt_tokens: int | None, context_tokens: int | None = None) -> bool:
    request = Request("m", (Message("user", (TextPart(text),)),))
    limits = ModelLimits("m", context_tokens=context_tokens, detect_truncation=True)
    try:
        limits.check_not_truncated(request, prompt_tokens)
    except TruncatedPromptError:
        return True
    return False


@pytest.mark.parametrize(
    ("letters", "dashes", "prompt_tokens", "cut"),
    [
        (4_000, 0, 500, False),
        (4_001, 0, 500, True),
        (3_999, 1_000, 500, False),  # the dashes count as one character
        (4_000, 1_000, 500, True),
        (2_000, 0, 1, False),  # too short to be judged
        (2_001, 0, 1, True),
        (1_999, 1_000, 1, False),
        (2_000, 1_000, 1, True),
        (3_000, 0, 0, False),
        (3_000, 0, None, False),
    ],
)
def test_a_prompt_has_at_least_one_token_for_eight_characters(
    letters: int, dashes: int, prompt_tokens: int | None, cut: bool
) -> None:
    text = ("ab" * letters)[:letters] + "-" * dashes
    assert is_cut(text, prompt_tokens) is cut


@pytest.mark.parametrize(("prompt_tokens", "cut"), [(99, False), (100, True), (101, True)])
def test_a_prompt_that_fills_the_whole_context_was_cut(prompt_tokens: int, cut: bool) -> None:
    assert is_cut("hello", prompt_tokens, context_tokens=100) is cut
    assert not is_cut("hello", prompt_tokens)
