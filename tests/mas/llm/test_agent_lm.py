"""The LM that agents hold, over engines of our own: flag, deadline, copies, saved state."""

import asyncio
import copy
import json
import threading
import warnings
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMProviderError,
    LMTimeoutError,
    LMUnexpectedError,
)

from mas.llm.agent_lm import _find_remedy, _translate_error
from mas.llm.call_policy import DEFAULT_OPTIONS, OptionNames
from mas.llm.profiles.model import AgentModel, AgentOverride
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import MAX_BLOCKING_CALLS, background_loop, run_blocking
from mas.runtime.lm_errors import RefusedReplyError, TruncatedReplyError
from mas.runtime.loop_clock import now
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, use_context
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import Received, Server, answer, completion, serving
from tests.mas.llm.test_retrying import body, failing
from tests.scripted_model import INPUT_TOKENS, OUTPUT_TOKENS, Reply, ScriptedModel, answering, said

PATIENCE_SECONDS = 20.0
REQUEST = "answer_request -> final_answer, final_reasoning_trace"


NO_SUCH = "The model `any` does not exist"


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        ("401 No", "Incorrect API key", "Incorrect API key; check the key in SOME_KEY (model.api_key_env)"),
        ("403 No", "not allowed", "not allowed; check the key in SOME_KEY (model.api_key_env)"),
        ("404 No", NO_SUCH, f"{NO_SUCH}; check model.name=any and model.base_url"),
        ("404 No", "page not found", "page not found; check model.name=any and model.base_url"),
        ("400 No", "temperature must be 1", "temperature must be 1; set model.temperature=null, or the agent's own"),
        ("400 No", "Use 'max_completion_tokens'", "'; set model.max_tokens_field to the name that the server takes"),
        ("422 No", "tools: extra field", "tools: extra field; set model.native_tools=false"),
        ("400 No", "no", "no; check model.name, model.temperature, model.max_tokens, model.native_tools"),
        ("400 No", "x" * 5_000, "x; check model.name, model.temperature, model.max_tokens, model.native_tools"),
    ],
)
def test_a_refusal_names_the_variable_or_the_option_that_may_be_wrong(
    status: str, message: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "key-of-ours")
    with serving(failing(status, message=message)) as server:
        profile = OpenAIChatModel("any", base_url=server.base_url, api_key_env="SOME_KEY")
        with pytest.raises(LMError) as raised:
            run_blocking(profile.create_lm(AgentModel()).acall("hi"))
    assert str(raised.value).startswith("[openai/any] ")
    assert str(raised.value).endswith(expected)
    assert len(str(raised.value)) < 700 and "\n" not in str(raised.value)


def test_a_refusal_names_the_options_of_the_agent_that_met_it() -> None:
    with serving(failing("404 No", message="none")) as no_model, serving(failing("401 No", message="no")) as no_key:
        agents = {"planner": AgentOverride("big", base_url=no_model.base_url), "expert": AgentOverride("big")}
        profile = OpenAIChatModel("any", base_url=no_key.base_url, agents=agents)
        expected = {
            AgentModel(agent="planner"): "check model.agents.planner.name=big and model.agents.planner.base_url",
            AgentModel("mine", agent="planner"): "check system.agents.planner.model=mine and",
            AgentModel("mine", agent="expert"): "the server wants a key: name the environment variable that holds it "
            "with model.api_key_env",
        }
        for agent, remedy in expected.items():
            with pytest.raises(LMError) as raised:
                run_blocking(profile.create_lm(agent).acall("hi"))
            assert f"; {remedy}" in str(raised.value)


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
        assert each.deadline_seconds == lm.deadline_seconds


def test_copies_reach_the_same_engine() -> None:
    model = ScriptedModel(answering())
    lm = lm_of(model)
    for each in (lm, copy.deepcopy(lm), lm.copy(temperature=0.7)):
        assert finalize(each).final_answer == "42"
    assert [request.config.temperature for _, request in model.requests] == [None, None, 0.7]


def test_the_deadline_ends_a_call_that_takes_too_long() -> None:
    model = ScriptedModel(answering(), deadline_seconds=0.05, reply_seconds=60.0)
    with pytest.raises(LMTimeoutError, match=r"no complete reply within 0\.05 s"):
        finalize(lm_of(model))
    assert model.requests == []


def test_the_deadline_ends_a_synchronous_call_as_well() -> None:
    lm = lm_of(ScriptedModel(answering(), deadline_seconds=0.05, reply_seconds=60.0))
    with pytest.raises(LMTimeoutError, match=r"no complete reply within 0\.05 s"), dspy.context(lm=lm):
        dspy.Predict(REQUEST)(answer_request="How many?")


