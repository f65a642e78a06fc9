"""Short problems about shops: the calculation of a careful reader, and of one who misreads."""

import pytest

from mas.simulation.solving.shop import solve_shop_problem

ORDER = "Prices: ropes: 2.50 crowns each, nets: 4 crowns each. Bo buys 3 ropes and 2 nets. What does Bo pay?"
CHANGE = "Ada buys 3 ropes at 2.50 crowns each and 2 nets at 4 crowns each and pays with 50 crowns. How much change?"
ONE = "Ada buys 3 ropes at 2.50 crowns each and hands over 50 crowns. How much change does Ada get?"
CUTS = "A sail costs 80 crowns. It is cut by 10 percent, then cut by another 5 percent. Delivery costs 6 crowns."
STOCK = "A cook has 5 kilograms of flour and uses 300 grams a day for 4 days. Then 2 kilograms are delivered."
WEEK = "Boats sold in a week: Ada 4, Bo 9, Cy 6. "
STALLS = "Stalls sold these numbers of nets: 3, 5, 6, 8, 10. How many stalls sold "
WAGES = "Ada earns 20 crowns a day and works for 6 days. Ada spends 30 crowns. "


@pytest.mark.parametrize(
    ("problem", "careful", "careless"),
    [
        (ORDER, "3 * 2.50 + 2 * 4", "3 * 4 + 2 * 4"),
        (CHANGE, "50 - (3 * 2.50 + 2 * 4)", "50 - (3 * 2.50)"),
        (ONE, "50 - (3 * 2.50)", "50 - 2.50"),
        (CUTS, "80 * (1 - 10 / 100) * (1 - 5 / 100) + 6", "80 * (1 - 10 / 100) + 6"),
        ("A sail costs 80 crowns and is cut by 10 percent.", "80 * (1 - 10 / 100)", "80 * 10 / 100"),
        (f"{STOCK} How many grams of flour are left?", "5 * 1000 - 300 * 4 + 2 * 1000", "5 * 1000 - 300 * 4"),
        (f"{STOCK} How much is left in kilograms?", "(5 * 1000 - 300 * 4 + 2 * 1000) / 1000",
         "(5 * 1000 - 300 * 4) / 1000"),
        ("A cook has 5 litres of oil and uses 30 millilitres a day for 4 days. How much is left in millilitres?",
         "5 * 1000 - 30 * 4", "5 * 1000 - 30 * 1"),
        (f"{WAGES}How much is left?", "20 * 6 - 30", "20 * 6"),
        (f"{WAGES}On 2 of these days there is a bonus of 5 crowns. The rest is shared equally among 4 people.",
         "(20 * 6 + 2 * 5 - 30) / 4", "(20 * 6 - 30) / 4"),
    ],
)  # fmt: skip
def test_the_calculation_of_a_problem(problem: str, careful: str, careless: str) -> None:
    read, misread = solve_shop_problem(problem), solve_shop_problem(problem, misreads=True)
    assert read is not None and misread is not None
    assert (read.expression, misread.expression) == (careful, careless)


@pytest.mark.parametrize(
    ("problem", "careful", "careless"),
    [
        (f"{WEEK}Rank them from the most to the fewest.", "Bo, Cy, Ada", "Ada, Cy, Bo"),
        (f"{WEEK}Rank them from the fewest.", "Ada, Cy, Bo", "Bo, Cy, Ada"),
        (f"{WEEK}Who sold more than 4?", "Bo, Cy", "Ada, Bo, Cy"),
        (f"{STALLS}more than 5?", "3", "4"),
        (f"{STALLS}at least 5?", "4", "3"),
        (f"{STALLS}fewer than 6?", "2", "3"),
        (f"{STALLS}at most 6?", "3", "3"),
        (f"{STALLS}at least 5 and at most 8?", "3", "2"),
        (f"{STALLS}more than 3 and fewer than 8?", "2", "3"),
    ],
)
def test_the_answer_of_a_problem(problem: str, careful: str, careless: str) -> None:
    read, misread = solve_shop_problem(problem), solve_shop_problem(problem, misreads=True)
    assert read is not None and misread is not None
    assert (read.answer, misread.answer) == (careful, careless)


def test_decimals_are_those_that_the_problem_asks_for() -> None:
    found = solve_shop_problem(f"{ONE} Round to two decimal places.")
    assert found is not None and found.decimals == 2


@pytest.mark.parametrize(
    "problem",
    ["", "Ropes: 2 crowns each.", "It costs 5 crowns.", "Ada earns 20 crowns a day and works for 6 days.",
     "Nets: 3 at 2 crowns each.", "A cook has 5 sacks of flour and uses 3 sacks a day for 4 days."],
)  # fmt: skip
def test_a_problem_without_all_its_numbers_is_not_solved(problem: str) -> None:
    assert solve_shop_problem(problem) is None


@pytest.mark.parametrize(
    "problem",
    ["Ada buys 3 ropes at 2.50 crowns each.", "Ada pays with 50 crowns.", "A sail costs 80 crowns.",
     "It is cut by 10 percent.", "Ada earns 20 crowns a day.", "Ada spends 30 crowns.",
     "Prices: ropes: 2 crowns each."],
)  # fmt: skip
def test_half_of_a_problem_is_not_solved(problem: str) -> None:
    assert solve_shop_problem(problem) is None


