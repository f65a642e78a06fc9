import pytest

from eval.scorers.text import ContainsScorer


def value(answer: str | None, target: str) -> float:
    return ContainsScorer()("?", answer, target).value


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        *(("It is Paris, in France.", "paris"), ("ﬁve", "five"), ("a.b", "a.b"), ("C++ it is", "C++")),
        *(
            ("the St.\u00a0Petersburg\n paradox", "St. Petersburg paradox"),
            ("it\u2019s \u201codd\u201d", 'it\'s "odd"'),
        ),
        *(("17 crates", "17"), ("It is 17.", "17"), ("17, 18", "17"), ("pages 3-17", "17"), ("(17)", "17")),
        *(("\u22124 °C", "-4"), ("costs $5 today", "$5")),
    ],
)
def test_the_gold_as_whole_words_is_right(answer: str, target: str) -> None:
    assert value(answer, target) == 1.0


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        *(("comparison", "paris"), ("Parisian", "Paris"), ("axb", "a.b"), ("York New", "New York")),
        *(("175", "17"), ("117", "17"), ("17.5", "17"), ("0.17", "17"), (".17", "17"), ("1,017", "17")),
        *(("17,000", "17"), ("-17", "17"), ("1.5", ".5"), ("3-5", "-5"), ("-$17", "$17"), ("12 500", "500")),
        *(("17 000", "17"), ("17/20", "17"), ("it is \u221217", "17"), ("", "x"), (None, "none")),
    ],
)
def test_a_part_of_a_word_or_of_a_number_is_not_the_gold(answer: str | None, target: str) -> None:
    assert value(answer, target) == 0.0