class Counting(BaseCallback):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.calls.append("start")

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        self.calls.append("end")


def test_a_synchronous_call_keeps_dspys_books_once() -> None:
    lm, counting = lm_of(ScriptedModel(answering())), Counting()
    with dspy.context(lm=lm, callbacks=[counting]), dspy.track_usage() as usage, warnings.catch_warnings():
        warnings.simplefilter("error")  # DSPy warns of messages that come from no adapter
        dspy.Predict(REQUEST)(answer_request="How many?")
    assert counting.calls == ["start", "end"]
    assert len(lm.history) == 1
    assert len(usage.usage_data[lm.model]) == 1


def test_a_synchronous_call_never_waits_where_waiting_would_block_the_loop() -> None:
    lm = lm_of(ScriptedModel(answering(), native_tools=False))

    async def on_the_loop() -> Any:
        with dspy.context(lm=lm):
            return dspy.Predict(REQUEST)(answer_request="How many?").final_answer

    assert run_blocking(on_the_loop()) == "42"


def test_more_threads_than_the_pool_has_may_wait_for_their_calls_at_once() -> None:
    """A call itself needs threads (DSPy prepares it in one); here none is free until every call has been answered."""
    lm = lm_of(ScriptedModel(answering(), native_tools=False))
    full = threading.Barrier(MAX_BLOCKING_CALLS, timeout=PATIENCE_SECONDS)

    def agent(waits: bool) -> Any:
        if waits:
            full.wait()
        with dspy.context(lm=lm):
            return dspy.Predict(REQUEST)(answer_request="How many?").final_answer

    async def all_of_them() -> list[Any]:
        places = range(2 * MAX_BLOCKING_CALLS)
        return await asyncio.gather(*(asyncio.to_thread(agent, place < MAX_BLOCKING_CALLS) for place in places))

    with use_context(SampleContext(SampleKey("q"), deadline=now() + PATIENCE_SECONDS)):  # else a deadlock would last
        assert run_blocking(all_of_them()) == ["42"] * 2 * MAX_BLOCKING_CALLS


def test_a_call_from_a_thread_of_the_pool_has_the_deadline_too() -> None:
    lm = lm_of(ScriptedModel(answering(), deadline_seconds=0.05, reply_seconds=60.0))
    with pytest.raises(LMTimeoutError, match=r"no complete reply within 0\.05 s"):
        run_blocking(asyncio.to_thread(lm, "hi"))


def test_a_call_from_a_thread_of_the_pool_is_retried_and_logged() -> None:
    log: dict[str, str] = {}
    replies = SimpleNamespace(get=log.get, put=log.__setitem__)

    def ask(server: Server) -> tuple[Any, Any]:
        model = OpenAIChatModel("any", base_url=server.base_url, retry_base_seconds=0.001)
        lm = model.create_lm(AgentModel())
        with use_context(SampleContext(SampleKey("q"), call_log=replies)):
            return run_blocking(asyncio.to_thread(lm, "hi")), model.pace_history()

    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) == 1:
            await answer(writer, {"error": {"message": "busy"}}, "503 Service Unavailable")
        else:
            await answer(writer, completion("hello"))

    with serving(handle) as server:
        reply, history = ask(server)
        assert (reply, len(server.requests)) == (["hello"], 2)
        assert [entry["reason"] for entry in history][1:] == ["server fault: growth paused"]
        assert (ask(server)[0], len(server.requests)) == (["hello"], 2), "from the log"


def test_a_thread_that_is_left_behind_spends_nothing_more() -> None:
    """Its call in flight is ended with the question, and its next one is not made."""
    asked, ended = asyncio.Event(), threading.Event()
    context = SampleContext(SampleKey("q"))

    async def hang(request: Received, writer: asyncio.StreamWriter) -> None:
        background_loop().call_soon_threadsafe(asked.set)
        await asyncio.Event().wait()

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


def test_a_cut_off_call_is_closed_in_the_trace() -> None:
    trace = Trace("thread")
    model = ScriptedModel(answering(), deadline_seconds=0.05, reply_seconds=60.0)
    with record_trace(trace), pytest.raises(LMTimeoutError):
        finalize(lm_of(model))
    (span,) = trace.spans
    assert span.end_seconds is not None and span.error is not None and "no complete reply within" in span.error


def test_the_saved_state_has_the_settings_and_no_engine() -> None:
    state = lm_of(ScriptedModel(answering()), AgentModel("special", 0.3)).dump_state()
    assert (state["model"], state["temperature"]) == ("scripted/special", 0.3)
    assert "engine" not in json.dumps(state)


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


