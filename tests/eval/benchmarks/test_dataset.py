"""Tests of the contracts of datasets."""

import pytest

from eval.benchmarks.dataset import Sample, Split, classify_attachment, list_gold_texts


def test_files_are_told_apart_by_kind() -> None:
    kinds = [classify_attachment(name) for name in (None, "a.CSV", "a.xlsx", "a.pdf", "a.xyz", "noend")]
    assert kinds == ["none", "table", "table", "text", "xyz", "other"]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ('["one two three four five", "one two three four"]', ["one two three four five"]),
        ('{"a": {"b": ["v w x y z", 5, null]}, "c": "v w x y z!"}', ["v w x y z", "v w x y z!"]),
        ('"a b c d e f"', ["a b c d e f"]),
        ("7", []),
        ("no JSON", ["no JSON"]),
        ("[" * 100_000, ["[" * 100_000]),
    ],
)
def test_of_what_a_scorer_expects_the_longer_texts_are_somebody_s_own(value: str, texts: list[str]) -> None:
    assert list_gold_texts("expected", value) == texts


def test_the_value_of_any_other_tag_is_one_text() -> None:
    assert list_gold_texts("kind", '["one two three four five"]') == ['["one two three four five"]']


def test_a_sample_has_no_more_than_its_question_unless_it_is_given() -> None:
    plain = Sample("1", "a?")
    assert (plain.file, plain.target, plain.level, plain.tags, plain.inputs) == (None, None, None, {}, {})
    assert Split((plain,)) == Split((plain,), bad_rows=(), notes=())
