"""Worked examples (demos) of an agent: between DSPy's objects and plain JSON, and as the conversation that they were.

A demo holds the inputs and outputs of one call. For an agent with a history it is the LAST call of one whole request
(`mas/agents/react.py`): everything said and every tool called before stands in its `history`, each call with its
result.

    demo = dspy.Example(research_request="Find it.", file=None, history=dspy.History(messages=[]), result="Found.")
    data = to_json(demo, Research)     # {"research_request": "Find it.", …, "history": {"messages": []}, …}
    from_json(data, Research)          # the same demo

The live toolbox says which tools there are: a demo never holds the input `tools`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dspy
import pydantic
from dspy.adapters.types.tool import ToolCallResults
from dspy.adapters.utils import annotation_allows_none
from pydantic_core import to_jsonable_python

from mas.runtime.text import encodable

# Opens each request of an example that is shown as a conversation: by it the example is told apart from the real one.
EXAMPLE = "This is an example of the task."


class _Call(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    id: str | None = None
    name: str
    args: dict[str, Any]


class _Result(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    call_id: str | None = None
    name: str
    value: Any
    is_error: bool = False


class _Calls(pydantic.BaseModel):
    """What `dspy.ToolCalls` is in JSON; DSPy's own serialisation leaves out the ids."""

    model_config = pydantic.ConfigDict(extra="forbid")
    tool_calls: list[_Call]
    tool_call_results: list[_Result] | None = None


def to_json(demo: Any, signature: Any) -> dict[str, Any]:
    """The demo's fields as plain JSON values, in the signature's order.

    Args:
        demo: a `dspy.Example`, or a mapping. What is no field of the signature (DSPy's `augmented`) is left out.
        signature: the predictor's.

    Raises:
        pydantic_core.PydanticSerializationError: a value that JSON cannot hold.
    """
    given, kept = dict(demo.items()), _kept(signature)
    return {name: _to_json(given[name], kept[name], kept) for name in kept if name in given}


def from_json(data: Mapping[str, Any], signature: Any) -> dspy.Example:
    """The demo as a predictor takes it.

    Raises:
        ValueError: half a sentence about what is wrong: a field that the signature does not have, an output that is
            missing, a value of another type, no request, a tool call without its result.
    """
    kept = _kept(signature)
    if unknown := sorted(data.keys() - kept.keys()):
        raise ValueError(f"has the unknown field {', '.join(unknown)} (known are {', '.join(kept)})")
    if missing := sorted(_answers(signature).keys() - data.keys()):
        raise ValueError(f"lacks the output field {', '.join(missing)}")
    values = {name: _from_json(value, kept[name], kept, name) for name, value in data.items()}
    if (calls := _calls(values)) is not None and calls.tool_calls:
        raise ValueError("ends in a tool call instead of an answer")
    if not _requested(values, signature):
        raise ValueError(f"has no request: none of the fields {', '.join(signature.input_fields)} says what was asked")
    return dspy.Example(augmented=True, **values)


def conversation(demo: Any, signature: Any, number: int) -> list[dict[str, Any]]:
    """The example's turns (messages of a `dspy.History`), oldest first; none if it does not hold a whole request.

    Tool calls get ids of their own: some providers refuse an id that comes twice in one request, in another example or
    in the real conversation, and some take nothing but nine letters and digits.

    Args:
        signature: as it is rendered; with native tool calls, without the fields `tools` and `tool_calls`.
        number: the example's, from 1.
    """
    given = dict(demo.items())
    calls, answers = _calls(given), _answers(signature)
    if (calls is not None and calls.tool_calls) or any(given.get(n) is None for n in answers if _required(answers[n])):
        return []
    last = {name: given[name] for name in (*_inputs(signature), *answers) if name in given}
    last |= {name: dspy.ToolCalls(tool_calls=[]) for name, kind in _kinds(signature.output_fields) if _is_calls(kind)}
    if not _requested(given, signature):
        return []
    turns = [*_earlier(given), last]
    return [_with_own_ids(turn, f"d{number:02}t{index:02}") for index, turn in enumerate(turns, 1)]


def _with_own_ids(turn: dict[str, Any], prefix: str) -> dict[str, Any]:
    field = next((name for name, value in turn.items() if isinstance(value, dspy.ToolCalls)), None)
    if field is None:
        return turn
    calls = [
        call.model_copy(update={"id": f"{prefix}c{index:02}"}) for index, call in enumerate(turn[field].tool_calls, 1)
    ]
    results = turn[field].tool_call_results
    if results is not None:
        told = ToolCallResults.model_validate(results).tool_call_results
        pairs = zip(calls, told, strict=False)
        results = ToolCallResults(
            tool_call_results=[result.model_copy(update={"call_id": call.id}) for call, result in pairs]
        )
    return {**turn, field: dspy.ToolCalls(tool_calls=calls).model_copy(update={"tool_call_results": results})}


