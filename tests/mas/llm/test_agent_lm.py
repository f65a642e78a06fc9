"""The LM that agents hold, over engines of our own: flag, deadline, copies, saved state."""

import asyncio
import copy
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMError, LMTimeoutError

from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.lm_errors import RefusedReplyError, TruncatedReplyError
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, use_context
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import Received, Server, body, complete_with, failing, in_turn, serving
from tests.patience import PATIENCE_SECONDS
from tests.scripted_model import INPUT_TOKENS, OUTPUT_TOKENS, Reply, ScriptedModel, answering, said
from tests.servers.loopback import HANG, Answer

REQUEST = "answer_request -> final_answer, final_reasoning_trace"


NO_SUCH = "The model `any` does not exist"
FIELDS = "model.native_tools, model.takes_images; further fields are sent with model.extra_body"


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (401, "Incorrect API key", "Incorrect API key; check the key in SOME_KEY (model.api_key_env)"),
        (403, "not allowed", "not allowed; check the key in SOME_KEY (model.api_key_env)"),
        (404, NO_SUCH, f"{NO_SUCH}; check model.name=any and model.base_url"),
        (404, "page not found", "page not found; check model.name=any and model.base_url"),
        (400, "temperature must be 1", FIELDS),
        (422, "x" * 5_000, FIELDS),
    ],
)
def test_a_refusal_names_the_variable_or_the_option_that_may_be_wrong(
    status: int, message: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "key-of-ours")
    with serving(failing(status, message=message)) as server:
        profile = OpenAIChatModel("any", base_url=server.base_url, api_key_env="SOME_KEY")
        with pytest.raises(LMError) as raised:
            run_blocking(profile.create_lm(AgentModel()).acall("hi"))
    assert str(raised.value).startswith("[openai/any] ")
    assert str(raised.value).endswith(expected)
    assert len(str(raised.value)) < 700 and "\n" not in str(raised.value)


def test_a_page_instead_of_a_reply_names_the_address() -> None:
    with serving(body("<html>sign in</html>", "text/html")) as server, pytest.raises(LMError) as raised:
        profile = OpenAIChatModel("any", base_url=server.base_url, retry_base_seconds=0.001)
        run_blocking(profile.create_lm(AgentModel()).acall("hi"))
    assert str(raised.value).endswith("; check model.base_url, to which /chat/completions is added")


def lm_of(model: ScriptedModel, agent: AgentModel | None = None) -> Any:
    return model.create_lm(agent or AgentModel())


def finalize(lm: Any) -> Any:
    return asyncio.run(_finalize(lm))


async def _finalize(lm: Any) -> Any:
    with dspy.context(lm=lm):
        return await dspy.Predict(REQUEST).acall(answer_request="How many?")


@pytest.mark.parametrize("native_tools", [True, False])
def test_the_flag_decides_about_function_calling_and_survives_copies(native_tools: bool) -> None:
    lm = lm_of(ScriptedModel(answering(), native_tools=native_tools))
    for each in (lm, copy.copy(lm), copy.deepcopy(lm), lm.copy(temperature=0.7)):
        assert each.supports_function_calling is native_tools


def test_the_deadline_ends_a_call_that_takes_too_long() -> None:
    model = ScriptedModel(answering(), deadline_seconds=0.05, reply_seconds=60.0)
    with pytest.raises(LMTimeoutError, match=r"no complete reply within 0\.05 s"):
        finalize(lm_of(model))
    assert model.requests == []


def test_a_synchronous_call_on_the_loop_which_would_block_it_is_refused() -> None:
    lm = lm_of(ScriptedModel(answering()))

    async def on_the_loop() -> Any:
        return lm("hi")

    with pytest.raises(RuntimeError, match="await"):
        run_blocking(on_the_loop())


def test_a_call_on_another_loop_shares_connections_and_limits_with_the_others() -> None:
    def ask_on_a_loop_of_its_own(number: int) -> Any:
        return asyncio.run(lm.acall(f"hi {number}"))

    context = SampleContext(SampleKey("q"))
    with serving(complete_with("hello")) as server, ThreadPoolExecutor(8) as threads, use_context(context):
        lm = OpenAIChatModel("any", base_url=server.base_url, max_connections=2).create_lm(AgentModel())
        assert list(threads.map(ask_on_a_loop_of_its_own, range(8))) == [["hello"]] * 8
        assert context.usage.lm_calls == len(server.requests) == 8