@pytest.mark.parametrize(
    ("question", "careful", "careless"),
    [("more than 4?", "1", "2"), ("more than 5?", "1", "1"), ("fewer than 5?", "0", "1"), ("fewer than 4?", "0", "0"),
     ("fewer than 6?", "1", "1"), ("fewer than 7?", "1", "2"), ("at least 5?", "2", "1")],
)  # fmt: skip
def test_a_careless_reader_counts_the_limit_itself_and_nothing_else(question: str, careful: str, careless: str) -> None:
    problem = f"Stalls sold these numbers of nets: {'4, 6' if 'more' in question else '5, 7'}. How many sold {question}"
    read, misread = solve_shop_problem(problem), solve_shop_problem(problem, misreads=True)
    assert read is not None and misread is not None
    assert (read.answer, misread.answer) == (careful, careless)


def test_a_sum_that_is_stated_otherwise_is_worked_out_as_any_question() -> None:
    found = solve_shop_problem("What is 15% of 80?")
    assert found is not None and found.expression == "80 * 15 / 100"


def test_a_ranking_reads_the_sentence_of_sales_alone() -> None:
    found = solve_shop_problem("In May 2021 boats sold in a week: Ada 4, Bo 9. Rank them from the most.")
    assert found is not None and (found.answer, found.why) == ("Bo, Ada", "2 names, in the order asked for.")


@pytest.mark.parametrize(
    ("problem", "careful", "careless"),
    [
        (ORDER, "Amounts times prices, added up.", "Amounts times prices, added up."),
        (CHANGE, "What was paid less what it costs.", "What was paid less what it costs."),
        (ONE, "What was paid less what it costs.", "What was paid less the price."),
        (CUTS, "Each cut is taken from what the last one left.", "Each cut is taken from what the last one left."),
        ("A sail costs 80 crowns and is cut by 10 percent.", "Each cut is taken from what the last one left.",
         "The share of the price."),
        (f"{STOCK} How many grams of flour are left?", "All in one unit, then taken away.",
         "All in one unit, then taken away."),
        (f"{WEEK}Who sold more than 4?", "2 names, in the order asked for.", "3 names, in the order asked for."),
        (f"{STALLS}more than 5?", "3 of them fit.", "4 of them fit."),
        (f"{WAGES}How much is left?", "Earned, less spent.", "Earned, less spent."),
    ],
)  # fmt: skip
def test_the_reason_of_a_solution_is_that_of_its_kind(problem: str, careful: str, careless: str) -> None:
    for misreads, why in ((False, careful), (True, careless)):
        found = solve_shop_problem(f"{problem} Round to two decimal places.", misreads)
        assert found is not None
        assert found.why == why
        assert found.decimals == (2 if found.expression else None)


@pytest.mark.parametrize(
    ("problem", "careful", "careless"),
    [
        # Only the second is bought: a careless reader takes the price after it, which is the first one again.
        ("Prices: ropes: 3 crowns each, nets: 4 crowns each. Bo buys 2 nets.", "2 * 4", "2 * 3"),
        ("Prices: ropes: 3 crowns each. Bo buys 2 ropes.", "2 * 3", "2 * 3"),
        ("Prices: ropes: 3 crowns each, nets: 4 crowns each, sails: 5 crowns each. Bo buys 2 nets and 7 sails.",
         "2 * 4 + 7 * 5", "2 * 5 + 7 * 5"),
        ("Ada buys 1 rope at 2 crowns each, 2 nets at 3 crowns each and 3 sails at 4 crowns each and pays with 50 "
         "crowns.", "50 - (1 * 2 + 2 * 3 + 3 * 4)", "50 - (1 * 2 + 2 * 3)"),
        ("A cook has 5 metres of cloth and uses 30 centimetres a day for 4 days. How much is left in centimetres?",
         "5 * 100 - 30 * 4", "5 * 100 - 30 * 1"),
        ("A cook has 5 kilometres of wire and uses 30 metres a day for 4 days. How many kilometres of wire are left?",
         "(5 * 1000 - 30 * 4) / 1000", "(5 * 1000 - 30 * 1) / 1000"),
        ("A cook has 5 metres of cloth and uses 30 centimetres a day for 4 days.",
         "(5 * 100 - 30 * 4) / 100", "(5 * 100 - 30 * 1) / 100"),
        (f"{WAGES}The rest is shared equally among 4 people.", "(20 * 6 - 30) / 4", "(20 * 6) / 4"),
        (f"{WAGES}On 2 of these days there is a bonus of 5 crowns.", "20 * 6 + 2 * 5 - 30", "20 * 6 - 30"),
        ("A sail costs 80 crowns. It is cut by 10 percent. Delivery costs 6 crowns.",
         "80 * (1 - 10 / 100) + 6", "80 * 10 / 100"),
    ],
)  # fmt: skip
def test_every_number_of_a_problem_has_its_place(problem: str, careful: str, careless: str) -> None:
    read, misread = solve_shop_problem(problem), solve_shop_problem(problem, misreads=True)
    assert read is not None and misread is not None
    assert (read.expression, misread.expression) == (careful, careless)
