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
