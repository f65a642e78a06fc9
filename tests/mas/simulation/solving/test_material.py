"""Reading files and findings: the answer that a careful reader gives, and the one after a slip."""

import json

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import SAMPLE, BundledDataset
from mas.simulation.chat import ToolResult
from mas.simulation.roles.researcher import _join_pages
from mas.simulation.skills.mistakes import calculate_exactly
from mas.simulation.solving.lookup import look_up
from mas.simulation.solving.material import (
    NOTHING_FOUND,
    answer_from_material,
    extract_findings,
    extract_question,
    extract_section,
    read_sound_header,
    use_cell_marks,
)
from mas.simulation.solving.self_contained import evaluate_expression
from mas.simulation.solving.tables import read_tables
from mas.tools.attachments import use_attachments
from mas.tools.read_file import read_file
from scripts.sample_data import media as sample_sound
from scripts.sample_data.make_sample import MARKED, SPLITS

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


def value(question: str, material: str, misreads: bool = False) -> str | None:
    found = answer_from_material(question, extract_findings(question, material), misreads)
    if found is None or found.answer is not None:
        return found and found.answer
    return f"{evaluate_expression(found.expression or ''):g}"


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
        ("Organic items: how many of them are there?", "2"),
        ("How many items cost more than 2.50?", "1"),
        ("How many items cost at least 2.50?", "2"),
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
    assert value("What is the price of Ink?", SHOP, misreads=True) != "9.00"


def test_a_misread_table_holds_a_neighbours_value() -> None:
    question = "On the sheet South, how many crew has Bora?"
    found = answer_from_material(question, extract_findings(question, BOOK, misreads=True))

    assert found is not None
    assert found.answer == "6"


def test_what_a_file_does_not_say_is_said_to_be_missing() -> None:
    assert extract_findings("Who won the regatta?", "It rained.") == NOTHING_FOUND


def test_a_table_survives_being_passed_on() -> None:
    for table in [*read_tables(BOOK), *read_tables(SHOP)]:
        assert read_tables(table.text())[0] == table


def test_title_rows_above_the_header_are_left_out() -> None:
    text = "row | A | B | C\n1 | Fleet of 1901 |  | \n2 | ship | tonnes | crew\n3 | Alba | 120 | 9"
    found = look_up("How many tonnes has Alba?", read_tables(text))

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
        assert extract_question(text) == question


def test_a_section_keeps_its_empty_lines() -> None:
    text = "The research results:\n1. Found:\n\na | b\n1 | 2\n\nThe steps to follow:\n1. Go."

    assert extract_section(text, "research results") == "1. Found:\n\na | b\n1 | 2"


SHIPS = """sheet "North"; cells A1:C4; merged D8:E9, G1:G4
row | A | B | C
1 | ship | tonnes | dues
2 | Alba | 120 [comment: Ada Kern] | [=B2*17, result not stored in the file]
3 | Bora | 80 [fill FF00AA11] [comment: Cy Lot] | 90 [=B3*11]
4 | Cora | 70 | 5 [hidden row]
sheet "South"; cells A1:C3; hidden sheet
row | A | B | C
1 | ship | tonnes | dues
2 | Alba | 95 | 6"""


def families() -> list[tuple[str, Sample]]:
    about = {split: json.loads((SAMPLE / split / "families.json").read_text()) for split in SPLITS}
    every = [
        (about[split][each.id]["family"], each) for split in SPLITS for each in BundledDataset().load(split).samples
    ]
    return [(family, each) for family, each in every if family in MARKED | sample_sound.FAMILIES]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Whose name is in the comment on the tonnes of Alba on the sheet North?", "Ada Kern"),
        ("Whose name is in the comment on Bora's tonnes on the sheet North?", "Cy Lot"),
        ("Which formula gives the dues of Alba at North?", "=B2*17"),
        ("Which formula gives the dues of Bora at North?", "=B3*11"),
        ("With which fill colour are the tonnes of Bora at North marked?", "FF00AA11"),
        ("What are the tonnes in the hidden row?", "70"),
        ("On the hidden sheet, what are the tonnes of Alba?", "95"),
        ("Which range of cells beside C1:C2 is merged?", "D8:E9"),
        ("What are the tonnes of Bora on the sheet North?", "80"),
    ],
)
def test_a_question_for_a_mark_is_answered_with_it(question: str, expected: str) -> None:
    found = answer_from_material(question, extract_findings(question, SHIPS))

    assert found is not None
    assert found.answer == expected


def test_without_marks_a_text_stays_as_it_is() -> None:
    plain = "row | ship | comment\n1 | Alba | the hidden sheet has a merged formula"

    assert (
        use_cell_marks("Which comment, formula, colour, merged cell, hidden row is on the hidden sheet?", plain)
        == plain
    )


