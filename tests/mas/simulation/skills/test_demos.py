"""The simulated model tells worked examples from the real conversation, in every style, and learns from them."""

import asyncio
from typing import Any

import dspy
import pytest
from dspy.adapters.types.tool import ToolCallResults
from dspy.lm15 import Request

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.react import Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.simulation.chat import Chat, ToolResult, Turn, read_chat
from mas.simulation.skills.demos import count_shown_skills
from mas.systems.gaia import nodes as signatures
from mas.systems.toy import program as toy
from tests.scripted_model import UNREADABLE, Answer, Call, ScriptedModel, answering, in_turn

STYLES = ["native", "text", "json native", "json text"]
of_each_style = pytest.mark.parametrize("style", STYLES)
FEEDBACK = "Use the following feedback to improve your answer:\nLook again."
CALL = Call("calculator", {"expression": "2 + 3"})


def calculator(expression: str) -> str:
    """Work it out."""
    return "5"


def called(index: int) -> dspy.ToolCalls:
    calls = dspy.ToolCalls(tool_calls=[{"id": f"call_{index}", "name": CALL.name, "args": CALL.args}])
    results = ToolCallResults.from_tool_calls_and_values(calls, ["5"])
    return calls.model_copy(update={"tool_call_results": results})


def solved(number: int, *more: dict[str, Any]) -> dspy.Example:
    first = {"expert_request": f"Example {number}.", "file": None, "tool_calls": called(number)}
    return dspy.Example(
        augmented=True,
        history=dspy.History(messages=[first, *more]),
        expert_answer=f"{number},000",
        reasoning_trace="seen",
    )


REJECTED: list[dict[str, Any]] = [
    {"expert_answer": "4", "reasoning_trace": "guessed", "tool_calls": dspy.ToolCalls(tool_calls=[])},
    {"expert_request": FEEDBACK, "file": None, "tool_calls": called(7)},
]


def asked(style: str, demos: list[dspy.Example], feedback: bool = False) -> list[Chat]:
    """The expert's requests as the model reads them: the real one, after a tool call, and after feedback."""
    answer: Answer = {"expert_answer": "9", "reasoning_trace": "done"}
    unread: list[Answer] = [UNREADABLE] if "json" in style else []
    model = ScriptedModel(
        answering(expert=in_turn(*unread, [CALL], *unread, answer, *unread, answer)), native_tools="native" in style
    )
    predictor = dspy.Predict(signatures.Solve)
    predictor.lm, predictor.demos = model.create_lm(AgentModel()), demos
    box = Toolbox({"calculator": dspy.Tool(calculator)})
    turns, _ = asyncio.run(react(predictor, {"expert_request": "The real one.", "file": "a.csv"}, [], box))
    if feedback:
        asyncio.run(react(predictor, {"expert_request": FEEDBACK, "file": "a.csv"}, turns, box))
    chats = [read_chat(request) for _, request in model.requests]
    return [chat for chat in chats if chat.wants_json] if unread else chats


@of_each_style
@pytest.mark.parametrize("feedback", [False, True], ids=["first request", "after feedback"])
def test_examples_are_demos_and_the_real_conversation_is_the_turns(style: str, feedback: bool) -> None:
    demos = [solved(1), solved(2, *REJECTED), solved(3)]
    chats = asked(style, demos, feedback)
    assert len(chats) == (3 if feedback else 2)
    for chat, bare in zip(chats, asked(style, [], feedback), strict=True):
        requests = [turn.inputs["expert_request"] for turn in chat.demos]
        assert requests == ["Example 1.", "Example 2.", FEEDBACK, "Example 3."]
        assert [turn.reply["expert_answer"] for turn in chat.demos] == ["1,000", "4", "2,000", "3,000"]
        assert [[(result.name, result.arguments, result.text) for result in turn.results] for turn in chat.demos] == [
            [("calculator", CALL.args, "5")]
        ] * 4
        assert (chat.turns, chat.decision_key, chat.tools) == (bare.turns, bare.decision_key, bare.tools)
        assert chat.first_request == "The real one." and chat.file == "a.csv"
        assert not bare.demos


@of_each_style
def test_results_of_the_examples_are_not_the_conversations(style: str) -> None:
    before, after = asked(style, [solved(1)])
    assert (len(before.results), len(after.results)) == (0, 1)


