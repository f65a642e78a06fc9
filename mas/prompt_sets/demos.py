"""Worked examples (demos) of an agent: as DSPy's objects, as JSON, and as turns of a conversation.

A demo holds the inputs and outputs of one call. For an agent with a history it is the LAST call of one whole request
(`mas/agents/react.py`): everything before is in its `history`, each tool call with its result.

The live toolbox decides which tools there are: a demo never holds the input `tools`.
"""

from collections.abc import Mapping
from typing import Any

import dspy
import pydantic
from pydantic_core import to_jsonable_python

from mas.prompt_sets.dspy_internals import annotation_allows_none
from mas.runtime.text import replace_surrogates

Turn = dict[str, Any]  # message of a `dspy.History`: inputs and outputs of the signature by name
Json = dict[str, Any]
Signature = type[dspy.Signature]
Types = Mapping[str, object]  # annotation of each field by name
_TOOLS = (dspy.Tool, list[dspy.Tool])


def to_json(demo: dspy.Example | Mapping[str, object], signature: Signature) -> Json:
    """Return the demo's fields as plain JSON values; what is no field of the signature is left out.

    What JSON cannot hold becomes its `str`, as DSPy's adapters show it.
    """
    given, types = dict(demo.items()), _list_types(signature.fields, *_TOOLS)
    return {name: _dump(given[name], types) for name in types if name in given}


def from_json(data: Mapping[str, object], signature: Signature, is_plain: bool = False) -> dspy.Example:
    """Return the demo of these values by field as a predictor takes it.

    With `is_plain` the JSON values stay as they are, as in `dspy.Module.load`, and fields may be missing. ValueError:
    half a sentence about what is wrong: a field that the signature does not have, an output that is missing, a value of
    another type, no request, a tool call without its result.
    """
    types = _list_types(signature.fields, *(() if is_plain else _TOOLS))
    if unknown := sorted(data.keys() - types.keys()):
        raise ValueError(f"has the unknown field {', '.join(unknown)} (known are {', '.join(types)})")
    if is_plain:
        return dspy.Example(augmented=True, **data)
    if missing := sorted(_list_answers(signature).keys() - data.keys()):
        raise ValueError(f"lacks the output field {', '.join(missing)}")
    values = {name: _load(value, types[name], types, name) for name, value in data.items()}
    if (calls := _find_calls(values)) and calls.tool_calls:
        raise ValueError("ends in a tool call instead of an answer")
    if not _has_request(values, signature):
        raise ValueError(f"has no request: none of the fields {', '.join(signature.input_fields)} says what was asked")
    return dspy.Example(augmented=True, **values)


def list_turns(demo: dspy.Example, signature: Signature, number: int) -> list[Turn]:
    """Return the example's turns, oldest first; none if it does not hold a whole request.

    Tool calls get new ids: some providers refuse an id that comes twice in one request, in another example or in the
    real conversation, and some accept only nine letters and digits. The signature is that which is rendered: with
    native tool calls, without the fields `tools` and `tool_calls`. Examples are numbered from 1.
    """
    given, answers = dict(demo.items()), _list_answers(signature)
    is_complete = all(given.get(name) is not None or annotation_allows_none(kind) for name, kind in answers.items())
    ends_in_call = (calls := _find_calls(given)) and calls.tool_calls
    if ends_in_call or not is_complete or not _has_request(given, signature):
        return []
    last = {name: given[name] for name in (*_list_requests(signature), *answers) if name in given}
    last |= {name: dspy.ToolCalls(tool_calls=[]) for name in signature.output_fields.keys() - answers.keys()}
    turns = enumerate([*_earlier_turns(given), last], 1)
    return [_renumber_calls(turn, f"d{number:02}t{index:02}") for index, turn in turns]