def test_a_call_starts_no_thread_next_to_the_loop() -> None:
    code = """
import threading
from mas.llm.profiles.model import AgentModel
from mas.runtime.event_loop import run_blocking
from mas.simulation import SimulatedModel

run_blocking(SimulatedModel().create_lm(AgentModel()).acall("hi"))
print(sorted(thread.name for thread in threading.enumerate()))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['MainThread', 'mas-loop']"


def test_a_program_that_asks_for_the_cache_of_dspy_gets_replies_of_its_own() -> None:
    with serving(complete_with("hello")) as server:
        lm = OpenAIChatModel("m", server.base_url).create_lm(AgentModel())
        assert [lm("hi", cache=True) for _ in range(2)] == [["hello"]] * 2
    assert len(server.requests) == 2


def test_a_call_from_a_thread_of_the_pool_is_retried_and_logged() -> None:
    log: dict[str, str] = {}
    replies = SimpleNamespace(get=log.get, put=log.__setitem__)

    def ask(server: Server) -> Any:
        model = OpenAIChatModel("any", base_url=server.base_url, retry_base_seconds=0.001)
        lm = model.create_lm(AgentModel())
        with use_context(SampleContext(SampleKey("q"), call_log=replies)):
            return run_blocking(asyncio.to_thread(lm, "hi"))

    with serving(in_turn(failing(503), complete_with("hello"))) as server:
        assert (ask(server), len(server.requests)) == (["hello"], 2)
        assert (ask(server), len(server.requests)) == (["hello"], 2), "from the log"


def test_a_thread_that_is_left_behind_spends_nothing_more() -> None:
    """Its call in flight is ended with the question, and its next one is not made."""
    asked, ended = asyncio.Event(), threading.Event()
    context = SampleContext(SampleKey("q"))

    def hang(request: Received) -> Answer:
        background_loop().call_soon_threadsafe(asked.set)
        return HANG

    def agent() -> None:
        for _ in range(2):
            with pytest.raises(LimitReachedError):
                lm("hi")
        ended.set()

    async def answer_the_question() -> None:
        with use_context(context):
            thread = asyncio.create_task(asyncio.to_thread(agent))
            await asked.wait()
            thread.cancel()
        context.close()

    with serving(hang) as server:
        lm = OpenAIChatModel("any", base_url=server.base_url).create_lm(AgentModel())
        run_blocking(asyncio.wait_for(answer_the_question(), PATIENCE_SECONDS))
        assert ended.wait(PATIENCE_SECONDS)
        assert (len(server.requests), context.usage.lm_calls) == (1, 1)


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize(
    ("finish_reason", "error"), [("length", TruncatedReplyError), ("content_filter", RefusedReplyError)]
)
def test_a_reply_that_is_no_whole_answer_is_refused_either_way(
    finish_reason: str, error: type[Exception], synchronous: bool
) -> None:
    model = ScriptedModel(answering(finalizer=Reply("[[ ## final_answer ## ]]\n4", finish_reason)))
    lm = lm_of(model)
    with pytest.raises(error), dspy.context(lm=lm):
        if synchronous:
            dspy.Predict(REQUEST)(answer_request="How many?")
        else:
            finalize(lm)
    assert len(model.requests) == 1


def test_a_synchronous_call_is_traced_as_well() -> None:
    trace = Trace("thread")
    model = ScriptedModel(answering())
    with record_trace(trace), dspy.context(lm=lm_of(model)):
        assert dspy.Predict(REQUEST)(answer_request="How many?").final_answer == "42"
    (span,) = trace.spans
    assert span.attributes["input_tokens"] == INPUT_TOKENS
    assert span.attributes["output_tokens"] == OUTPUT_TOKENS
    assert "How many?" in said(model.requests[0][1])[0][1]
