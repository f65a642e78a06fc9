"""Requests as the simulated model reads them, in each form that DSPy's adapters write."""

import json

import pytest
from dspy.lm15 import Message, Request, TextPart, ToolCallPart, ToolResultPart

from mas.simulation.chat import Chat, ToolResult, Turn, join_text, parse_fields, read_chat

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


def system(inputs: str, outputs: str) -> str:
    """A system prompt with these input and output fields."""
    first, second = ("\n".join(f"{n}. `{name}` (str): x" for n, name in enumerate(names.split(), 1))
                     for names in (inputs, outputs))  # fmt: skip
    return (
        f"Your input fields are:\n{first}\nYour output fields are:\n{second}\nAll interactions will be structured so.\n"
        "In adhering to this structure, your objective is: Work."
    )


@pytest.mark.parametrize(
    ("inputs", "outputs", "role", "request_"),
    [
        ("problem_and_steps problem steps", "result", "toy_solve", "1"),
        ("result_to_finalize", "final_answer", "toy_finalize", "1"),
        ("problem", "steps", "toy_plan", "1"),
        ("problem", "working", "toy_work", "1"),
        ("working problem", "answer", "toy_conclude", "2"),
        ("title body", "category", "ticket", "1\n\n2"),
        ("agents question_to_plan", "chosen_agents", "request_planner", "2"),
        ("x question_for_tables", "needed_tables", "sql_tables", "2"),
        ("x question_for_query", "query", "sql_query", "2"),
        ("query_to_review question_of_query", "reviewed_query", "sql_review", "2"),
        ("rows question_about_rows", "rows_answer", "sql_rows", "2"),
        ("documentation question_for_api", "plan", "api_call", "2"),
        ("refused_plan question_of_refused_call", "adjusted_plan", "api_adjustment", "2"),
        ("reply question_about_reply", "summary", "api_reply", "2"),
        ("x computation_question", "code", "code", "2"),
        ("x computation_to_summarize", "computation_answer", "code_outcome", "2"),
        ("agent_summaries question_to_answer", "final_answer", "composer", "2"),
        ("x request", "research_steps", "planner", "2"),
        ("x plan_to_review", "decision", "critic_planner", "2"),
        ("x research_to_review", "decision", "critic_researcher", "2"),
        ("x answer_to_review", "decision", "critic_expert", "2"),
        ("x answer_request", "final_answer", "finalizer", "2"),
        ("x expert_request", "expert_answer", "expert", "2"),
        ("x research_request", "result", "researcher", "2"),
        ("question more", "final_answer", "single", "1"),
        ("file question more", "other", None, "2\n\n3"),
    ],
)
def test_an_agent_is_known_by_its_fields_and_its_request_is_in_one_of_them(
    inputs: str, outputs: str, role: str | None, request_: str
) -> None:
    values = {name: str(n) for n, name in enumerate(inputs.split(), 1)}
    chat = read_chat(Request("any", (user(**values),), system(inputs, outputs)))
    assert (chat.role, chat.request, chat.prompt) == (role, request_, "Work.")
    assert chat.outputs == dict.fromkeys(outputs.split(), "str")
    other = read_chat(Request("any", (user(**{**values, "file": "b.csv", "history": "h"}),), system(inputs, outputs)))
    by_question = {"sql", "api", "req", "cod", "com"}
    decides = "file" in json.loads(other.decision_key)[1][0][0]
    assert decides is ((role or "")[:3] not in by_question)
    assert "history" not in json.loads(other.decision_key)[1][0][0]


def test_a_decision_depends_on_what_was_asked_and_replied_before_but_not_on_the_open_reply() -> None:
    first, reply, feedback = user(problem="x"), assistant(answer="1"), user(problem="Use the following feedback: no.")
    before = read_chat(Request("any", (first, reply, feedback), SYSTEM))
    asked = [{"problem": "x"}, {"answer": "1"}], [{"problem": "Use the following feedback: no."}, {}]
    assert json.loads(before.decision_key) == ["toy_plan", [list(each) for each in asked]]
    calling = read_chat(Request("any", (first, assistant(tool_calls="[]"), user(tool_call_results="[]")), SYSTEM))
    assert json.loads(calling.decision_key) == ["toy_plan", [[{"problem": "x"}, {}]]]
    assert "é" in read_chat(Request("any", (user(problem="é"),), SYSTEM)).decision_key


@pytest.mark.parametrize(
    ("files", "file"),
    [(["a.csv"], "a.csv"), (["None"], None), ([""], None), (["a.csv", "None"], "a.csv"), (["a.csv", "b.csv"], "b.csv")],
)
def test_the_file_is_that_of_the_newest_turn_that_names_one(files: list[str], file: str | None) -> None:
    turns = tuple(Turn({"problem": "x", "file": name}) for name in files)
    assert Chat("single", {}, False, frozenset(), False, turns, "", (), None).file == file


