"""The toy system's three steps: problems of each kind worked out from their text."""

import pytest

from mas.simulation.chat import Reply
from mas.simulation.roles import toy
from mas.simulation.skills.mistakes import calculate_exactly, calculate_mentally
from mas.simulation.solving.self_contained import Finding
from mas.simulation.solving.shop import solve_shop_problem
from tests.mas.simulation.roles.scripted import read, scripted

PROBLEMS = (
    ("The prices in Velmor's shop are ropes: 14 crowns each; kettles: 3 crowns each. Ada buys 2 ropes and 5 kettles. "
     "How many crowns does Ada pay? Give only the number.", "43"),
    ("Ada buys 3 ropes at 2.50 crowns each and pays with 50 crowns. How much change does Ada get? Give the number of "
     "crowns with two decimal places.", "42.50"),
    ("A stove in Bo's shop costs 200 crowns. Its price is cut by 10 percent. A month later the new price is cut by "
     "another 5 percent. What does it cost in the end, in crowns? Round to two decimal places.", "171.00"),
    ("Ada has 5 kilograms of flour and uses 250 grams a day for 4 days. How many grams of flour are left? Answer with "
     "the number, without the unit.", "4000"),
    ("The ropes sold in a week: Ada 12, Bo 40 and Cy 7. Give the names from the fewest to the most, separated by "
     "commas.", "Cy, Ada, Bo"),
    ("The ropes sold in a week: Ada 12, Cy 40 and Bo 17. Who sold more than 12? Give the names in alphabetical order, "
     "separated by commas.", "Bo, Cy"),
    ("The stalls of Mor sold these numbers of ropes: 4, 9, 12, 30. How many of the stalls sold at least 9 and at most "
     "12? Give only the number.", "2"),
    ("Ada earns 20 crowns a day and works for 5 days. Ada then spends 40 crowns. The rest is shared equally among 4 "
     "people, Bo being one of them. How many crowns does Bo get? Round to two decimal places.", "15.00"),
)  # fmt: skip


@pytest.mark.parametrize(("problem", "answer"), PROBLEMS)
def test_problems_are_solved(problem: str, answer: str) -> None:
    finding = solve_shop_problem(problem)

    assert finding is not None
    assert calculate_exactly(finding) == answer


@pytest.mark.parametrize(("problem", "answer"), PROBLEMS)
def test_a_slip_gives_another_answer(problem: str, answer: str) -> None:
    finding = solve_shop_problem(problem, misreads=True)

    assert finding is not None
    assert calculate_exactly(finding) != answer


@pytest.mark.parametrize(
    ("expression", "value"), [("7 + 8", "15"), ("17 * 23", "401"), ("1234 + 4321", "5655"), ("2 * 3.5", "9")]
)
def test_sums_in_the_head_go_wrong_unless_they_are_small(expression: str, value: str) -> None:
    assert calculate_mentally(Finding(expression=expression)) == value


def test_conversions_in_the_head_are_rough() -> None:
    assert calculate_mentally(Finding(conversion=("10 miles", "kilometres"), decimals=2)) == "16.00"


CHANGE = (
    "Ada buys 3 ropes at 2.50 crowns each and pays with 50 crowns. How many crowns are left? Round to two decimals."
)
WEEK = "Boats sold in a week: Ada 4, Bo 9, Cy 6. Give the names from the most to the fewest."
FLOUR = "A cook has 5 kilograms of flour and uses 300 grams a day for 4 days. How much is left in kilograms?"
PAID, ORDER = "What was paid less what it costs.", "3 names, in the order asked for."
ROUNDS, UNITS = "follow_the_rounding_asked_for", "leave_out_units_unless_asked"
LISTS, ROW = "comma_separated_list_in_the_asked_order", "check_the_right_row_and_column"
TALKS = "answer_with_few_words_no_prose"


@pytest.mark.parametrize(
    ("question", "forgotten", "working", "result"),
    [
        (CHANGE, (), f"{PAID} 50 - (3 * 2.50) = 42.50", "42.50"),
        (CHANGE, (ROUNDS,), f"{PAID} 50 - (3 * 2.50) = 42.5", "42.5"),
        (CHANGE, (UNITS,), f"{PAID} 50 - (3 * 2.50) = 42.50 crowns", "42.50 crowns"),
        (CHANGE, (LISTS,), f"{PAID} 50 - (3 * 2.50) = 42.50", "42.50"),
        (CHANGE, ("use_the_calculator",), f"{PAID} 50 - (3 * 2.50) = 43.50", "43.50"),
        (CHANGE, ("convert_units_with_the_tool",), f"{PAID} 50 - (3 * 2.50) = 42.50", "42.50"),
        (CHANGE, (ROW,), "What was paid less the price. 50 - 2.50 = 47.50", "47.50"),
        (WEEK, (), f"{ORDER}  = Bo, Cy, Ada", "Bo, Cy, Ada"),
        (WEEK, (LISTS,), f"{ORDER}  = Ada, Cy, Bo", "Ada, Cy, Bo"),
        (WEEK, (UNITS, "use_the_calculator"), f"{ORDER}  = Bo, Cy, Ada", "Bo, Cy, Ada"),
        (FLOUR, (), "All in one unit, then taken away. (5 * 1000 - 300 * 4) / 1000 = 3.8", "3.8"),
        (FLOUR, ("convert_units_with_the_tool",),
         "All in one unit, then taken away. (5 * 1000 - 300 * 4) / 1000 = -7", "-7"),
        ("Who won?", (), "The problem is of no kind that I know.", "unknown"),
    ],
)  # fmt: skip
def test_a_problem_is_worked_out_and_each_forgotten_skill_makes_another_result(
    question: str, forgotten: tuple[str, ...], working: str, result: str
) -> None:
    asked = read("toy_solve", {"problem_and_steps": f"PROBLEM:\n{question}\n\nSTEPS:\n1. Mind the form."})
    assert toy.solve(asked, scripted(question, *forgotten)) == Reply({"working": working, "result": result})
    assert toy.work(read("toy_work", {"problem": question}), scripted(question, *forgotten)) == Reply(
        {"working": working}
    )


