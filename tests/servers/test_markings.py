"""What stands around a value is told apart from it, and answers what is asked about it."""

import pytest

from tests.servers.markings import Marked, amounts, marked, part_asked, sheet_facts
from tests.servers.reader import find_answer


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("412", Marked("412")),
        ("412 [=B5*2] [fill FFFF0000]", Marked("412", {"formula": "=B5*2", "fill colour": "FFFF0000"})),
        ("[=B5*2, result not stored in the file]", Marked("", {"formula": "=B5*2"})),
        ("7 [comment: ask Ann] [hidden row]", Marked("7", {"comment": "ask Ann"}, ("hidden row",))),
        ("Rome [sic]", Marked("Rome [sic]")),
    ],
)
def test_the_marks_behind_a_value_are_taken_off_it(cell: str, expected: Marked) -> None:
    assert marked(cell) == expected


def test_a_sheets_heading_gives_its_name_and_its_merged_cells() -> None:
    assert sheet_facts('sheet "Quay"; cells A1:C4; hidden sheet; merged A2:A4') == {
        "sheet name": "Quay",
        "merged cells": "A2:A4",
    }
    assert sheet_facts("The sheet; merged A2:A4") == {}


def test_only_what_is_said_about_a_sound_is_an_amount() -> None:
    sound = "a.wav: sound, WAV, 0.5 seconds, 8000 Hz, 1 channel; page 1 of 1"
    assert amounts(sound) == {"seconds": "0.5", "Hz": "8000", "channel": "1"}
    assert amounts("a.txt: text, 3 lines, 40 characters; page 1 of 1") == {}


def test_the_page_that_a_question_names_is_read_alone() -> None:
    text = "\n".join(f"[page {number} of 12]\nThe code of this page is {number * 111}." for number in range(1, 13))
    assert part_asked(text, "What stands on page 1?") == "[page 1 of 12]\nThe code of this page is 111.\n"
    assert part_asked(text, "What stands on page 13?") == text
    assert find_answer(text, "Which code stands on page 11?") == "1221"


SHEET = """sheet "Quay"; cells A1:C4; merged A7:B9
row | A | B | C
1 | ship | tonnes | dues
2 | Velmor | 4120 [comment: Tarin Bofith] | [=B2*17, result not stored in the file]
3 | Kesta | 88 [fill FF12AB34] | [=B3*19, result not stored in the file]
4 | Lunro | 905 | [=B4*23, result not stored in the file] [hidden row]"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many tonnes has the ship Velmor?", "4120"),
        ("Whose name does the comment on the tonnes of Velmor give?", "Tarin Bofith"),
        ("Which formula computes the dues of Kesta?", "=B3*19"),
        ("Which ship's tonnes are filled with the colour FF12AB34?", "Kesta"),
        ("How many tonnes stand in the hidden row?", "905"),
        ("Which range of cells is merged?", "A7:B9"),
        ("What is the name of the sheet?", "Quay"),
    ],
)
def test_a_workbooks_marks_answer_questions_about_them(question: str, answer: str) -> None:
    assert find_answer(SHEET, question) == answer
