import pytest

from eval.scorers.gaia import GaiaScorer, match_leniently

FORGIVEN = [
    *(("The answer is 17.", "17"), ("Some steps.\nFINAL ANSWER: 17", "17"), ("There are 17 penguins.", "17")),
    *(("17 m²", "17"), ("17 percent", "17"), ("\N{MINUS SIGN}17", "-17"), ("1,234.5 USD", "1234.5")),
    *(("1 000 000", "1000000"), ("1000", "1,000"), ("1,000 and 2,000", "1000, 2000"), ("The answer is .5", "0.5")),
    *(("The Eiffel Tower", "Eiffel Tower"), ("It is an “Apple”.", "apple"), ("a, b.", "a, b")),
    *(("salt, pepper, and sugar", "salt, pepper, sugar"), ("[salt, the pepper]", "salt, pepper")),
    *(("salt\nand pepper", "salt, pepper"), ("The answer is 3 apples; 4 pears", "3, 4")),
]
NOT_FORGIVEN = [
    *(("The answer is 18.", "17"), ("The answer is .5", "5"), ("The answer is not 17", "17"), ("17 million", "17")),
    *(("17k", "17"), ("17 to 18", "17"), ("5/0", "50"), ("3", "3 Doors Down"), ("17 m", "17 km")),
    *(("b, a", "a, b"), ("a, b, c", "a, b"), ("Paris", "London"), ("", "London"), (".", "."), ("", "")),
    *((None, "None of them"), (None, "none"), ("word " * 1000 + "the answer is 17", "17")),
]


@pytest.mark.parametrize(("answer", "gold"), FORGIVEN)
def test_a_right_answer_in_a_wrong_format_is_a_format_loss(answer: str, gold: str) -> None:
    assert match_leniently(answer, gold)
    score = GaiaScorer()("Which?", answer, gold)
    assert (score.value, score.parts["format_loss"]) == (0.0, 1.0)
    assert "only its format is wrong" in score.explanation


@pytest.mark.parametrize(("answer", "gold"), NOT_FORGIVEN)
def test_a_wrong_answer_is_no_format_loss(answer: str | None, gold: str) -> None:
    assert not match_leniently(answer, gold)


@pytest.mark.parametrize(("answer", "gold"), [("17", "17"), ("50%", "50"), ("a; b", "a, b"), ("St.", "St")])
def test_a_right_answer_has_no_format_loss(answer: str, gold: str) -> None:
    score = GaiaScorer()("Which?", answer, gold)
    assert (score.value, score.parts["format_loss"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("answer", "gold", "reason"),
    [
        ("Osaka", "4711", "expected a number; the answer does not parse as one"),
        ("12", "4711", "expected a number; the answer is another number"),
        ("Osaka", "Kyoto", "expected a text; the answer is another text"),
        ("x", "Kyoto, Nara", "has too few elements"),
        ("x, y, z", "Kyoto, Nara", "has too many elements"),
        ("kyoto, x", "Kyoto, Nara", "differ, counted from 1: 2"),
        (None, "Kyoto", "expected a text; there is no answer"),
        (" ", "4711", "expected a number; there is no answer"),
    ],
)
def test_the_explanation_says_why_and_never_quotes_the_gold_answer(answer: str | None, gold: str, reason: str) -> None:
    explanation = GaiaScorer()("Which?", answer, gold).explanation
    assert reason in explanation
    assert not any(element.strip() in explanation for element in gold.split(","))
