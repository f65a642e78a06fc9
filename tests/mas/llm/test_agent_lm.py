"""The LM that agents hold, over engines of our own: flag, deadline, copies, saved state."""

import asyncio
import copy
import json
import warnings
from typing import Any

import dspy
import pytest
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMTimeoutError

from mas.llm.errors import RefusedReplyError, TruncatedReplyError
from mas.llm.loop import MAX_BLOCKING_CALLS, run_blocking
from mas.llm.model import AgentModel
from mas.tracing.trace import Trace, recording
from tests.scripted_model import INPUT_TOKENS, OUTPUT_TOKENS, Reply, ScriptedModel, answering, said

REQUEST = "answer_request -> final_answer, final_reasoning_trace"


def lm_of(model: ScriptedModel, agent: AgentModel | None = None) -> Any:
    return model.lm(agent or AgentModel())


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

    def call() -> Any:
        with dspy.context(lm=lm):
            return dspy.Predict(REQUEST)(answer_request="How many?").final_answer

    async def on_the_loop() -> Any:
        return call()

    async def in_more_threads_than_its_pool_has() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(call) for _ in range(MAX_BLOCKING_CALLS + 1)))

    assert run_blocking(on_the_loop()) == "42"
    assert set(run_blocking(in_more_threads_than_its_pool_has())) == {"42"}


def test_a_cut_off_call_is_closed_in_the_trace() -> None:
    trace = Trace("thread")
    model = ScriptedModel(answering(), deadline_seconds=0.05, reply_seconds=60.0)
    with recording(trace), pytest.raises(LMTimeoutError):
        finalize(lm_of(model))
    (span,) = trace.spans
    assert span.end_seconds is not None and span.error is not None and "CancelledError" in span.error


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
    with recording(trace), dspy.context(lm=lm_of(model)):
        assert dspy.Predict(REQUEST)(answer_request="How many?").final_answer == "42"
    (span,) = trace.spans
    assert span.attributes["input_tokens"] == INPUT_TOKENS
    assert span.attributes["output_tokens"] == OUTPUT_TOKENS
    assert "How many?" in said(model.requests[0][1])[0][1]


def test_a_lone_surrogate_in_a_reply_never_gets_further() -> None:
    text = "[[ ## final_answer ## ]]\na\ud83db\n\n[[ ## final_reasoning_trace ## ]]\nc\ude00"
    trace = Trace("thread")
    with recording(trace):
        prediction = finalize(lm_of(ScriptedModel(answering(finalizer=text))))
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("a?b", "c?")
    json.dumps(trace.spans[0].outputs, ensure_ascii=False).encode()
