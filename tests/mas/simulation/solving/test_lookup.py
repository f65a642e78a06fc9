"""Questions about tables, each with the answer that a careful reader gives, and the one of a reader who misreads."""

import pytest

from mas.simulation.solving.lookup import look_up
from mas.simulation.solving.tables import Table, read_tables

HARBOURS = """Harbour | Founded | Depth | Boats | Ferry
Velmor | 1820 | 12 | 40 | yes
Ostend | 1790 | 9 | 55 | no
Quay | 1905 | 12.5 | 31 | yes
Brill | 1850 | 7 | 40 | no"""
CREW = """Name | Age | Rank
Ada | 41 | cook
Bo | 35 | mate
Cy | 60 | captain"""
STOCK = """Sheet: Ropes
Item | Price
Rope | 4
Knot | 9

Sheet: Sails
Item | Price
Sail | 30
Jib | 12"""
CELLS = """Sheet: Stock
row | A | B
1 | Item | Count
2 | Pen | 12
3 | Ink | 7"""


def tables(text: str) -> list[Table]:
    return read_tables(text)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("What is the depth of Velmor?", HARBOURS, "12"),
        ("How many boats does Quay have?", HARBOURS, "31"),
        ("Which harbour has the most boats?", HARBOURS, "Ostend"),
        ("Which harbour has the fewest boats?", HARBOURS, "Quay"),
        ("What is the highest depth?", HARBOURS, "12.5"),
        ("Which harbour is the oldest?", HARBOURS, "Ostend"),
        ("Which harbour is the youngest?", HARBOURS, "Quay"),
        ("Who is the oldest?", CREW, "Cy"),
        ("Who is the youngest?", CREW, "Bo"),
        ("What is the rank of the oldest?", CREW, "captain"),
        ("List the harbours with more than 40 boats.", HARBOURS, "Ostend"),
        ("List the harbours with at least 40 boats.", HARBOURS, "Velmor, Ostend, Brill"),
        ("List the harbours with at most 40 boats.", HARBOURS, "Velmor, Quay, Brill"),
        ("List the harbours with fewer than 40 boats.", HARBOURS, "Quay"),
        ("List the harbours with exactly 40 boats in alphabetical order.", HARBOURS, "Brill, Velmor"),
        ("How many harbours have more than 31 boats?", HARBOURS, "3"),
        ("How many harbours have a depth of at least 12?", HARBOURS, "2"),
        ("Which harbours have a ferry?", HARBOURS, "Velmor, Quay"),
        ("Which harbours are without a ferry?", HARBOURS, "Ostend, Brill"),
        ("List all harbours without a ferry and more than 40 boats.", HARBOURS, "Ostend"),
        ("How many rows are there in the list of harbours?", HARBOURS, "4"),
        ("What is in cell B3?", CELLS, "7"),
        ("What is the price of the jib on the sheet Sails?", STOCK, "12"),
        ("What is the highest price on the sheet Ropes?", STOCK, "9"),
    ],
)
def test_a_question_about_a_table_is_answered(question: str, text: str, answer: str) -> None:
    found = look_up(question, tables(text))
    assert found is not None and found.answer == answer


@pytest.mark.parametrize(
    ("question", "text", "expression", "decimals"),
    [
        ("What is the total number of boats?", HARBOURS, "40 + 55 + 31 + 40", None),
        ("What is the average depth, rounded to one decimal place?", HARBOURS, "(12 + 9 + 12.5 + 7) / 4", 1),
        ("What is the total number of boats of harbours with a ferry?", HARBOURS, "40 + 31", None),
        ("What is the difference between the depth of Brill and the depth of Ostend?", HARBOURS, "9 - 7", None),
        ("How many more boats does Ostend have than Velmor?", HARBOURS, "55 - 40", None),
        ("What is the difference between cells B2 and B3?", CELLS, "12 - 7", None),
        ("What is the difference between the price of the Rope on sheet Ropes and the Sail on sheet Sails?",
         STOCK, "30 - 4", None),
    ],
)  # fmt: skip
def test_a_question_about_several_cells_becomes_a_calculation(
    question: str, text: str, expression: str, decimals: int | None
) -> None:
    found = look_up(question, tables(text))
    assert found is not None and (found.expression, found.decimals) == (expression, decimals)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is the depth of Velmor?", ""),
        ("What is the difference between the ranks of Ada and Bo?", CREW),
        ("What is the total rank?", "Name | Rank\nAda | cook"),
        ("List the harbours with more than 900 boats.", HARBOURS),
    ],
)
def test_what_a_table_does_not_contain_has_no_answer(question: str, text: str) -> None:
    assert look_up(question, tables(text)) is None


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("Which harbour has the most boats?", "Ostend", "Quay"),
        ("What is the depth of Velmor?", "12", "1820"),
    ],
)
def test_a_misread_question_is_answered_from_another_column(question: str, right: str, wrong: str) -> None:
    careful, careless = look_up(question, tables(HARBOURS)), look_up(question, tables(HARBOURS), misreads=True)
    assert careful is not None and careless is not None
    assert (careful.answer, careless.answer) == (right, wrong)


PEOPLE = """Year | Name | Score | Age
2020 | Ada | 7 | 41
2021 | Bo | 9 | 35
2022 | Cy | 4 | 60"""
NUMBERS = "Code | Price\n11 | 4\n12 | 9"
DATES = "Ship | Sailed\nAlba | 1901-05-03\nBora | 1899-12-31\nCora |"


