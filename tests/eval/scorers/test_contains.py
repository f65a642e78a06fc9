import pytest

from eval.scorers.contains import ContainsScorer
from eval.scorers.score import Score


def value(answer: str | None, target: str) -> float:
    return ContainsScorer()("?", answer, target).value


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        ("It is Paris, in France.", "paris"),
        ("PARIS", "Paris"),
        ("the St.\u00a0Petersburg\n paradox", "St. Petersburg paradox"),
        ("it\u2019s \u201codd\u201d", 'it\'s "odd"'),
        ("17 crates", "17"),
        ("It is 17.", "17"),
        ("17, 18", "17"),
        ("pages 3-17", "17"),
        ("(17)", "17"),
        ("\u22124 °C", "-4"),
        ("costs $5 today", "$5"),
        ("C++ it is", "C++"),
        ("ﬁve", "five"),
        ("a.b", "a.b"),
    ],
)
def test_the_gold_as_whole_words_is_right(answer: str, target: str) -> None:
    assert value(answer, target) == 1.0


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        ("comparison", "paris"),
        ("sparis", "paris"),
        ("Parisian", "Paris"),
        ("175", "17"),
        ("117", "17"),
        ("17.5", "17"),
        ("0.17", "17"),
        (".17", "17"),
        ("1,017", "17"),
        ("17,000", "17"),
        ("-17", "17"),
        ("1.5", ".5"),
        ("3-5", "-5"),
        ("-$17", "$17"),
        ("12 500", "500"),
        ("17 000", "17"),
        ("17/20", "17"),
        ("it is \u221217", "17"),
        ("axb", "a.b"),
        ("York New", "New York"),
        ("", "x"),
        (None, "none"),
    ],
)
def test_a_part_of_a_word_or_of_a_number_is_not_the_gold(answer: str | None, target: str) -> None:
    assert value(answer, target) == 0.0


def test_the_explanation_does_not_hold_the_gold() -> None:
    assert "Kalmar" not in ContainsScorer()("?", "Lund", "Kalmar").explanation


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("It is Kalmar.", Score(1.0, "right: the answer holds the expected text")),
        ("Lund", Score(0.0, "expected an answer that holds a given text as whole words; this one does not")),
        (None, Score(0.0, "expected an answer that holds a given text; there is no answer")),
        (" \n", Score(0.0, "expected an answer that holds a given text; there is no answer")),
    ],
)
def test_each_verdict_has_its_words(answer: str | None, score: Score) -> None:
    assert ContainsScorer()("?", answer, "Kalmar") == score


@pytest.mark.parametrize(
    ("answer", "target", "right"),
    [
        ("xC++y", "C++", False), ("C++y", "C++", True), ("xC#", "C#", False), ("a%b", "%", True),
        ("model 5x", "5x", True), ("1.5x", "5x", False), ("x5", "x5", True), ("x5.2", "x5", False),
        ("17/", "17", False), ("17 0000", "17", True), ("1234 500", "500", False), ("12 5000", "5000", True),
        ("a-17", "-17", False), ("a -17", "-17", True), ("a-17", "17", True), ("1'500", "500", False),
        ("€17", "17", True), ("-€17", "17", False),
    ],
)  # fmt: skip
def test_letters_bind_words_and_signs_points_and_groups_bind_numbers(answer: str, target: str, right: bool) -> None:
    assert value(answer, target) == float(right)