def test_a_lone_surrogate_in_a_reply_never_gets_further() -> None:
    text = "[[ ## final_answer ## ]]\na\ud83db\n\n[[ ## final_reasoning_trace ## ]]\nc\ude00"
    trace = Trace("thread")
    with record_trace(trace):
        prediction = finalize(lm_of(ScriptedModel(answering(finalizer=text))))
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("a?b", "c?")
    json.dumps(trace.spans[0].outputs, ensure_ascii=False).encode()


def caused(error: LMError, cause: BaseException | None) -> LMError:
    error.__cause__ = cause
    return error


def test_a_limit_comes_out_as_itself_and_anything_else_as_the_error_it_was() -> None:
    limit = LimitReachedError("lm_calls", "the question has made its calls")
    assert _translate_error(caused(LMUnexpectedError("engine"), limit), DEFAULT_OPTIONS) is limit
    for error in (
        caused(LMUnexpectedError("engine"), ValueError("other")),
        caused(LMUnexpectedError("engine"), None),
        caused(LMProviderError("500"), limit),
    ):
        assert _translate_error(error, DEFAULT_OPTIONS) is error


@pytest.mark.parametrize(
    ("error", "has_remedy"),
    [
        (LMProviderError("a page", status=200), True),
        (LMProviderError("none", status=404), True),
        (LMProviderError("down", status=500), False),
        (LMUnexpectedError("a defect"), False),
        (ContextWindowExceededError(message="too long"), False),
    ],
)
def test_only_what_the_configuration_can_correct_has_a_remedy(error: LMError, has_remedy: bool) -> None:
    assert (_find_remedy(error, DEFAULT_OPTIONS) is not None) is has_remedy


OPTIONS = OptionNames("the.name", "the.url", "the.key")


@pytest.mark.parametrize(
    ("error", "options", "remedy"),
    [
        (LMAuthError("no"), OptionNames("n", "u", "the.key", "A_KEY"), "check the key in A_KEY (the.key)"),
        (LMAuthError("no"), OPTIONS,
         "the server wants a key: name the environment variable that holds it with the.key"),
        (LMProviderError("a page", status=200), OPTIONS, "check the.url, to which /chat/completions is added"),
        (LMInvalidRequestError("none", status=404, model="openai/org/any"), OPTIONS,
         "check the.name=org/any and the.url"),
        (LMProviderError("none", status=404), OPTIONS, "check the.name= and the.url"),
        (LMInvalidRequestError("a TOOL with a function"), OPTIONS, "set model.native_tools=false"),
        (LMInvalidRequestError("unknown function"), OPTIONS, "set model.native_tools=false"),
        (LMInvalidRequestError("no image and no audio"), OPTIONS, "set model.takes_images=false"),
        (LMInvalidRequestError("no audio"), OPTIONS, "set model.takes_audio=false"),
        (LMInvalidRequestError("max_tokens"), OPTIONS,
         "set model.max_tokens, or model.max_tokens_field, to what the server takes"),
        (LMInvalidRequestError("no"), OPTIONS,
         "check the.name, model.temperature, model.max_tokens, model.native_tools"),
        (LMProviderError("down", status=500), OPTIONS, None),
        (ContextWindowExceededError(message="the image is too long"), OPTIONS, None),
    ],
)  # fmt: skip
def test_each_refusal_has_its_remedy(error: LMError, options: OptionNames, remedy: str | None) -> None:
    assert _find_remedy(error, options) == remedy


@pytest.mark.parametrize(
    ("error", "noted"),
    [
        (LMAuthError("no"), True),
        (LMBillingError("pay\n  first"), True),
        (LMConfigurationError("no"), True),
        (LMInvalidRequestError("no"), False),
        (LMProviderError("down", status=500), False),
    ],
)
def test_a_server_that_refuses_every_request_is_noted_for_the_sample(error: LMError, noted: bool) -> None:
    with use_context(SampleContext(SampleKey("q"))) as context:
        assert _translate_error(error, OPTIONS) is error
    expected = " ".join(f"{type(error).__name__}: {error}".split())
    assert context.server_refusal == (expected if noted else None)
    assert _translate_error(error, OPTIONS) is error, "outside a run there is nobody to note it for"


def test_a_long_refusal_is_cut_before_its_remedy_and_loses_the_advice_of_others() -> None:
    long = LMInvalidRequestError("x" * 501, model="openai/any")
    _translate_error(long, OPTIONS)
    remedy = "check the.name, model.temperature, model.max_tokens, model.native_tools"
    assert (long.message, str(long)) == (f"{'x' * 500}; {remedy}", f"[openai/any] {'x' * 500}; {remedy}")
    advised = LMInvalidRequestError("no\n\n  To fix: call somebody")
    _translate_error(advised, OPTIONS)
    assert advised.message == str(advised) == f"no; {remedy}"