def _to_json(value: Any, kind: Any, kept: Mapping[str, Any]) -> Any:
    if isinstance(value, dspy.History):
        return {"messages": [_turn_to_json(turn, kept) for turn in value.messages]}
    if _is_calls(kind) and value is not None:
        return _calls_to_json(dspy.ToolCalls.model_validate(value))
    return to_jsonable_python(encodable(value))


def _turn_to_json(turn: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_json(value, kept[name], kept) for name, value in turn.items() if name in kept}


def _calls_to_json(calls: dspy.ToolCalls) -> dict[str, Any]:
    listed = [_Call(id=call.id, name=call.name, args=call.args) for call in calls.tool_calls]
    results = calls.tool_call_results
    told = None if results is None else ToolCallResults.model_validate(results).tool_call_results
    answered = None if told is None else [_Result(**dict(result)) for result in told]
    whole = _Calls(tool_calls=listed, tool_call_results=answered).model_dump()
    data: dict[str, Any] = encodable(to_jsonable_python({key: part for key, part in whole.items() if part is not None}))
    return data


def _from_json(value: Any, kind: Any, kept: Mapping[str, Any], where: str) -> Any:
    """`where`: the field, for the error."""
    if kind is dspy.History:
        return _history(value, kept, where)
    if _is_calls(kind):
        return None if value is None else _calls_from_json(value, where)
    return _valid(kind, value, where)


def _history(value: Any, kept: Mapping[str, Any], where: str) -> dspy.History:
    shape = _valid(dict[str, list[dict[str, Any]]], value, where)
    if shape.keys() != {"messages"}:
        raise ValueError(f"has a {where} with something else than 'messages'")
    messages = []
    for number, turn in enumerate(shape["messages"], 1):
        if unknown := sorted(name for name in turn if name not in kept or kept[name] is dspy.History):
            raise ValueError(f"has the unknown field {', '.join(unknown)} in message {number} of its {where}")
        place = f"{where}, message {number}, "
        messages.append({name: _from_json(each, kept[name], kept, place + name) for name, each in turn.items()})
        if (calls := _calls(messages[-1])) is not None and calls.tool_calls and calls.tool_call_results is None:
            raise ValueError(f"has a tool call without its result in message {number} of its {where}")
    return dspy.History(messages=messages)


def _calls_from_json(value: Any, where: str) -> dspy.ToolCalls:
    read = _valid(_Calls, value, where)
    calls = [dspy.ToolCalls.ToolCall(id=call.id, name=call.name, args=call.args) for call in read.tool_calls]
    made = dspy.ToolCalls(tool_calls=calls)
    if read.tool_call_results is None:
        return made
    if len(calls) != len(read.tool_call_results):
        raise ValueError(f"has {len(read.tool_call_results)} results for {len(calls)} tool calls in its {where}")
    results = ToolCallResults(tool_call_results=[result.model_dump() for result in read.tool_call_results])
    return made.model_copy(update={"tool_call_results": results})


def _valid(kind: Any, value: Any, where: str) -> Any:
    try:
        return pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        inside = "".join(f" → {part}" for part in first["loc"])
        told = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
        raise ValueError(f"has an unfit value in its {where}{inside} ({told})") from error


def _kept(signature: Any) -> dict[str, Any]:
    """Field → type, but for the tools."""
    return {name: kind for name, kind in _kinds(signature.fields) if not _is_tools(kind)}


def _inputs(signature: Any) -> dict[str, Any]:
    """The fields that a request is made of."""
    return {
        name: kind for name, kind in _kinds(signature.input_fields) if not _is_tools(kind) and kind is not dspy.History
    }


def _answers(signature: Any) -> dict[str, Any]:
    return {name: kind for name, kind in _kinds(signature.output_fields) if not _is_calls(kind)}


def _requested(values: Mapping[str, Any], signature: Any) -> bool:
    """Whether the first turn says what is wanted."""
    first = [*_earlier(values), values][0]
    return any(first.get(name) is not None for name in _inputs(signature))


def _earlier(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return next((list(value.messages) for value in values.values() if isinstance(value, dspy.History)), [])


def _calls(values: Mapping[str, Any]) -> dspy.ToolCalls | None:
    return next((value for value in values.values() if isinstance(value, dspy.ToolCalls)), None)


def _kinds(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, field.annotation) for name, field in fields.items())


def _required(kind: Any) -> bool:
    return not annotation_allows_none(kind)


def _is_calls(kind: Any) -> bool:
    return kind is dspy.ToolCalls


def _is_tools(kind: Any) -> bool:
    return kind in (dspy.Tool, list[dspy.Tool])
