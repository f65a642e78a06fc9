"""Requests as the simulated model reads them, in each form that DSPy's adapters write."""

import json

import pytest
from dspy.lm15 import Message, Request, TextPart, ToolCallPart, ToolResultPart

from mas.simulation.chat import join_text, parse_fields, read_chat

SYSTEM = (
    "Your input fields are:\n1. `problem` (str): p\n2. `steps` (list[str]): s\nYour output fields are:\n"
    "1. `answer` (str): a\nAll interactions will be structured in the following way.\n1. `forged` (str): no\n"
    "In adhering to this structure, your objective is: \n        Work it out.\n          Then stop."
)


def user(**fields: str) -> Message:
    return Message("user", (TextPart("\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items())),))


def assistant(**fields: str) -> Message:
    text = "\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items())
    return Message("assistant", (TextPart(text),))


def test_the_agent_its_fields_and_its_instructions_are_read_from_the_system_prompt() -> None:
    chat = read_chat(Request("any", (user(problem="2 + 2?", steps="Add."),), SYSTEM))
    assert (chat.role, chat.outputs, chat.wants_json) == ("toy_plan", {"answer": "str"}, False)
    assert chat.prompt == "Work it out.\n  Then stop."
    assert (chat.request, chat.first_request, chat.demos) == ("2 + 2?", "2 + 2?", ())
    assert not chat.native_tools and chat.tools == frozenset() and chat.revision_note == "" and not chat.must_answer
    json_form = SYSTEM.replace("All inter", "Outputs will be a JSON object with the following fields. All inter")
    assert read_chat(Request("any", (user(problem="x"),), json_form)).wants_json


def test_an_unknown_request_is_kept_as_it_is() -> None:
    chat = read_chat(Request("any", (Message("user", (TextPart("hello"),)),)))
    assert (chat.role, chat.request, chat.file) == (None, "hello", None)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("[[ ## a ## ]]\nx\n\n[[ ## b ## ]] y\n[[ ## a ## ]]\nforged\n[[ ## completed ## ]]", {"a": "x", "b": "y"}),
        ("[[ ## a ## ]]\nx\nRespond with the corresponding output fields, [[ ## b ## ]]", {"a": "x"}),
        (' {"a": "x", "n": [1]}', {"a": "x", "n": "[1]"}),
        ("{damaged", {}),
        ("plain", {}),
    ],
)
def test_fields_are_read_in_both_forms_and_a_name_that_comes_twice_counts_once(
    text: str, fields: dict[str, str]
) -> None:
    assert parse_fields(text) == fields


def test_marked_examples_come_before_the_conversation_and_feedback_goes_on_with_it() -> None:
    example = Message("user", (TextPart("This is an example of the task, though some input or output fields are not "
                                        "supplied.\n\n[[ ## problem ## ]]\nold"),))  # fmt: skip
    feedback = user(problem="Use the following feedback: no.")
    messages = (example, assistant(answer="1"), user(problem="new"), assistant(answer="2"), feedback)
    chat = read_chat(Request("any", messages, SYSTEM))
    assert [(turn.inputs["problem"], turn.reply) for turn in chat.demos] == [("old", {"answer": "1"})]
    assert [turn.reply for turn in chat.turns] == [{"answer": "2"}, {}]
    assert (chat.first_request, chat.request[:7], chat.revision_note) == ("new", "Use the", " (done again, revision 1)")


def test_native_and_written_tool_results_are_paired_with_their_calls() -> None:
    call = ToolCallPart("c1", "search", {"q": "Rome"})
    answered = ToolResultPart("c1", (TextPart("No more tool calls are possible."),))
    native = (user(problem="x"), Message("assistant", (call,)), Message("tool", (answered,)))
    (result,) = read_chat(Request("any", native, SYSTEM)).results
    assert (result.name, result.arguments, result.is_failure) == ("search", {"q": "Rome"}, False)
    assert read_chat(Request("any", native, SYSTEM)).must_answer
    assert "search" in join_text(Request("any", native, SYSTEM)) and '{"q": "Rome"}' in join_text(
        Request("any", native)
    )
    calls = json.dumps({"tool_calls": [{"name": "search", "args": {"q": "Rome"}}]})
    results = json.dumps({"tool_call_results": [{"name": "search", "value": "search failed: no reply"}, {"name": "b"}]})
    written = (
        user(problem="x", file="a.csv", tools="search, whose description is <d>"), assistant(tool_calls=calls),
        user(tool_call_results=results),
    )  # fmt: skip
    chat = read_chat(Request("any", written, SYSTEM))
    first, second = chat.results
    assert (first.arguments, first.is_failure, second.arguments, second.text) == ({"q": "Rome"}, True, {}, "")
    assert (chat.file, chat.tools, len(chat.turns)) == ("a.csv", {"search"}, 1)


def test_a_decision_depends_on_the_request_and_not_on_tools_and_their_results() -> None:
    plain = read_chat(Request("any", (user(problem="x"),), SYSTEM)).decision_key
    with_tools = (user(problem="x", tools="search, whose description is <d>"), assistant(tool_calls="[]"),
                  user(tool_call_results="[]"))  # fmt: skip
    assert read_chat(Request("any", with_tools, SYSTEM)).decision_key == plain
    assert read_chat(Request("any", (user(problem="y"),), SYSTEM)).decision_key != plain
