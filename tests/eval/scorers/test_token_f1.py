"""The words that answer and target share."""

import pytest

from eval.scorers.text import TokenF1Scorer


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