def _renumber_calls(turn: Turn, prefix: str) -> Turn:
    field = next((name for name, value in turn.items() if isinstance(value, dspy.ToolCalls)), None)
    if field is None:
        return turn
    named = enumerate(turn[field].tool_calls, 1)
    calls = [call.model_copy(update={"id": f"{prefix}c{index:02}"}) for index, call in named]
    results = turn[field].tool_call_results
    if results is not None:
        pairs = zip(calls, dspy.ToolCallResults.model_validate(results).tool_call_results, strict=False)
        renumbered = [result.model_copy(update={"call_id": call.id}) for call, result in pairs]
        results = dspy.ToolCallResults(tool_call_results=renumbered)
    return {**turn, field: dspy.ToolCalls(tool_calls=calls, tool_call_results=results)}


def _dump(value: Any, types: Types) -> object:
    if isinstance(value, dspy.History):
        turns = [{name: _dump(turn[name], types) for name in turn if name in types} for turn in value.messages]
        return {"messages": turns}
    if isinstance(value, dspy.ToolCalls):  # its own form leaves out the ids
        calls = [dict(call) for call in value.tool_calls]
        value, results = {"tool_calls": calls}, value.tool_call_results
        if results is not None:
            shown = dspy.ToolCallResults.model_validate(results).tool_call_results
            value["tool_call_results"] = [dict(result) for result in shown]
    return to_jsonable_python(replace_surrogates(value), fallback=str)


def _load(value: Any, kind: object, types: Types, where: str) -> object:
    """Return a field's value; `where` names the field in an error."""
    if kind is dspy.History:
        return _load_history(value, types, where)
    if kind is not dspy.ToolCalls:
        return _validate(kind, value, where)
    return None if value is None else _load_calls(value, where)


def _load_history(value: object, types: Types, where: str) -> dspy.History:
    messages = []
    for number, turn in enumerate(_validate(dspy.History, value, where).messages, 1):
        if unknown := sorted(name for name in turn if name not in types or types[name] is dspy.History):
            raise ValueError(f"has the unknown field {', '.join(unknown)} in message {number} of its {where}")
        place = f"{where}, message {number}, "
        messages.append({name: _load(each, types[name], types, place + name) for name, each in turn.items()})
        if (calls := _find_calls(messages[-1])) and calls.tool_calls and calls.tool_call_results is None:
            raise ValueError(f"has a tool call without its result in message {number} of its {where}")
    return dspy.History(messages=messages)


def _load_calls(value: Any, where: str) -> dspy.ToolCalls:
    calls: dspy.ToolCalls = _validate(dspy.ToolCalls, value, where)
    if calls.tool_call_results is None:
        return calls
    results = _validate(dspy.ToolCallResults, calls.tool_call_results, where)
    n_calls, n_results = len(calls.tool_calls), len(results.tool_call_results)
    if n_calls != n_results:
        raise ValueError(f"has {n_results} results for {n_calls} tool calls in its {where}")
    return calls.model_copy(update={"tool_call_results": results})


def _validate(kind: Any, value: object, where: str) -> Any:
    try:
        return pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        inside = "".join(f" → {part}" for part in first["loc"])
        message = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
        raise ValueError(f"has an unfit value in its {where}{inside} ({message})") from error


def _list_types(fields: Mapping[str, Any], *without: object) -> dict[str, object]:
    return {name: field.annotation for name, field in fields.items() if field.annotation not in without}


def _list_requests(signature: Signature) -> dict[str, object]:
    return _list_types(signature.input_fields, *_TOOLS, dspy.History)


def _list_answers(signature: Signature) -> dict[str, object]:
    return _list_types(signature.output_fields, dspy.ToolCalls)


def _has_request(values: Turn, signature: Signature) -> bool:
    """Return True if the first turn holds a request."""
    first = [*_earlier_turns(values), values][0]
    return any(first.get(name) is not None for name in _list_requests(signature))


def _earlier_turns(values: Turn) -> list[Turn]:
    return next((list(value.messages) for value in values.values() if isinstance(value, dspy.History)), [])


def _find_calls(values: Turn) -> dspy.ToolCalls | None:
    return next((value for value in values.values() if isinstance(value, dspy.ToolCalls)), None)
