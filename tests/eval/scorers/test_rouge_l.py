"""The longest common subsequence of words."""

from random import Random

import pytest

from eval.scorers.rouge_l import RougeLScorer, measure_common_subsequence


@pytest.mark.parametrize(
    ("answer", "target", "value"),
    [
        ("police kill the gunman", "police killed the gunman", 0.75),  # the examples of the paper
        ("the gunman kill police", "police killed the gunman", 0.5),
        ("Police killed: the gunman!", "police killed the gunman", 1.0),
        ("one", "one two three", 0.5),
        ("Привет, мир", "привет мир", 1.0),
        ("x", "y", 0.0), ("!", "!", 1.0), ("!", "?", 0.0), ("!", "x", 0.0), ("x", "!", 0.0), (None, "x", 0.0),
    ],
)  # fmt: skip
def test_it_gives_the_f_measure_of_words_in_order(answer: str | None, target: str, value: float) -> None:
    assert RougeLScorer()("?", answer, target).value == pytest.approx(value)


def test_the_bits_give_the_length_of_the_textbook_table() -> None:
    draw = Random(0)
    for _ in range(300):
        first, second = (draw.choices("abcd", k=draw.randint(0, 12)) for _ in range(2))
        row = [0] * (len(second) + 1)
        for one in first:
            before = row[:]
            for place, other in enumerate(second, start=1):
                row[place] = before[place - 1] + 1 if one == other else max(before[place], row[place - 1])
        assert measure_common_subsequence(first, second) == row[-1], (first, second)
