import pytest

from eval.scorers.text import ExactScorer


def value(answer: str | None, target: str, **options: bool) -> float:
    return ExactScorer(**options)("?", answer, target).value


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        *(("Paris", "Paris"), ("  Paris\n", "Paris"), ("007", "007"), ("caf\u00e9", "cafe\u0301"), ("a  b", "a  b")),
        *(('{"n": 1, "name": "a"}', '{"name":"a","n":1}'), ("[1, 2]", "[1,2]"), ('["\\u00e9"]', '["é"]')),
    ],
)
def test_the_same_text_is_right(answer: str, target: str) -> None:
    assert value(answer, target) == 1.0


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        *(("paris", "Paris"), ("a b", "a  b"), ("7", "007"), ("1e5", "100000"), ("Paris.", "Paris"), ("", "Paris")),
        *(("[2, 1]", "[1, 2]"), ("[1, 2", "[1, 2]"), ('{"n": "1"}', '{"n": 1}')),
    ],
)
def test_another_text_is_wrong(answer: str, target: str) -> None:
    assert value(answer, target) == 0.0


def test_no_answer_is_wrong_also_where_the_gold_is_the_word_none() -> None:
    assert value(None, "None") == 0.0


def test_case_can_be_ignored() -> None:
    assert value("pARis", "Paris", ignore_case=True) == 1.0
    assert value("STRASSE", "straße", ignore_case=True) == 1.0
    assert value("newyork", "New York", ignore_case=True) == 0.0


def test_the_explanation_says_what_differs_and_never_the_gold() -> None:
    nearly = ExactScorer()("?", "kalmar ", "Kalmar").explanation
    assert "only in case or white space" in nearly and "kalmar" not in nearly.lower()
    spaced = ExactScorer()("?", "New  york", "New York").explanation
    assert "only in case or white space" in spaced
    assert "only in case" not in ExactScorer()("?", "Lund", "Kalmar").explanation
