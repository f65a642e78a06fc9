"""The words that answer and target share."""

import pytest

from eval.scorers.score import Score
from eval.scorers.token_f1 import TokenF1Scorer, score_overlap, split_words


@pytest.mark.parametrize(
    ("answer", "target", "value"),
    [
        ("Paris", "paris.", 1.0),  # case, punctuation
        ("The Eiffel Tower", "an Eiffel tower", 1.0),  # articles
        ("Tower Eiffel", "Eiffel Tower", 1.0),  # in any order
        ("Eiffel Tower, Paris", "Eiffel Tower", 0.8),
        ("no no no", "no", 0.5),  # each as often as in both
        ("London", "Paris", 0.0),
        ("an", "the", 0.0), ("the", "the", 1.0), ("+", "-", 0.0), ("+", "+", 1.0),  # no word is left
        ("the", "Paris", 0.0),
        (None, "the", 0.0), ("  ", "Paris", 0.0),
        ("Zürich", "zürich", 1.0),
    ],
)  # fmt: skip
def test_it_gives_the_f1_of_the_words_in_common(answer: str | None, target: str, value: float) -> None:
    assert TokenF1Scorer()("?", answer, target).value == pytest.approx(value)


def test_the_explanation_tells_both_shares_and_not_the_target() -> None:
    score = TokenF1Scorer()("?", "Eiffel Tower, Paris", "Eiffel Tower Gustave")
    assert score.explanation == (
        "partly right: 67% of the answer's words are expected, 67% of the expected ones are in it"
    )
    assert score.parts == {"precision": pytest.approx(2 / 3), "recall": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("answer", "target", "score"),
    [
        (None, "Paris", Score(0.0, "there is no answer", {"precision": 0.0, "recall": 0.0})),
        (" ", "a", Score(0.0, "there is no answer", {"precision": 0.0, "recall": 0.0})),
        (
            "Paris",
            "Paris",
            Score(
                1.0,
                "right: 100% of the answer's words are expected, 100% of the expected ones are in it",
                {"precision": 1.0, "recall": 1.0},
            ),
        ),
        (
            "Oslo",
            "Paris",
            Score(
                0.0,
                "wrong: 0% of the answer's words are expected, 0% of the expected ones are in it",
                {"precision": 0.0, "recall": 0.0},
            ),
        ),
        (
            "red",
            "red green blue grey",
            Score(
                0.4,
                "partly right: 100% of the answer's words are expected, 25% of the expected ones are in it",
                {"precision": 1.0, "recall": 0.25},
            ),
        ),
        (
            " The ",
            "the",
            Score(
                1.0,
                "right: 100% of the answer's words are expected, 100% of the expected ones are in it",
                {"precision": 1.0, "recall": 1.0},
            ),
        ),
    ],
)
def test_the_score_tells_what_is_missing_and_what_is_too_much(answer: str | None, target: str, score: Score) -> None:
    assert TokenF1Scorer()("?", answer, target) == score


def test_words_are_without_case_punctuation_and_articles() -> None:
    assert split_words("The cat's  an-swer, A theory\nand a MAN.") == ["cats", "answer", "theory", "and", "man"]


def test_the_f1_of_two_shares_is_their_harmonic_mean() -> None:
    assert score_overlap(0.5, 0.25, "rows") == Score(
        pytest.approx(1 / 3),
        "partly right: 50% of the answer's rows are expected, 25% of the expected ones are in it",
        {"precision": 0.5, "recall": 0.25},
    )
    assert score_overlap(1.0, 0.0, "rows").value == 0.0
