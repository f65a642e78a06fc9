"""Reading files and findings: the answer that a careful reader gives, and the one after a slip."""

import json

import pytest

from mas.simulation.solving.lookup import look_up
from mas.simulation.solving.material import NOTHING_FOUND, answer, findings, question_in, section
from mas.simulation.solving.solving import reckoned
from mas.simulation.solving.tables import tables

SHOP = """row | item | price | stock | organic
1 | Pen | 2.50 | 40 | no
2 | Ink | 9.00 | 12 | yes
3 | Nib | 0.75 | 90 | yes"""
BOOK = """sheet "North"; cells A1:C3
row | A | B | C
1 | ship | tonnes | crew
2 | Alba | 120 | 9
3 | Bora | 80 | 7
sheet "South"; cells A1:C3
row | A | B | C
1 | ship | tonnes | crew
2 | Alba | 95 | 6
3 | Bora | 60 | 5"""
CREW = """{"stations": {
    "Kip": {"crew": [{"name": "Ada", "role": "pilot", "locker": 7}, {"name": "Bo", "role": "cook", "locker": 8}]},
    "Lot": {"crew": [{"name": "Cy", "role": "pilot", "locker": 9}, {"name": "Di", "role": "cook", "locker": 4}]}
}}"""
NOTE = "The ferry is blue. It leaves from pier 12. We sold 40 boxes of seed at Mora. The key hangs behind the clock."


def value(question: str, material: str, slip: bool = False) -> str | None:
    found = answer(question, findings(question, material), slip)
    if found is None or found.answer is not None:
        return found and found.answer
    return f"{reckoned(found.expression or ''):g}"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the price of Ink?", "9.00"),
        ("How many Pens are in stock, going by the column stock for Pen?", "40"),
        ("Which item has the highest price?", "Ink"),
        ("Which item is the cheapest?", "Nib"),
        ("What is the highest price in the file?", "9.00"),
        ("What is the total stock of all items?", "142"),
        ("What is the average stock?", "47.3333"),
        ("How many items cost more than 1?", "2"),
        ("List the items with a stock of at least 40, in alphabetical order.", "Nib, Pen"),
        ("Which items are organic and have a stock over 50?", "Nib"),
        ("Which items are not organic, in alphabetical order?", "Pen"),
        ("By how much does the price of Ink exceed that of Pen?", "6.5"),
    ],
)
def test_questions_about_a_table(question: str, expected: str) -> None:
    assert value(question, SHOP) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("On the sheet South, how many tonnes has Alba?", "95"),
        ("What stands under crew for Bora at North?", "7"),
        ("What is the difference between Alba's and Bora's tonnes on the sheet North?", "40"),
        ("What is the difference between Alba's tonnes on North and on South?", "25"),
        ("What is the value of cell B3 on the sheet South?", "60"),
    ],
)
def test_questions_about_a_workbook(question: str, expected: str) -> None:
    assert value(question, BOOK) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the name of the pilot at station Lot?", "Cy"),
        ("Find the cook of Kip. Which locker does this person have?", "8"),
    ],
)
def test_questions_about_nested_json(question: str, expected: str) -> None:
    assert value(question, CREW) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("From which pier does it leave?", "12"),
        ("How many boxes of seed were sold at Mora?", "40"),
        ("Behind which object does the key hang?", "clock"),
    ],
)
def test_questions_about_a_note(question: str, expected: str) -> None:
    assert value(question, NOTE) == expected


def test_json_records_are_read_as_a_table() -> None:
    text = json.dumps([{"town": "Mora", "people": 80}, {"town": "Velt", "people": 120}])

    assert value("Which town has the most people?", text) == "Velt"


def test_a_slip_reads_another_column() -> None:
    assert value("What is the price of Ink?", SHOP, slip=True) != "9.00"


def test_a_misread_table_holds_a_neighbours_value() -> None:
    question = "On the sheet South, how many crew has Bora?"
    found = answer(question, findings(question, BOOK, misread=True))

    assert found is not None
    assert found.answer == "6"


def test_what_a_file_does_not_say_is_said_to_be_missing() -> None:
    assert findings("Who won the regatta?", "It rained.") == NOTHING_FOUND


def test_a_table_survives_being_passed_on() -> None:
    for table in [*tables(BOOK), *tables(SHOP)]:
        assert tables(table.text())[0] == table


def test_title_rows_above_the_header_are_left_out() -> None:
    text = "row | A | B | C\n1 | Fleet of 1901 |  | \n2 | ship | tonnes | crew\n3 | Alba | 120 | 9"
    found = look_up("How many tonnes has Alba?", tables(text))

    assert found is not None
    assert found.answer == "120"


def test_the_question_is_found_in_every_kind_of_message() -> None:
    question = "What does ink cost?"
    for text in (
        f"Develop a logical plan to answer the following question:\n{question}\n\nInclude using following file: a.csv",
        f"Research the following topic or question: Read the file a.csv and find what is needed to answer: {question}",
        f"Answer the following question.\n\nThe question:\n{question}\n\nThe research results:\n1. Nothing.",
        question,
    ):
        assert question_in(text) == question


def test_a_section_keeps_its_empty_lines() -> None:
    text = "The research results:\n1. Found:\n\na | b\n1 | 2\n\nThe steps to follow:\n1. Go."

    assert section(text, "research results") == "1. Found:\n\na | b\n1 | 2"