@of_each_style
def test_a_real_conversation_of_feedback_alone_begins_after_the_examples(style: str) -> None:
    """As it would look if the request that the feedback is about were gone."""
    model = ScriptedModel(
        answering(expert={"expert_answer": "9", "reasoning_trace": "done"}), native_tools="native" in style
    )
    predictor = dspy.Predict(signatures.Solve)
    predictor.lm, predictor.demos = model.create_lm(AgentModel()), [solved(1), solved(2, *REJECTED)]
    asyncio.run(react(predictor, {"expert_request": FEEDBACK, "file": None}, [], Toolbox()))
    chat = read_chat(model.requests[-1][1])
    assert [turn.inputs["expert_request"] for turn in chat.turns] == [FEEDBACK]
    assert len(chat.demos) == 3


@of_each_style
def test_what_the_examples_show_is_learnt(style: str) -> None:
    chat = asked(style, [solved(1), solved(2)])[0]
    assert count_shown_skills(chat)["use_the_calculator"] == 2
    assert count_shown_skills(asked(style, [])[0])["use_the_calculator"] == 0


@pytest.mark.parametrize("unread", [False, True], ids=["chat", "json"])
@pytest.mark.parametrize("earlier", [False, True], ids=["one turn", "two turns"])
def test_examples_of_the_planner_are_demos(unread: bool, earlier: bool) -> None:
    steps = {"research_steps": ["Look."], "expert_steps": ["Add."]}
    history = [{"request": "Plan an example.", "file": None, **steps}] if earlier else []
    demo = dspy.Example(request="Use the following feedback" if earlier else "Plan an example.", file=None,
                        history=dspy.History(messages=history), **steps)  # fmt: skip
    (chat,) = _chats(signatures.Plan, "planner", demo, steps, unread, request="Plan.", file=None,
                     history=dspy.History(messages=[]))  # fmt: skip
    assert [turn.inputs["request"] for turn in chat.turns] == ["Plan."]
    assert [turn.reply["expert_steps"] for turn in chat.demos] == ['["Add."]'] * (2 if earlier else 1)


@pytest.mark.parametrize("unread", [False, True], ids=["chat", "json"])
@pytest.mark.parametrize("file", [None, "a.csv"])
def test_examples_of_an_agent_without_a_history_are_demos(unread: bool, file: str | None) -> None:
    verdict = {"decision": "reject", "feedback": "No."}
    demo = dspy.Example(plan_to_review="Guess.", file=file, **verdict)
    (chat,) = _chats(signatures.ReviewPlan, "critic_planner", demo, verdict, unread, plan_to_review="Real.", file=None)
    assert [turn.inputs["plan_to_review"] for turn in chat.turns] == ["Real."]
    assert [turn.reply["decision"] for turn in chat.demos] == ["reject"]


def _chats(signature: Any, agent: str, demo: Any, answer: Any, unread: bool, **inputs: Any) -> list[Chat]:
    script: dict[str, Any] = {agent: in_turn(*([UNREADABLE] if unread else []), answer)}
    model = ScriptedModel(answering(**script))
    predictor = dspy.Predict(signature)
    predictor.lm, predictor.demos = model.create_lm(AgentModel()), [demo]
    with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)):
        predictor(**inputs)
    return [read_chat(model.requests[-1][1])]


def test_examples_of_the_toy_system_are_demos() -> None:
    demo = dspy.Example(problem_and_steps="P", working="2 + 3 = 5", result="5")
    messages = dspy.ChatAdapter().format(toy.Solve, [demo, demo], {"problem_and_steps": "Q"})
    chat = read_chat(_request(messages))
    assert [turn.inputs["problem_and_steps"] for turn in chat.demos] == ["P", "P"]
    assert [turn.inputs["problem_and_steps"] for turn in chat.turns] == ["Q"]


def _request(messages: list[dict[str, Any]]) -> Request:
    from dspy.lm15 import Config, Message

    make = {"user": Message.user, "assistant": Message.assistant}
    told = tuple(make[each["role"]](each["content"]) for each in messages[1:])
    return Request("offline/simulated", told, system=messages[0]["content"], config=Config())


FORMAT = "keep_to_the_output_format"
FEW, UNITS, PLAIN = "answer_with_few_words_no_prose", "leave_out_units_unless_asked", "no_thousands_separators"
ROUNDED, LISTED = "follow_the_rounding_asked_for", "comma_separated_list_in_the_asked_order"
SHORT, FIRST, TOOLS = "keep_the_plan_short_and_complete", "read_the_attached_file_first", "use_tools_not_memory"


def shown(reply: dict[str, str], question: str = "How many?", called: tuple[str, ...] = ()) -> dict[str, float]:
    demo = Turn({"request": question}, [ToolResult(name, {}, "5") for name in called], reply)
    return dict(count_shown_skills(Chat(None, {}, False, frozenset(), False, (Turn({}),), "", (demo,), None)))