def test_a_sound_is_known_by_the_first_line_of_what_the_tool_returns() -> None:
    said = "a-1.wav: sound, WAV, 0.5 seconds, 8201 Hz, 1 channel; page 1 of 1\n\nread_file does not listen to it."
    asked = {"What is its rate in Hz? Give only the number.": "8201", "How many seconds does it last?": "0.5"}

    assert read_sound_header(said) == "sound, WAV, 0.5 seconds, 8201 Hz, 1 channel"
    assert read_sound_header("a.txt: text, 2 lines; page 1 of 1\n\nb.wav: sound, WAV") is None
    for question, expected in asked.items():
        found = answer_from_material(question, extract_findings(question, read_sound_header(said) or ""))
        assert found is not None
        assert found.answer == expected


@pytest.mark.parametrize("example", [pytest.param(each, id=family) for family, each in families()])
def test_a_careful_reader_answers_the_samples_sounds_and_marks(example: Sample) -> None:
    assert example.file is not None
    with use_attachments([example.file]):
        shown = read_file(example.file.name)
    said = _join_pages([ToolResult("read_file", {"file": example.file.name}, shown)])
    found = answer_from_material(example.question, extract_findings(example.question, said))

    assert found is not None
    assert calculate_exactly(found) == example.target


@pytest.mark.parametrize(
    ("question", "material", "careful", "careless"),
    [
        ("What is 17 * 23?", "", "17 * 23", "17 * 23"),
        ("What is 17 * 23?", f"{NOTHING_FOUND} It rained.", "17 * 23", "17 * 23"),
        ("What is 17 * 23?", "It rained all day long.", "17 * 23", "17 * 23"),
        ("Who is the pilot?", "crew > pilot: Ada", "Ada", "Ada"),
        ("Who is the pilot of Kip?", "Kip > pilot: Ada\nLot > pilot: Bo", "Ada", "Bo"),
        ("What colour is the ferry?", "The ferry is blue. The lamp colour is red.", "blue", "red"),
        ("What colour is the ferry?", "The colour of the ferry is blue.", "blue", None),
        ("How heavy is it? Round to one decimal.", "load > heavy: 3.46", "3.46", "3.46"),
    ],
)
def test_material_is_read_best_first_and_misread_from_the_second_place(
    question: str, material: str, careful: str, careless: str | None
) -> None:
    for misreads, expected in ((False, careful), (True, careless)):
        found = answer_from_material(question, material, misreads)
        assert (found and (found.answer or found.expression)) == expected


def test_a_number_is_rounded_only_if_the_question_asks_for_it() -> None:
    rounded = answer_from_material("How heavy is it? Round to one decimal.", "load > heavy: 3.46")
    plain = answer_from_material("How heavy is it?", "load > heavy: 3.46")
    text = answer_from_material("Who is heavy? Round to one decimal.", "load > heavy: Ada")
    assert rounded is not None and plain is not None and text is not None
    assert (rounded.answer, rounded.expression, rounded.decimals) == (None, "3.46", 1)
    assert (plain.answer, plain.expression, plain.decimals) == ("3.46", None, None)
    assert (text.answer, text.expression, text.decimals) == ("Ada", None, None)
    assert plain.why == "Read from the path that fits the question best."
    said = answer_from_material("What colour is the ferry?", "The ferry is blue.")
    assert said is not None and said.why == "The text says: The ferry is blue."


@pytest.mark.parametrize(
    ("question", "content", "careful", "careless"),
    [
        ("What is the ferry?", "Ferry red. Ferry blue. Ferry white. Ferry gold.",
         "Ferry red.\nFerry blue.\nFerry white.", "Ferry blue.\nFerry white."),
        ("What is a?", '{"a": 1, "b": 2, "c": 3, "d": 4}', "a: 1\nb: 2\nc: 3", "b: 2\nc: 3"),
        ("What is a?", '{"a": 1}', "a: 1", NOTHING_FOUND),
        ("What is the highest a?", '[{"a": 1}, {"a": 2}]', "a\n1\n2", "a\n2\n1"),
        ("What is x?", "a | x\n1 | 2", "a | x\n1 | 2", "a | x\n1 | 2"),
        ("What is x?", "a | x\n1 | 2\n3 | 4", "a | x\n1 | 2\n3 | 4", "a | x\n1 | 4\n3 | 2"),
    ],
)  # fmt: skip
def test_findings_are_the_best_three_and_misread_without_the_first(
    question: str, content: str, careful: str, careless: str
) -> None:
    assert (extract_findings(question, content), extract_findings(question, content, True)) == (careful, careless)


def test_of_a_table_with_hidden_rows_the_two_lines_of_its_header_are_kept() -> None:
    content = "title\nrow | A\n1 | ship\n2 | Alba\n3 | Bora [hidden row]\nrow | B\n1 | boat"
    assert use_cell_marks("What is in the hidden row?", content) == (
        "title\nrow | A\n1 | ship\n3 | Bora [hidden row]\nrow | B\n1 | boat"
    )
