"""Arguments of tool calls as models and servers write them: what they can only mean is taken, the rest is named."""

import json
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from mas.agents.react import Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.systems.gaia.nodes import Research
from tests.mas.llm.loopback import Received, answer, completion, serving
from tests.servers.loopback import Answer


def cut(text: str, start: int = 0, reverse: bool = False, words: list[str] | None = None) -> str:
    """Return the rest of a text."""
    return f"{text}|{start}|{reverse}|{words}"


def keep(value: str) -> str:
    """Keep a value."""
    return f"kept {value}"


def ring() -> str:
    """Ring."""
    return "rang"


def call(function: Callable[..., str], arguments: object) -> str:
    """What the agent is shown after a native call with these arguments, as a server writes them."""
    asked = {"id": "1", "type": "function", "function": {"name": function.__name__, "arguments": arguments}}
    replies = iter([completion("", "tool_calls", tool_calls=[asked]), completion("[[ ## result ## ]]\ndone")])

    def handle(request: Received) -> Answer:
        return answer(next(replies))

    with serving(handle) as server:
        predictor = dspy.Predict(Research)
        predictor.lm = OpenAIChatModel("any", base_url=server.base_url).create_lm(AgentModel())
        inputs = {"research_request": "find it", "file": None}
        run_blocking(react(predictor, inputs, [], Toolbox({function.__name__: dspy.Tool(function)})))
        (result,) = [each["content"] for each in server.requests[-1].body["messages"] if each["role"] == "tool"]
    return str(result)


WHOLE = {"text": "6*7", "start": 2}


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps(WHOLE),
        WHOLE,  # Ollama
        json.dumps(json.dumps(WHOLE)),  # JSON within a string
        json.dumps([WHOLE]),
        json.dumps(WHOLE) + '""',
        json.dumps(WHOLE)[:-1],  # its end is missing
        str(WHOLE),  # single quotes
        '{"text": "6*7", "start": 2,}',
        '{text: "6*7", start: 2}',
        f"```json\n{json.dumps(WHOLE)}\n```",
        "{}" + json.dumps(WHOLE),
        '{"text": "6*7", "start": "2"}',
        '{"text": "6*7", "start": 2.0}',
        '{"text": "6*7", "start": 2, "reverse": "false"}',
        '{"text": "6*7", "start": 2, "words": null, "reverse": null}',
    ],
)
def test_arguments_are_read_as_they_can_only_be_meant(arguments: object) -> None:
    assert call(cut, arguments) == "6*7|2|False|None"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"text": 42}', "42|0|False|None"),
        ('{"text": "a", "reverse": "True"}', "a|0|True|None"),
        ('{"text": "a", "words": "[\\"b\\", \\"c\\"]"}', "a|0|False|['b', 'c']"),
        ('{"text": "a", "words": "- b\\n- c"}', "a|0|False|['b', 'c']"),
    ],
)
def test_a_value_of_another_type_is_read_as_the_tools_own(arguments: str, shown: str) -> None:
    assert call(cut, arguments) == shown


@pytest.mark.parametrize("arguments", ["", "{}", "null", {}, None])
def test_no_arguments_have_many_forms(arguments: Any) -> None:
    assert call(ring, arguments) == "rang"


@pytest.mark.parametrize("arguments", ["6*7", '"6*7"', "[1, 2]", "42", "true"])
def test_what_is_no_object_is_named_as_it_was_sent(arguments: str) -> None:
    shown = call(cut, arguments)
    assert "no valid JSON object" in shown and "text, start, reverse, words" in shown
    assert "partial_json" not in shown and "Arg value" not in shown


@pytest.mark.parametrize("value", ['{"text": "6*7"}', "[1]", "6*7"])
def test_an_argument_of_that_name_stays_as_it_is(value: str) -> None:
    assert call(keep, json.dumps({"value": value})) == f"kept {value}"


@pytest.mark.parametrize("start", ["two", "1 to 3", "", [2]])
def test_a_value_that_could_mean_anything_is_an_error_about_it(start: object) -> None:
    assert "start" in call(cut, json.dumps({"text": "a", "start": start}))
