"""The sample's questions about other kinds of files: their golds stand in the files, and the tool finds them there."""

import io
import json
import re
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import SAMPLE, BundledDataset
from mas.simulation.behaviour import Behaviour
from mas.tools.attachments import use_attachments
from mas.tools.read_file import read_file
from scripts.sample_data.make_sample import KINDS, SPLITS, write_sample
from tests.eval.command_line import EvalCommand
from tests.needs import find_missing, skip_without

ABOUT = {split: json.loads((SAMPLE / split / "families.json").read_text()) for split in SPLITS}
BY_SPLIT = {
    split: [each for each in BundledDataset().load(split).samples if ABOUT[split][each.id]["family"] in KINDS]
    for split in SPLITS
}
ALL = [example for split in SPLITS for example in BY_SPLIT[split]]
FAMILY = {example.id: ABOUT[split][example.id]["family"] for split in SPLITS for example in BY_SPLIT[split]}
NAMED_ELSEWHERE = {  # nothing that the question names stands in the answer's line
    *("linked_data", "xml_elements", "protein", "word_letter", "book_chapter"),
    *("wav_rate", "mp3_length", "m4a_length", "xlsx_hidden_row", "xlsx_merged"),
}
NEEDS_OCR = {"png", "jpg", "gif", "webp"}
NEEDS = {**dict.fromkeys(NEEDS_OCR, "tesseract"), "xls": "libreoffice"}


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.tags["kind"])
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
    asked = [each for each in BY_SPLIT[split] if each.tags["kind"] not in missing]
    ids = ",".join(example.id for example in asked)
    finished = eval_command("experiment=offline", f"split={split}", f"ids=[{ids}]")
    answers = {row["task_id"]: row["model_answer"] for row in finished.answers}
    assert answers == {example.id: example.target for example in asked}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample as the generator makes it now."""
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder)
    return folder


@pytest.mark.parametrize("kind", sorted(NEEDS_OCR))
def test_the_generator_draws_the_committed_pictures(kind: str, written: Path) -> None:
    """Another release of Pillow may write other bytes and other grey at the edges of letters."""
    from PIL import Image, ImageChops, ImageStat

    (example,) = [each for each in ALL if each.tags["kind"] == kind]
    assert example.file
    again = written / example.file.relative_to(SAMPLE)
    with Image.open(io.BytesIO(example.file.read_bytes())) as ours, Image.open(again) as theirs:
        assert abs(ours.width - theirs.width) < 10 and ours.height == theirs.height
        size = (min(ours.width, theirs.width), ours.height)
        difference = ImageChops.difference(ours.convert("L").resize(size), theirs.convert("L").resize(size))
    assert ImageStat.Stat(difference).mean[0] < 10
