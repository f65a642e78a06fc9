"""The toy system's three steps: problems of each kind worked out from their text."""

import pytest

from mas.simulation.skills.mistakes import calculate_exactly, calculate_mentally
from mas.simulation.solving.self_contained import Finding
from mas.simulation.solving.shop import solve_shop_problem

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