@pytest.mark.parametrize(
    ("question", "text", "answer", "why"),
    [
        ("What is the depth of Velmor?", HARBOURS, "12", "Read from the row that fits the question."),
        ("How many rows name Ostend?", HARBOURS, "1", "1 rows fit."),
        ("How many harbours have more than 31 boats?", HARBOURS, "3", "3 rows fit."),
        ("List the harbours with more than 40 boats.", HARBOURS, "Ostend", "1 rows fit the condition."),
        ("Which harbour has the most boats?", HARBOURS, "Ostend", "The highest Boats is 55."),
        ("Which harbour has the fewest boats?", HARBOURS, "Quay", "The lowest Boats is 31."),
        ("What is in cell B3?", CELLS, "7", "Read from the cell that the question names."),
        ("What are the depths of Quay and Velmor?", HARBOURS, "12.5", "Read from the row that fits the question."),
        ("What are the depths of Velmor and Quay?", HARBOURS, "12", "Read from the row that fits the question."),
        ("Who has the highest score?", PEOPLE, "Bo", "The highest Score is 9."),
        ("Which year has the lowest score?", PEOPLE, "2022", "The lowest Score is 4."),
        ("Give the highest price.", NUMBERS, "12", "The highest Price is 9."),
        ("Which ship sailed earliest?", DATES, "Bora", "The lowest Sailed is 1899-12-31."),
        ("Which ship sailed latest?", DATES, "Alba", "The highest Sailed is 1901-05-03."),
        ("List all names with an age over 40.", PEOPLE, "Ada, Cy", "2 rows fit the condition."),
        ("Ferry needed: list the harbours.", HARBOURS, "Velmor, Quay", "2 rows fit the condition."),
        ("List the harbours that have no ferry.", HARBOURS.replace("yes", "no"), "Velmor, Ostend, Quay, Brill",
         "4 rows fit the condition."),
        ("What is in cells B3 and B2?", CELLS, "7", "Read from the cell that the question names."),
        ("What is the difference between cell B3 and nothing?", CELLS, "7",
         "Read from the cell that the question names."),
    ],
)  # fmt: skip
def test_an_answer_comes_with_its_reason(question: str, text: str, answer: str, why: str) -> None:
    found = look_up(question, tables(text))
    assert found is not None and (found.answer, found.expression, found.why) == (answer, None, why)


@pytest.mark.parametrize(
    ("question", "text", "expression"),
    [
        ("What is the difference between the depths of Quay, Brill and Ostend?", HARBOURS, "12.5 - 7"),
        ("What is the difference between the depths of Brill, Quay and Ostend?", HARBOURS, "12.5 - 7"),
        ("What is the total age of all people?", PEOPLE, "41 + 35 + 60"),
        ("What is the difference between cells B3 and B2 and B3?", CELLS, "12 - 7"),
        ("What is the difference between cell B2 of sheet Jibs and B2 of sheet Stock?",
         f"{CELLS}\n\n{CELLS.replace('Stock', 'Jibs').replace('12', '30')}", "30 - 12"),
    ],
)  # fmt: skip
def test_a_calculation_takes_the_two_cells_that_are_named_first(question: str, text: str, expression: str) -> None:
    found = look_up(question, tables(text))
    assert found is not None and (found.answer, found.expression) == (None, expression)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("List the names of people with more than 5 of score.", "Ada, Bo"),
        ("Above 40 in age: list the names.", "Ada, Cy"),
        (
            "Of all ages, whatever the name is in the end, list the names of people with more than 5 of score.",
            "Ada, Bo",
        ),
        ("More than 40 in age, so that each is a grown man or woman: list all the scores and names.", "Ada, Cy"),
    ],
)
def test_a_limit_belongs_to_the_column_that_is_named_nearest(question: str, answer: str) -> None:
    found = look_up(question, tables(PEOPLE))
    assert found is not None and found.answer == answer


def test_the_only_column_cannot_be_misread() -> None:
    one = [Table("", ["Town"], [["Mora"]], [])]
    found = look_up("Which town is it?", one, misreads=True)
    assert found is not None and found.answer == "Mora"


@pytest.mark.parametrize(("question", "answer"), [("What is in cell B9?", None), ("What is in cell Z2?", None)])
def test_a_cell_beyond_the_table_is_not_read(question: str, answer: str | None) -> None:
    found = look_up(question, tables(CELLS))
    assert found is None or found.why != "Read from the cell that the question names."


def test_of_several_sheets_the_one_named_first_is_read_or_the_two_are_subtracted() -> None:
    north = Table("North", ["item", "price"], [["Pen", "2.50"], ["Ink", "9.00"]], [])
    south = Table("South", ["item", "price"], [["Pen", "3.50"], ["Ink", "8.00"]], [])
    for found in ([north, south], [south, north], [Table("East", ["item", "price"], [], []), south, north]):
        for question, answer in (
            ("What is the price of Pen in South?", "3.50"),
            ("What is the price of Pen in North and South?", "2.50"),
            ("What is the price of Pen in South and North?", "3.50"),
        ):
            read = look_up(question, found)
            assert read is not None and (read.answer, read.expression) == (answer, None)
        for names in ("South and North", "North and South"):
            apart = look_up(f"What is the difference of the price of Pen between {names}?", found)
            assert apart is not None and (apart.answer, apart.expression) == (None, "3.5 - 2.5")
            assert apart.why == "The difference of two cells."
        assert look_up("What is the difference of the price of Pen?", found) is None
