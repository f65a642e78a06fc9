"""What stands beside values: the header of a sound, and what Excel shows at a cell, as a question asks for it."""

import json

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import SAMPLE, BundledDataset
from mas.simulation.request import ToolResult
from mas.simulation.roles.research import _joined
from mas.simulation.skills.slips import unaided
from mas.simulation.solving.marks import about_a_sound, marked
from mas.simulation.solving.material import answer, findings
from mas.tools.attachments import attached
from mas.tools.read_file import read_file
from scripts.sample_data import media as sample_sound
from scripts.sample_data.make_sample import MARKED, SPLITS

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
    found = answer(question, findings(question, SHIPS))

    assert found is not None
    assert found.answer == expected


def test_without_marks_a_text_stays_as_it_is() -> None:
    plain = "row | ship | comment\n1 | Alba | the hidden sheet has a merged formula"

    assert marked("Which comment, formula, colour, merged cell, hidden row is on the hidden sheet?", plain) == plain


def test_a_sound_is_known_by_the_first_line_of_what_the_tool_returns() -> None:
    said = "a-1.wav: sound, WAV, 0.5 seconds, 8201 Hz, 1 channel; page 1 of 1\n\nread_file does not listen to it."
    asked = {"What is its rate in Hz? Give only the number.": "8201", "How many seconds does it last?": "0.5"}

    assert about_a_sound(said) == "sound, WAV, 0.5 seconds, 8201 Hz, 1 channel"
    assert about_a_sound("a.txt: text, 2 lines; page 1 of 1\n\nb.wav: sound, WAV") is None
    for question, expected in asked.items():
        found = answer(question, findings(question, about_a_sound(said) or ""))
        assert found is not None
        assert found.answer == expected


@pytest.mark.parametrize("example", [pytest.param(each, id=family) for family, each in families()])
def test_a_careful_reader_answers_the_samples_sounds_and_marks(example: Sample) -> None:
    assert example.file is not None
    with attached([example.file]):
        shown = read_file(example.file.name)
    said = _joined([ToolResult("read_file", {"file": example.file.name}, shown)])
    found = answer(example.question, findings(example.question, said))

    assert found is not None
    assert unaided(found) == example.target