@pytest.mark.parametrize(
    ("text", "fails"), [("search failed: x", True), ("Error: x", True), ("find failed", False), ("No Error", False)]
)
def test_a_result_is_a_failure_if_it_begins_so(text: str, fails: bool) -> None:
    assert ToolResult("search", {}, text).is_failure is fails


def test_results_count_over_all_turns_and_the_order_to_answer_in_the_last_alone() -> None:
    last, other = ToolResult("a", {}, "No more tool calls"), ToolResult("b", {}, "x")
    for turns, must in (
        ((Turn({}, [last]), Turn({}, [other])), False),
        ((Turn({}, [other]), Turn({}, [other, last])), True),
    ):
        chat = Chat(None, {}, False, frozenset(), False, turns, "", (), None)
        assert chat.results == [result for turn in turns for result in turn.results]
        assert (chat.must_answer, chat.revision_note) == (must, " (done again, revision 1)")


def test_a_conversation_begins_at_its_newest_request_that_is_no_feedback() -> None:
    feedback = user(problem="Use the following feedback: no.")
    messages = (user(problem="1"), assistant(answer="a"), user(problem="2"), assistant(answer="b"), feedback,
                assistant(answer="c"), feedback)  # fmt: skip
    chat = read_chat(Request("any", messages, SYSTEM))
    assert ([turn.reply for turn in chat.demos], len(chat.turns)) == ([{"answer": "a"}], 3)
    assert [turn.reply for turn in chat.turns] == [{"answer": "b"}, {"answer": "c"}, {}]
    only = read_chat(Request("any", (feedback, assistant(answer="a"), feedback), SYSTEM))
    assert (only.demos, len(only.turns)) == ((), 2)
    late = Message("user", (TextPart("This is an example of the task.\n\n[[ ## problem ## ]]\nold"),))
    marked = read_chat(Request("any", (late, assistant(answer="a"), feedback), SYSTEM))
    assert ([turn.is_example for turn in marked.demos], [turn.is_example for turn in marked.turns]) == ([True], [False])


def test_results_of_unknown_calls_and_damaged_lists_are_kept_as_far_as_they_go() -> None:
    unknown = ToolResultPart("c9", (TextPart("5"),))
    first, tool = user(problem="x"), Message("tool", (unknown,))
    assert read_chat(Request("any", (first, tool), SYSTEM)).results == [ToolResult("", {}, "5")]
    assert read_chat(Request("any", (tool, first), SYSTEM)).results == []
    for calls, results, expected in (
        ("{", '[{"name": "a", "value": 5}]', [ToolResult("a", {}, "5")]),
        ('[{"name": "a", "args": [1]}]', '[{"name": "a", "value": "x"}, 7]', [ToolResult("a", {}, "x")]),
        ('{"tool_calls": 3}', '{"tool_call_results": [{"value": {"é": 1}}]}', [ToolResult("None", {}, '{"é": 1}')]),
        ("[]", "3", []),
        ("[]", '{"other": []}', []),
    ):
        written = (first, assistant(tool_calls=calls), user(tool_call_results=results))
        assert read_chat(Request("any", written, SYSTEM)).results == expected


def test_tools_are_those_of_the_request_and_of_its_text() -> None:
    tools = "search, whose description is <d>\nfind_it, whose description is <e>"
    later = (user(problem="x"), assistant(tool_calls="[]"), user(tools=tools, tool_call_results="[]"))
    chat = read_chat(Request("any", later, SYSTEM))
    assert (chat.tools, chat.native_tools) == ({"search", "find_it"}, False)
    assert chat.turns[0].inputs == {"problem": "x", "tools": tools}


def test_all_text_of_a_request_is_joined_calls_and_results_included() -> None:
    call = ToolCallPart("c1", "search", {"b": 1, "a": 2})
    answered = ToolResultPart("c1", (TextPart("one"), TextPart("two")))
    messages = (Message("user", (TextPart("hello"),)), Message("assistant", (call,)), Message("tool", (answered,)))
    assert join_text(Request("any", messages, "be brief")) == 'be brief\nhello\nsearch {"a": 2, "b": 1}\nonetwo'


def test_a_system_prompt_without_an_objective_is_the_instructions() -> None:
    chat = read_chat(Request("any", (user(problem="x"),), "Be brief.\n  Then stop."))
    assert (chat.prompt, chat.role, chat.outputs, chat.wants_json) == ("Be brief.\n  Then stop.", None, {}, False)


def test_a_message_without_fields_or_before_any_request_is_no_example_and_no_reply() -> None:
    assert parse_fields("{\n[[ ## a ## ]]\nx") == {"a": "x"}
    chat = read_chat(Request("any", (assistant(answer="early"), user(problem="x")), SYSTEM))
    assert [(turn.inputs, turn.reply) for turn in chat.turns] == [({"problem": "x"}, {})]
    unknown = read_chat(Request("any", (Message("user", (TextPart("hello"),)),))).turns
    assert [(turn.inputs, turn.is_example) for turn in unknown] == [({"request": "hello"}, False)]
