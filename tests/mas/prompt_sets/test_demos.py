"""Examples as JSON and back: nothing of them is lost, and every mistake in them is half a sentence."""

import json
from typing import Any

import dspy
import pytest
from dspy.adapters.types.tool import ToolCallResults
from hypothesis import given
from hypothesis import strategies as st

from mas.prompt_sets.demos import from_json, list_turns, to_json
from mas.systems.gaia.nodes import Plan, Research, ReviewPlan

REQUEST = {"research_request": "Find it.", "file": None}


def called(*names: str, ids: str = "a") -> dspy.ToolCalls:
    calls = dspy.ToolCalls(tool_calls=[{"id": f"{ids}{i}", "name": n, "args": {"q": n}} for i, n in enumerate(names)])
    results = ToolCallResults.from_tool_calls_and_values(calls, [f"{name} says so" for name in names])
    return calls.model_copy(update={"tool_call_results": results})


def researched(*turns: dict[str, Any], **fields: Any) -> dspy.Example:
    return dspy.Example(**{"history": dspy.History(messages=list(turns)), "result": "Found.", **fields})


texts = st.text(max_size=12)
values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
                      max_leaves=6)  # fmt: skip


@st.composite
def tool_calls(draw: st.DrawFn) -> dspy.ToolCalls:
    arguments = st.dictionaries(texts, values, max_size=3)
    single = st.builds(dspy.ToolCalls.ToolCall, id=st.none() | st.text(min_size=1), name=texts, args=arguments)
    calls = dspy.ToolCalls(tool_calls=draw(st.lists(single, min_size=1, max_size=3)))
    size = len(calls.tool_calls)
    observations = draw(st.lists(texts, min_size=size, max_size=size))
    failed = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    results = ToolCallResults.from_tool_calls_and_values(calls, observations, failed)
    return calls.model_copy(update={"tool_call_results": results})


requests = st.fixed_dictionaries({"research_request": texts, "file": st.none() | texts})
turns = st.fixed_dictionaries({"tool_calls": tool_calls()}) | st.fixed_dictionaries({"result": texts})
research = st.builds(
    lambda request, more, result, calls, in_history: dspy.Example(
        augmented=True,
        **({} if in_history else request),
        history=dspy.History(messages=[{**request, **more[0]}, *more[1:]] if in_history else []),
        tool_calls=calls,
        result=result,
    ),
    requests,
    st.lists(turns, min_size=1, max_size=3),
    texts,
    st.sampled_from([None, dspy.ToolCalls(tool_calls=[])]),
    st.booleans(),
)
plans = st.builds(
    lambda **fields: dspy.Example(augmented=True, history=dspy.History(messages=[]), **fields),
    request=texts, file=st.none() | texts, research_steps=st.lists(texts), expert_steps=st.lists(texts, min_size=1),
)  # fmt: skip
reviews = st.builds(
    lambda **fields: dspy.Example(augmented=True, **fields),
    plan_to_review=texts, file=st.none(), decision=st.sampled_from(["approve", "reject"]), feedback=texts,
)  # fmt: skip
examples = st.tuples(st.just(Research), research) | st.tuples(st.just(Plan), plans) | st.tuples(
    st.just(ReviewPlan), reviews)  # fmt: skip


@given(examples)
def test_what_is_written_is_read_again_and_rendered_the_same(example: tuple[Any, dspy.Example]) -> None:
    signature, demo = example
    data = to_json(demo, signature)
    again = from_json(json.loads(json.dumps(data)), signature)
    assert again == demo
    assert to_json(again, signature) == data
    for adapter in (dspy.ChatAdapter(use_native_function_calling=True), dspy.JSONAdapter(False)):
        assert adapter.format_demos(signature, [again]) == adapter.format_demos(signature, [demo])