@pytest.mark.parametrize(("step", "handicap"), [("Mind the form.", 0.0), ("Work it out.", 0.5)])
def test_the_form_is_easier_to_forget_if_no_step_mentions_it(step: str, handicap: float) -> None:
    for question, form in ((CHANGE, UNITS), (WEEK, LISTS)):
        behaviour = scripted(question)
        text = f"PROBLEM:\n{question} (form)\n\nSTEPS:\n1. {step}"
        toy.solve(read("toy_solve", {"problem_and_steps": text}), behaviour)
        assert [behaviour.asked[skill] for skill in (ROW, ROUNDS, form)] == [[handicap]] * 3
        toy.work(read("toy_work", {"problem": question}), behaviour)
        assert behaviour.asked[ROW] == [handicap, 0.0]


@pytest.mark.parametrize(
    ("forgotten", "picked", "more"),
    [
        ((), 0, ["Give the result in the form that is asked for."]),
        (("keep_the_plan_short_and_complete",), 0, []),
        (("keep_the_plan_short_and_complete",), 1,
         ["Think about what else could matter.", "Estimate the result.", "Compare it with other shops.", "Sum up."]),
    ],
)  # fmt: skip
def test_a_plan_is_short_and_complete_or_too_short_or_too_long(
    forgotten: tuple[str, ...], picked: int, more: list[str]
) -> None:
    behaviour = scripted(CHANGE, *forgotten, picked=picked)
    steps = [
        "Note every number with what it stands for.",
        "Do the calculation or comparison that the problem asks for.",
    ]
    assert toy.plan(read("toy_plan", {"problem": CHANGE}), behaviour) == Reply({"steps": [*steps, *more]})
    assert behaviour.kinds == ({"plan": 2} if forgotten else {})


@pytest.mark.parametrize(
    ("text", "answer", "trace"),
    [
        ("PROBLEM:\n?\n\nWORKING:\nI looked.\n\nagain\n\nRESULT:\n42.5", "42.50", "I looked.\n\nagain"),
        ("PROBLEM:\n?\n\nRESULT:\n 7 ", "7.00", "There was no working to report."),
        ("PROBLEM:\n?", "unknown", "There was no working to report."),
    ],
)
def test_a_result_is_finalized_in_the_form_asked_for(text: str, answer: str, trace: str) -> None:
    chat = read("toy_finalize", {"result_to_finalize": text})
    assert toy.finalize(chat, scripted(CHANGE)) == Reply({"final_answer": answer, "final_reasoning_trace": trace})
    assert toy.finalize(chat, scripted(CHANGE, TALKS)).fields["final_answer"] == (
        f"Based on the research, the final answer is {answer}."
    )


@pytest.mark.parametrize(
    ("working", "answer"),
    [("2 + 2 = 4, so 8 = 42.5", "42.50"), ("It is 7", "It is 7"), ("", "unknown"), (" = ", "unknown")],
)
def test_the_conclusion_is_what_follows_the_last_sign_of_equality(working: str, answer: str) -> None:
    chat, behaviour = read("toy_conclude", {"problem": CHANGE, "working": working}), scripted(CHANGE)
    assert toy.conclude(chat, behaviour) == Reply({"answer": answer})
    assert behaviour.asked[TALKS][0] == 2.5
    given = working.rpartition(" = ")[2].strip() or "unknown"
    assert toy.conclude(chat, scripted(CHANGE, TALKS)) == Reply(
        {"answer": f"From the working it follows that the answer is {given}."}
    )


def test_the_text_under_a_heading_ends_at_the_next_one() -> None:
    text = "PROBLEM:\nOne.\n\nTwo.\n\nSTEPS:\n1. Go."
    assert [toy.extract_heading(text, name) for name in ("PROBLEM", "STEPS", "RESULT")] == [
        "One.\n\nTwo.",
        "1. Go.",
        "",
    ]
