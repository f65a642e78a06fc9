"""The expert's calls, answers and reasons, and the mistakes of one who forgets a skill."""

from typing import Any

import pytest

from mas.simulation.chat import Reply, ToolResult
from mas.simulation.roles.expert import compute_expected_answer, give_answer, solve_task, split_request
from mas.simulation.skills.mistakes import invent_value
from mas.simulation.solving.material import NOTHING_FOUND
from tests.mas.simulation.roles.scripted import read, scripted

SHOP = "item | stock\nPen | 40\nInk | 12\nNib | 90"
SUM, TURN, MILES = "What is 17 * 23?", "Reverse the word 'lantern'.", "How many miles are 10 km? Round to one decimal."
MULTIPLY = Reply(calls=[("calculator", {"expression": "17 * 23"})])
CONVERT = Reply(calls=[("unit_converter", {"quantity": "10 km", "to_unit": "miles"})])
STATED, COUNTED, CONVERTED = "A sum stated in the question.", "Counted letter by letter.", "A conversion of units."
TOOLS = ("calculator", "unit_converter")
LIST = "List the items with a stock over 30, in alphabetical order."
CELL = "Read from the row that fits the question."


def solve(
    question: str, *forgotten: str, material: str = "", results: tuple[ToolResult, ...] = (), tools: Any = TOOLS
) -> Reply | tuple[str, str]:
    chat = read("expert", {"expert_request": question}, tools=tools, results=results)
    return solve_task(question, material, chat, scripted(question, *forgotten))


def result(text: str, name: str = "calculator") -> ToolResult:
    return ToolResult(name, {}, text)


@pytest.mark.parametrize(
    ("question", "forgotten", "worked"),
    [
        (SUM, (), MULTIPLY),
        (MILES, (), CONVERT),
        (TURN, (), ("nretnal", COUNTED)),
        ("Who won?", (), ("unknown", "The research results do not show the answer.")),
        (SUM, ("use_tools_not_memory",), (invent_value(SUM), "This is known by heart.")),
        (TURN, ("use_tools_not_memory",), ("nretnal", COUNTED)),
        (SUM, ("use_the_calculator",), ("401", STATED)),
        (SUM, ("convert_units_with_the_tool",), MULTIPLY),
        (MILES, ("convert_units_with_the_tool",), ("unknown", CONVERTED)),
        (MILES, ("use_the_calculator",), CONVERT),
        (TURN, ("check_the_right_row_and_column",), ("rnetnal", COUNTED)),
        (SUM, ("check_the_right_row_and_column",), MULTIPLY),
    ],
)
def test_a_tool_is_called_for_sums_and_conversions_unless_a_skill_is_forgotten(
    question: str, forgotten: tuple[str, ...], worked: Reply | tuple[str, str]
) -> None:
    assert solve(question, *forgotten) == worked


def test_without_tools_a_sum_is_worked_out_in_the_head() -> None:
    assert solve(SUM, tools=()) == solve(SUM, "use_tools_not_memory", tools=()) == ("391", STATED)
    assert solve(SUM, "use_the_calculator", tools=()) == ("401", STATED)


@pytest.mark.parametrize(
    ("question", "forgotten", "results", "worked"),
    [
        (SUM, (), [result("391")], ("391", STATED)),
        (SUM, ("use_the_calculator",), [result("391")], ("391", STATED)),
        (SUM, (), [result("391 exactly"), result("5")], ("391", STATED)),
        (SUM, (), [result("calculator failed: busy")], ("391", STATED)),
        (SUM, (), [result("No more tool calls are allowed.", "unit_converter")], ("391", STATED)),
        (SUM, (), [result("7", "unit_converter")], MULTIPLY),
        (MILES, (), [result("6.2137 mile", "unit_converter")], ("6.2", CONVERTED)),
        (MILES, ("follow_the_rounding_asked_for",), [result("6.2137 mile", "unit_converter")], ("6.2137", CONVERTED)),
        (MILES, (), [result("unit_converter failed: no", "unit_converter")], ("unknown", CONVERTED)),
    ],
)
def test_a_tools_result_is_taken_and_rounded(
    question: str, forgotten: tuple[str, ...], results: list[ToolResult], worked: Reply | tuple[str, str]
) -> None:
    assert solve(question, *forgotten, results=tuple(results)) == worked


