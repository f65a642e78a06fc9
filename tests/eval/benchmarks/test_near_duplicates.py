"""Near-duplicates are found among many questions, and what is made from one template is none."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.near_duplicates import Pairs, find_near_duplicates, format_pairs
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.contamination.forms import COMMON_WORDS

TEXT = "In which year did the keeper of the Velm lighthouse write down the storm that broke its lamp?"
ONE = Sample("a", TEXT, target="1,874")


def find_pairs(samples: Sequence[Sample]) -> Pairs:
    return find_near_duplicates(samples, COMMON_WORDS)


def is_found(other: Sample, one: Sample = ONE) -> bool:
    return find_pairs([one, replace(other, id="b")]) == [("a", "b")]


@pytest.mark.parametrize(
    "question",
    [
        TEXT.replace("write down", "note"),
        TEXT.replace("storm", "gale").replace("In which", "Which"),
        f"Please answer this. {TEXT} Give the number alone.",
        TEXT.upper().replace("?", " ??"),
        TEXT.replace("keeper", "ke\u00e9per"),
    ],
)
@pytest.mark.parametrize("target", ["1874", "1,874", " 1874. "])
def test_another_wording_with_the_same_target_is_found(question: str, target: str) -> None:
    assert is_found(Sample("b", question, target=target))


@pytest.mark.parametrize(
    ("question", "found"),
    [
        (TEXT.replace("In which year did", "What year was it when"), True),
        (TEXT.replace("Velm", "Ostrel"), False),
        (TEXT.replace("lamp", "bell"), False),
        ("Which lighthouse of Velm had a keeper who wrote down the storm?", False),
    ],
)
def test_with_another_target_the_distinctive_words_must_be_the_same(question: str, found: bool) -> None:
    assert is_found(Sample("b", question, target="7"), replace(ONE, question=TEXT)) == found


def test_questions_about_different_attachments_are_different(tmp_path: Path) -> None:
    for name, text in (("1.txt", "a"), ("2.txt", "b"), ("3.txt", "a")):
        (tmp_path / name).write_text(text)
    one, other, same = (replace(ONE, file=tmp_path / f"{n}.txt", question=f"{TEXT} {'Yes?' * n}") for n in (1, 2, 3))
    assert is_found(same, one) and not is_found(other, one) and not is_found(ONE, one)


def test_the_questions_of_a_template_are_no_near_duplicates_and_edited_ones_are_found() -> None:
    sample, toy = BundledDataset(), ToyDataset(n_train=100, n_val=100, n_test=300)
    draw = random.Random(4)
    for data, least in ((sample, 0.8), (toy, 0.97)):
        asked = [each for split in ("train", "val", "test") for each in data.load(split).samples]
        assert find_pairs(asked) == []
        copies = [replace(each, id=f"{each.id}-copy", question=edit(each.question, draw)) for each in asked]
        pairs = find_pairs([*asked, *copies])
        n_found = sum(f"{one}-copy" == other for one, other in pairs)
        assert n_found >= least * len(asked)
        assert len(pairs) - n_found < 0.01 * len(asked)  # the word may replace all that made them different


def edit(text: str, draw: random.Random) -> str:
    """Replace one word."""
    words = text.split()
    words[draw.randrange(len(words))] = "Zorbel"
    return " ".join(words)


def test_a_warning_names_three_pairs() -> None:
    assert format_pairs([("a", "b")]) == "1 pair of questions (a and b)"
    assert format_pairs([("a", "b")] * 4) == "4 pairs of questions (a and b, a and b, a and b, …)"