def test_ids_results_and_failures_of_calls_are_kept() -> None:
    failed = ToolCallResults(tool_call_results=[{"call_id": "x", "name": "add", "value": "no", "is_error": True}])
    calls = dspy.ToolCalls(tool_calls=[{"id": "x", "name": "add", "args": {"b": 1, "a": [2.0]}}])
    calls = calls.model_copy(update={"tool_call_results": failed})
    data = to_json(researched({**REQUEST, "tool_calls": calls}), Research)
    assert data["history"]["messages"][0]["tool_calls"] == {
        "tool_calls": [{"id": "x", "name": "add", "args": {"b": 1, "a": [2.0]}}],
        "tool_call_results": [{"call_id": "x", "name": "add", "value": "no", "is_error": True}],
    }
    assert list(data["history"]["messages"][0]["tool_calls"]["tool_calls"][0]["args"]) == ["b", "a"]
    (turn,) = from_json(data, Research).history.messages
    assert isinstance(turn["tool_calls"], dspy.ToolCalls) and turn["tool_calls"] == calls


def test_the_live_toolbox_and_what_is_no_field_are_left_out() -> None:
    def search() -> str:
        return ""

    demo = researched(**REQUEST, tools=[dspy.Tool(search)], augmented=True, dspy_uuid="1", score=0.5)
    assert to_json(demo, Research) == {**REQUEST, "history": {"messages": []}, "result": "Found."}
    steps: dict[str, Any] = {**REQUEST, "tools": [dspy.Tool(search)], **dict(dspy.Prediction(result="Found.").items())}
    assert "tools" not in to_json(steps, Research)


CALL = {"name": "add", "args": {}}


def calling(call: dict[str, Any]) -> dict[str, Any]:
    calls = {"tool_calls": [call], "tool_call_results": [{"name": "add", "value": "1"}]}
    return {**REQUEST, "result": "a", "history": {"messages": [{"tool_calls": calls}]}}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({**REQUEST, "result": "a", "reslt": "b"}, "unknown field reslt (known are research_request"),
    "no output": (dict(REQUEST), "lacks the output field result"),
    "output of another type": ({**REQUEST, "result": 5}, "unfit value in its result (input should be a valid string)"),
    "no request": ({"file": None, "result": "a"}, "has no request"),
    "a request that is not the first": ({"history": {"messages": [{"result": "a"}]}, "result": "b"}, "has no request"),
    "history is a list": ({**REQUEST, "result": "a", "history": []}, "unfit value in its history"),
    "history without messages": ({**REQUEST, "result": "a", "history": {}}, "its history → messages (field required)"),
    "call without a name": (calling({"args": {}}), "unfit value in its history, message 1, tool_calls"),
    "unknown field in a turn": (
        {**REQUEST, "result": "a", "history": {"messages": [{"reslt": "b"}]}},
        "unknown field reslt in message 1 of its history",
    ),
    "call without result": (
        {**REQUEST, "result": "a", "history": {"messages": [{"tool_calls": {"tool_calls": [CALL]}}]}},
        "tool call without its result in message 1",
    ),
    "results of other calls": (
        {
            **REQUEST,
            "result": "a",
            "history": {"messages": [{"tool_calls": {"tool_calls": [CALL], "tool_call_results": []}}]},
        },
        "0 results for 1 tool calls in its history, message 1, tool_calls",
    ),
    "ends in a call": ({**REQUEST, "result": "", "tool_calls": {"tool_calls": [CALL]}}, "ends in a tool call"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_an_example_is_told(mistake: str) -> None:
    data, told = MISTAKES[mistake]
    with pytest.raises(ValueError, match=r"\w") as caught:
        from_json(data, Research)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_the_conversation_of_an_example_ends_in_its_answer_and_has_ids_of_its_own() -> None:
    first, second = {**REQUEST, "tool_calls": called("add", "look")}, {"tool_calls": called("add")}
    told = list_turns(researched(first, second), Research, 12)
    ids = [[call.id for call in turn["tool_calls"].tool_calls] for turn in told]
    assert ids == [["d12t01c01", "d12t01c02"], ["d12t02c01"], []]
    answered = [turn["tool_calls"].tool_call_results.tool_call_results for turn in told[:2]]
    assert [[result.call_id for result in results] for results in answered] == ids[:2]
    assert [result.value for result in answered[0]] == ["add says so", "look says so"]
    assert told[2]["result"] == "Found." and "research_request" not in told[2]
    assert first["tool_calls"].tool_calls[0].id == "a0"  # the example itself is left as it is