@pytest.mark.parametrize(
    ("question", "forgotten", "worked"),
    [
        ("What is the stock of Ink?", (), ("12", CELL)),
        ("What is the stock of Ink?", ("check_the_right_row_and_column",), ("Ink", CELL)),
        (LIST, (), ("Nib, Pen", "2 rows fit the condition.")),
        (LIST, ("comma_separated_list_in_the_asked_order",), ("Pen, Nib", "2 rows fit the condition.")),
        ("What is the stock of Ink?", ("comma_separated_list_in_the_asked_order",), ("12", CELL)),
    ],
)
def test_the_findings_are_read_and_misread(question: str, forgotten: tuple[str, ...], worked: tuple[str, str]) -> None:
    assert solve(question, *forgotten, material=SHOP) == worked


def request(question: str, material: str = "(none)", steps: str = "1. Work it out in the form asked for.") -> str:
    return (
        f"Answer the following question.\n\nThe question:\n{question}\n\nThe research results:\n{material}"
        f"\n\nThe steps to follow:\n{steps}"
    )


def give(text: str, *forgotten: str, question: str, again: bool = False) -> Reply:
    later = [{"expert_request": "Use the following feedback: no."}] if again else []
    chat = read("expert", {"expert_request": text}, *later)
    return give_answer(chat, scripted(question, *forgotten))


BOXES = "How many boxes are 17 * 23?"


@pytest.mark.parametrize(
    ("question", "forgotten", "value"),
    [
        (BOXES, (), "391"),
        (BOXES, ("leave_out_units_unless_asked",), "391 boxes"),
        (f"{BOXES} State the unit.", (), "391 boxes"),
        (f"{BOXES} State the unit.", ("leave_out_units_unless_asked",), "391 boxes"),
        (f"{BOXES} List it with its unit.", ("leave_out_units_unless_asked",), "391"),
        (TURN, ("leave_out_units_unless_asked",), "nretnal"),
    ],
)
def test_an_answer_has_its_unit_if_that_is_asked_for(question: str, forgotten: tuple[str, ...], value: str) -> None:
    why = COUNTED if question == TURN else STATED
    said = Reply({"expert_answer": value, "reasoning_trace": f"{why} The answer is {value}."})
    assert give(request(question), *forgotten, question=question) == said


def test_an_answer_that_is_given_again_says_so_and_a_call_is_passed_on() -> None:
    trace = "Counted letter by letter. (done again, revision 1) The answer is nretnal."
    assert give(request(TURN), question=TURN, again=True).fields == {
        "expert_answer": "nretnal",
        "reasoning_trace": trace,
    }
    chat = read("expert", {"expert_request": request(SUM)}, tools=["calculator"])
    assert give_answer(chat, scripted(SUM)) == MULTIPLY


@pytest.mark.parametrize(("steps", "handicap"), [("1. Work it out.", 0.8), ("1. Mind the form.", 0.0), ("", 0.0)])
def test_the_form_is_easier_to_forget_if_the_steps_do_not_mention_it(steps: str, handicap: float) -> None:
    behaviour = scripted(LIST)
    give_answer(read("expert", {"expert_request": request(LIST, SHOP, steps)}), behaviour)
    assert behaviour.asked["follow_the_rounding_asked_for"] == [handicap]
    assert behaviour.asked["comma_separated_list_in_the_asked_order"] == [handicap]
    assert behaviour.asked["check_the_right_row_and_column"] == [0.0]
    give_answer(read("expert", {"expert_request": request(TURN, steps=steps)}), behaviour)
    assert behaviour.asked["leave_out_units_unless_asked"] == [0.8]


@pytest.mark.parametrize(
    ("material", "read_as"),
    [
        (SHOP, SHOP),
        ("(none)", ""),
        ("No source is needed: the question can be answered from its own text.", ""),
        (f"1. {NOTHING_FOUND} It rained.\n2. Ink | 9", "2. Ink | 9"),
        (f"1. Ink | 9\n2. {NOTHING_FOUND} It rained.", "1. Ink | 9"),
        (f"1. {NOTHING_FOUND} It rained.", f"1. {NOTHING_FOUND} It rained."),
    ],
)
def test_results_that_found_nothing_are_left_out_if_others_found_something(material: str, read_as: str) -> None:
    assert split_request(request(SUM, material)) == (SUM, read_as)


def test_the_expected_answer_is_the_correct_one() -> None:
    assert compute_expected_answer("What is the stock of Ink?", SHOP) == "12"
    assert compute_expected_answer(SUM, "") == "391"
    assert compute_expected_answer("Who won?", "") == "unknown"
