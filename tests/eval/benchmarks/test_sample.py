"""The committed sample: its answers have GAIA's form, stand in the files and are found by the tool and by a run."""

import json
import re
from collections import Counter

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import SAMPLE, BundledDataset
from mas.simulation.behaviour import Behaviour
from mas.tools.attachments import use_attachments
from mas.tools.read_file import read_file
from tests.eval.command_line import EvalCommand
from tests.needs import find_missing, skip_without

SPLITS = ("train", "val", "test")
EXAMPLES = {split: BundledDataset().load(split).samples for split in SPLITS}
ALL = [sample for split in SPLITS for sample in EXAMPLES[split]]
FAMILY = {
    sample_id: about["family"]
    for split in SPLITS
    for sample_id, about in json.loads((SAMPLE / split / "families.json").read_text()).items()
}
COUNTS = Counter(FAMILY.values())
KINDS = {split: [each for each in EXAMPLES[split] if COUNTS[FAMILY[each.id]] == 1] for split in SPLITS}
NAMED_ELSEWHERE = {  # nothing that the question names stands in the answer's line
    *("linked_data", "xml_elements", "protein", "word_letter", "book_chapter"),
    *("wav_rate", "mp3_length", "m4a_length", "xlsx_hidden_row", "xlsx_merged"),
}
NEEDS = {**dict.fromkeys(("png", "jpg", "gif", "webp"), "tesseract"), "xls": "libreoffice"}
GAIAS_FORM = r"\d+(\.\d\d?)?|[A-Za-z]+( [A-Za-z]+)?(, [A-Za-z]+)*"
EXCELS_FORM = r"=B\d\*\d+|FF[\dA-F]{6}|[A-L]\d+:[A-L]\d+"  # a formula, a colour, a range


def test_no_id_or_question_is_in_two_splits() -> None:
    assert len({sample.id for sample in ALL}) == len({sample.question for sample in ALL}) == len(ALL)


def test_golds_have_gaias_form_and_no_question_with_a_file_gives_its_answer_away() -> None:
    for sample in ALL:
        assert sample.target
        form = f"{GAIAS_FORM}|{EXCELS_FORM}" if FAMILY[sample.id].startswith("xlsx_") else GAIAS_FORM
        assert re.fullmatch(form, sample.target), sample.target
        if sample.file:
            assert sample.target.lower() not in sample.question.lower(), sample.id
            assert not any(re.search(rf"\b{part}\b", sample.question) for part in sample.target.split(", ")), sample.id


@pytest.mark.parametrize(
    "example", [each for kinds in KINDS.values() for each in kinds], ids=lambda example: FAMILY[example.id]
)
def test_the_answer_is_in_the_file_once_beside_what_the_question_names(example: Sample) -> None:
    if (kind := example.tags["kind"]) in NEEDS:
        skip_without(NEEDS[kind])
    assert example.file and example.target
    member = re.search(r"`(\w+/\w+\.csv)`", example.question)
    with use_attachments([example.file]):
        shown = read_file(example.file.name, member=member[1] if member else None)
    lines = [
        line for line in shown.splitlines() if re.search(rf"(?<![\w.]){re.escape(example.target)}(?![\w.]\w)", line)
    ]
    assert lines, shown
    if FAMILY[example.id] not in NAMED_ELSEWHERE:
        named = set(re.findall(r"\b[A-Z]\w+\b", example.question))
        assert any(named & set(re.findall(r"\w+", line)) for line in lines)


@pytest.mark.parametrize("split", SPLITS)
def test_the_simulated_model_reads_every_kind(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    missing = [kind for kind, program in NEEDS.items() if find_missing(program)]
    asked = [each for each in KINDS[split] if each.tags["kind"] not in missing]
    ids = ",".join(example.id for example in asked)
    finished = eval_command("experiment=offline", f"split={split}", f"ids=[{ids}]")
    answers = {row["task_id"]: row["model_answer"] for row in finished.answers}
    assert answers == {example.id: example.target for example in asked}
