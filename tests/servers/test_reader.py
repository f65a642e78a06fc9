"""The reader finds facts by the words of a question, in renderings and wordings it was not written for."""

import json
import random

import pytest

from tests.servers.arithmetic import Conversion, conversions, expressions, in_asked_form
from tests.servers.reader import find_answer, relevant_excerpt

_NAMES = {
    "town": ["Osterlund", "Ebbe", "New York", "York", "Kirkwall North", "Kirkwall South", "São Brás"],
    "product": ["Red lamp", "Desk", "Standing desk", "Chair XL", "Chair", "USB-C cable", "Kettle 2", "Kettle"],
    "station": ["Station 1", "Station 10", "Station 2", "Gate A", "Gate B", "North Gate", "South Gate", "Tower"],
}
_COLUMNS = {  # heading: how a question calls it
    "population": "population",
    "area_km2": "area",
    "Phone number": "phone number",
    "access code": "access code",
    "unit price": "unit price",
    "weightKg": "weight",
    "Height (m)": "height",
    "last inspection": "last inspection",
}
_WORDINGS = (
    "What is the {column} of {name}?",
    "In the attached file data.csv, what {column} is recorded for {name}?",
    "For {name}, which {column} does the table list?",
    "Look at {name} in the file. Report its {column}.",
    "According to the spreadsheet, {name} has which {column}?",
    "I need to know {name}'s {column}, please.",
    "The file describes several {kind} entries. What {column} does it give for {name}? Answer with the value only.",
)


def _as_table(head: list[str], rows: list[list[str]], kind: str) -> str:
    return "\n".join(" | ".join(row) for row in [head, *rows])


def _as_sheet(head: list[str], rows: list[list[str]], kind: str) -> str:
    numbered = [[str(number), *row] for number, row in enumerate([head, *rows], 1)]
    letters = ["row", *"ABCDEFGH"[: len(head)]]
    return 'sheet "Data"; cells A1:H9\n' + _as_table(letters, numbered, kind)


def _as_json_list(head: list[str], rows: list[list[str]], kind: str) -> str:
    return json.dumps([dict(zip(head, row, strict=True)) for row in rows], indent=2, ensure_ascii=False)


def _as_json_map(head: list[str], rows: list[list[str]], kind: str) -> str:
    return json.dumps({kind: {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}}, indent=2)


def _as_blocks(head: list[str], rows: list[list[str]], kind: str) -> str:
    return "\n\n".join("\n".join(f"{key}: {value}" for key, value in zip(head, row, strict=True)) for row in rows)


def _as_prose(head: list[str], rows: list[list[str]], kind: str) -> str:
    return "Notes.\n" + " ".join(
        f"The {_COLUMNS[key]} of {row[0]} is {value}."
        for row in rows
        for key, value in zip(head[1:], row[1:], strict=True)
    )


@pytest.mark.parametrize("render", [_as_table, _as_sheet, _as_json_list, _as_json_map, _as_blocks, _as_prose])
@pytest.mark.parametrize("seed", range(8))
def test_every_value_is_found_by_the_words_for_its_row_and_column(render, seed):
    draw = random.Random(seed)
    kind = draw.choice(list(_NAMES))
    names, columns = draw.sample(_NAMES[kind], 6), draw.sample(list(_COLUMNS), 3)
    rows = [[name, *(str(draw.randint(1000, 999_999)) for _ in columns)] for name in names]
    text = render([kind.capitalize(), *columns], rows, kind)
    for row in rows:
        for column, value in zip(columns, row[1:], strict=True):
            question = draw.choice(_WORDINGS).format(column=_COLUMNS[column], name=row[0], kind=kind)
            assert find_answer(text, question) == value, question


