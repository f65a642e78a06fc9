"""The committed sample: that it is what its generator writes, and that its answers are right."""

import json
import re

from eval.benchmarks.sample_set import SAMPLE, BundledDataset
from scripts.sample_data.make_sample import MARKED, SPLITS

EXAMPLES = {split: BundledDataset().load(split).samples for split in SPLITS}
ALL = [sample for split in SPLITS for sample in EXAMPLES[split]]
ATTACHED = [sample for sample in ALL if sample.file]
ABOUT = {split: json.loads((SAMPLE / split / "families.json").read_text()) for split in SPLITS}
FAMILY = {sample_id: about["family"] for split in SPLITS for sample_id, about in ABOUT[split].items()}
GAIAS_FORM = r"\d+(\.\d\d?)?|[A-Za-z]+( [A-Za-z]+)?(, [A-Za-z]+)*"


def test_no_id_or_question_is_in_two_splits() -> None:
    assert len({sample.id for sample in ALL}) == len({sample.question for sample in ALL}) == len(ALL)


def test_no_question_with_a_file_gives_its_answer_away() -> None:
    for sample in ATTACHED:
        assert sample.target and sample.target.lower() not in sample.question.lower(), sample.id
        assert not any(re.search(rf"\b{part}\b", sample.question) for part in sample.target.split(", ")), sample.id


def test_golds_have_gaias_form() -> None:
    for sample in ALL:
        assert sample.target
        form = r"=B\d\*\d+|FF[\dA-F]{6}|[A-L]\d+:[A-L]\d+" if FAMILY[sample.id] in MARKED else GAIAS_FORM
        assert re.fullmatch(f"{GAIAS_FORM}|{form}", sample.target), sample.target
