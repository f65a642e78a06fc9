"""The questions about the invented shop: every split, the fields of a request, and what a system is told."""

import json

import pytest

from eval.benchmarks.databases.bundled import VERSION, BosSampleDataset, keep_given_fields
from eval.benchmarks.dataset import EXPECTED, Sample
from mas.runtime.errors import UserError

FIELDS = {"question", "context", "prefer_agents", "disable_agents"}


@pytest.mark.parametrize("split", BosSampleDataset.tuning_splits)
def test_each_split_has_questions_with_what_a_scorer_expects(split: str) -> None:
    dataset = BosSampleDataset()
    dataset.check()
    samples = dataset.load(split).samples
    assert len({each.id for each in samples}) == len(samples) >= 10
    for each in samples:
        assert each.question == each.inputs["question"] and set(each.inputs) <= FIELDS
        assert all(each.inputs.values()) and {"kind", EXPECTED} <= set(each.tags)
        json.loads(each.tags[EXPECTED])
        assert (each.file, each.level) == (None, None)


def test_the_splits_share_no_question_and_one_has_gaias_name_too() -> None:
    asked = [
        each.question for split in BosSampleDataset.tuning_splits for each in BosSampleDataset().load(split).samples
    ]
    assert len(set(asked)) == len(asked)
    assert BosSampleDataset().load("validation") == BosSampleDataset().load("val")
    with pytest.raises(UserError, match=r"has no split 'dev'.*: test, train, val\.$"):
        BosSampleDataset().load("dev")
    assert BosSampleDataset().version == VERSION == 1


def test_settings_are_checked_with_the_files() -> None:
    with pytest.raises(UserError, match="use one of refuse, skip"):
        BosSampleDataset(on_bad_row="drop").check()
    (sample, *_) = BosSampleDataset(tags=[]).load("val").samples
    assert set(sample.tags) == {"kind", EXPECTED} and sample.tags["kind"] == "none"


def test_fields_that_a_row_does_not_have_are_left_out() -> None:
    inputs = {"question": "a?", "context": "", "prefer_agents": "sql"}
    sample = Sample("1", "question: a?", target="7", inputs=inputs)
    assert keep_given_fields(sample) == Sample("1", "a?", target="7", inputs={"question": "a?", "prefer_agents": "sql"})