STAFF = """sheet "Staff"; cells A1:D4
row | A | B | C | D
1 | Name | Department | Phone | Start date
2 | Ann Lee | Sales | 555-0101 | 2019-03-01
3 | Bob Ray | Marketing | 555-0102 | 2020-07-15
4 | Cy Young | Sales support | 555-0103 | 2021-11-30
sheet "Budget"; cells A1:C3
row | A | B | C
1 | Department | 2023 | 2024
2 | Sales | 1000 | 1100
3 | Marketing | 500 | 650"""
LIBRARY = json.dumps(
    {
        "library": "Harbour",
        "books": [
            {"title": "The Salt Road", "author": "M. Iyer", "shelf": "B4"},
            {"title": "Quiet Engines", "author": "P. Novak", "shelf": "C1", "tags": ["tech", "history"]},
        ],
        "opening_hours": {"monday": "09:00-17:00", "saturday": "10:00-14:00"},
        "staff": {"head": {"name": "Odile Brun", "age": 51}, "clerk": {"name": "Tom Pike", "age": 29}},
    },
    indent=2,
)
NOTES = """Harbour notes

The access code of the north gate is 4711. The access code of the south gate is 0815.
The lighthouse was built in 1887 by Edda Krol. Its lamp has a range of 22 nautical miles.
The ferry to Skarn leaves at 06:45 from pier 3, and the ferry to Veld leaves at 07:30 from pier 5.
The harbour master is Jonas Quist. Deputy: Lena Marsh
In winter the storage hall is heated to 12 degrees."""
SENSORS = """# Sensor A
serial: SN-88
calibrated: 2024-05-02

# Sensor B
serial: SN-91
calibrated: 2023-12-11"""


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        (STAFF, "Which employee works in the Marketing department?", "Bob Ray"),
        (STAFF, "Whose phone is 555-0101?", "Ann Lee"),
        (STAFF, "On which date did the person in Sales support start?", "2021-11-30"),
        (STAFF, "What was the budget of the Sales department in 2023?", "1000"),
        (STAFF, "What is written in cell B3 of the Staff sheet?", "Marketing"),
        (LIBRARY, "Who is the author of Quiet Engines?", "P. Novak"),
        (LIBRARY, "On which shelf does one find The Salt Road?", "B4"),
        (LIBRARY, "What are the opening hours on Saturday?", "10:00-14:00"),
        (LIBRARY, "How old is the clerk?", "29"),
        (LIBRARY, "Which tags does Quiet Engines have?", "tech, history"),
        (NOTES, "Which code opens the south gate?", "0815"),
        (NOTES, "When was the lighthouse built?", "1887"),
        (NOTES, "Who built the lighthouse?", "Edda Krol"),
        (NOTES, "At what time does the ferry to Veld leave?", "07:30"),
        (NOTES, "From which pier does the ferry to Skarn leave?", "3"),
        (NOTES, "Who is the deputy?", "Lena Marsh"),
        (NOTES, "To how many degrees is the storage hall heated?", "12"),
        (SENSORS, "What is the serial of sensor B?", "SN-91"),
        (SENSORS, "When was Sensor A calibrated?", "2024-05-02"),
    ],
)
def test_a_fact_is_found_however_it_is_asked_for(text, question, answer):
    assert find_answer(text, question) == answer


@pytest.mark.parametrize("text", [STAFF, LIBRARY, NOTES, SENSORS, ""])
def test_nothing_is_answered_from_a_text_that_says_nothing_of_it(text):
    assert find_answer(text, "What colour is the dragon's egg?") is None


def test_an_excerpt_of_a_long_table_keeps_the_header_and_the_row_asked_for():
    rows = "\n".join(f"Town{number} | {number * 7} | {number * 3}" for number in range(3000))
    excerpt = relevant_excerpt(f"town | wells | mills\n{rows}", "How many mills has Town2871?", max_chars=600)
    assert len(excerpt) < 800
    assert find_answer(excerpt, "How many mills has Town2871?") == "8613"


def test_an_excerpt_of_long_json_keeps_the_item_asked_for():
    document = json.dumps([{"town": f"Town{number}", "wells": number * 7} for number in range(3000)])
    excerpt = relevant_excerpt(document, "How many wells has Town2871?", max_chars=2000)
    assert len(excerpt) < 2000
    assert find_answer(excerpt, "How many wells has Town2871?") == "20097"


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is 37 * 412 - 5?", ["37*412-5"]),
        ("What is 1,200 times (3 plus 4)?", ["1200*(3+4)"]),
        ("Compute 15% of 240.", ["15/100*240"]),
        ("What are 2^10 and 7 x 6?", ["2**10", "7*6"]),
        ("What is the sum of 3, 5 and 9?", ["3+5+9"]),
        ("Who ruled from 1990-2000, since 2024-01-05?", []),
    ],
)
def test_spelled_out_arithmetic_is_recognised(question, found):
    assert [each.replace(" ", "") for each in expressions(question)] == found


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Convert 12 miles to kilometers.", Conversion("12", "miles", "kilometers")),
        ("Express 4,560.7 inches in centimetres, rounded.", Conversion("4560.7", "inches", "centimetres")),
        ("How many grams are there in 3 pounds?", Conversion("3", "pounds", "grams")),
        ("What is 451 degrees Fahrenheit in degrees Celsius?", Conversion("451", "Fahrenheit", "Celsius")),
        ("Convert 70 miles per hour to kilometres per hour", Conversion("70", "miles per hour", "kilometres per hour")),
    ],
)
def test_a_unit_conversion_is_recognised(question, found):
    assert conversions(question) == (found,)


def test_a_number_is_rounded_only_if_the_question_says_so():
    assert in_asked_form("3.14159", "Give pi, rounded to two decimal places.") == "3.14"
    assert in_asked_form("3.14159", "Give pi.") == "3.14159"