@pytest.mark.parametrize(
    ("question", "answer", "skills"),
    [
        ("Who?", "Ada", {FEW: 1}),
        ("Who?", "It is Ada Lovelace of Kent", {FEW: -1}),
        ("Who?", "It is Ada Lovelace", {FEW: 1}),  # four words are few
        ("Who?", "Ada Lovelace of Kent herself", {FEW: 1}),
        ("How many?", "12", {FEW: 1, UNITS: 1}),
        ("How many?", "12 boxes", {FEW: 1, UNITS: -1}),
        ("How many? State the unit.", "12 boxes", {FEW: 1}),
        ("How many?", "-1234.5", {FEW: 1, UNITS: 1, PLAIN: 1}),
        ("How many?", "1,234", {FEW: 1, UNITS: 1, PLAIN: -1}),
        ("How many?", "1 234", {FEW: 1, UNITS: 1, PLAIN: -1}),
        ("How many?", "123", {FEW: 1, UNITS: 1}),
        ("How many, rounded?", "1.5", {FEW: 1, UNITS: 1, ROUNDED: 1}),
        ("How many decimals?", "1.123", {FEW: 1, UNITS: 1, ROUNDED: 1}),
        ("How many, rounded?", "1.12345", {FEW: 1, UNITS: 1, PLAIN: 1, ROUNDED: -1}),
        ("How many, rounded?", "2", {FEW: 1, UNITS: 1}),
        ("How many?", "1.5", {FEW: 1, UNITS: 1}),
        ("List the names.", "Ada, Bo", {FEW: 1, LISTED: 1}),
        ("List the names.", "Ada, Bo and Cy", {FEW: 1, LISTED: -1}),
        ("List the names.", "Ada", {FEW: 1}),
        ("Who?", "Ada, Bo", {FEW: 1}),
        ("Who?", " ", {}),
    ],
)
def test_an_answer_shows_its_form(question: str, answer: str, skills: dict[str, float]) -> None:
    assert shown({"final_answer": answer}, question) == {FORMAT: 1, **skills}


@pytest.mark.parametrize(
    ("reply", "called", "skills"),
    [
        ({"result": "Found in a.csv: 12"}, (), {"quote_exact_values": 1}),
        ({"result": "Found in a.csv: about 12"}, (), {"quote_exact_values": -1}),
        ({"result": "Nothing."}, (), {}),
        ({"x": "1"}, ("calculator",), {"use_the_calculator": 1}),
        ({"tool_calls": "calculator(2 + 3)"}, (), {"use_the_calculator": 1}),
        ({"working": "2 + 3 = 5"}, (), {"use_the_calculator": 1}),
        ({"working": "It is 5."}, (), {}),
        ({"x": "1"}, ("unit_converter",), {"convert_units_with_the_tool": 1}),
        ({"x": "1"}, ("read_file",), {FIRST: 1, TOOLS: 1}),
        ({"x": "1"}, ("read_file", "unit_converter"), {FIRST: 1, TOOLS: 1, "convert_units_with_the_tool": 1}),
        ({"research_steps": "Read the file.", "expert_steps": "Mind the form."}, (), {SHORT: 1, FIRST: 1}),
        ({"research_steps": "Look.", "expert_steps": "Work."}, (), {SHORT: 0, FIRST: 0}),
        ({"steps": "form"}, (), {SHORT: 1, FIRST: 0}),
        ({"steps": "form".ljust(899, ".")}, (), {SHORT: 1, FIRST: 0}),
        ({"steps": "form".ljust(900, ".")}, (), {SHORT: 0, FIRST: 0}),
        ({"research_steps": "Read the file."}, ("read_file",), {SHORT: 0, FIRST: 2, TOOLS: 1}),
        ({"decision": "approve"}, (), {"reject_only_real_faults": 1}),
        ({"decision": "reject"}, (), {"recompute_before_approving": 1}),
    ],
)
def test_work_shows_its_skills(reply: dict[str, str], called: tuple[str, ...], skills: dict[str, float]) -> None:
    assert shown(reply, called=called) == {FORMAT: 1, **skills}


def test_skills_are_added_up_over_all_demos_with_a_reply() -> None:
    demos = tuple(Turn({"request": "?"}, reply={"final_answer": each}) for each in ("12", "1,234", "Ada"))
    chat = Chat(
        None, {}, False, frozenset(), False, (Turn({}),), "", (*demos[:1], Turn({"request": "?"}), *demos[1:]), None
    )
    assert dict(count_shown_skills(chat)) == {FORMAT: 3, FEW: 3, UNITS: 2, PLAIN: -1}
