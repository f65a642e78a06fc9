from decimal import Decimal

import pytest

from eval.scorers.numeric import NumericScorer, parse_quantity
from eval.scorers.score import ScorerError
from mas.runtime.errors import UserError


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("12", "12", ""), ("-12", "-12", ""), ("+12", "12", ""), ("\u221212", "-12", ""), ("12.", "12", ""),
        ("12.50", "12.5", ""), (".5", "0.5", ""), ("1e5", "100000", ""), ("1.5E-3", "0.0015", ""), ("007", "7", ""),
        ("1,234,567.8", "1234567.8", ""), ("1 234", "1234", ""), ("1\u202f234", "1234", ""), ("1'234", "1234", ""),
        ("$1,234.50", "1234.5", "$"), ("-$5", "-5", "$"), ("$-5", "-5", "$"), ("€ 5", "5", "€"), ("5 €", "5", "€"),
        ("50%", "50", "%"), ("50 %", "50", "%"), ("50 percent", "50", "%"),
        ("12 crates", "12", "crates"), ("12km/h", "12", "km/h"), ("12 square metres", "12", "square metres"),
        ("3 m²", "3", "m2"), ("3 m^2", "3", "m^2"), ("20 °C", "20", "°c"), ("20 ℃", "20", "°c"), ("45°", "45", "°"),
        ("5 M", "5", "m"), (" 12\n", "12", ""), ("5e", "5", "e"),
    ],
)  # fmt: skip
def test_one_number_alone_is_read_with_its_unit(text: str, value: str, unit: str) -> None:
    assert parse_quantity(text) == (Decimal(value), unit)


@pytest.mark.parametrize(
    "text",
    [
        "", "twelve", "about 12", "the answer is 12", "12 or 13", "12 to 13", "12-13", "12, 13", "12 and a half",
        "5 million", "5k", "5 dozen", "$5M", "$5 b", "1/2", "½", "3,14", "1.234,5", "12,34", "1,2345", "--5", "-$-5",
        "5 5",
        "12 not", "nan", "inf", "1e9999", "0x10", "12 of the forty crates that came", "5 hundredths of one", "1_000",
        "٣", "1" * 300, "12\x00",
    ],
)  # fmt: skip
def test_anything_else_is_no_number(text: str) -> None:
    assert parse_quantity(text) is None


def judged(answer: str | None, target: str, **options: float) -> tuple[float, str]:
    score = NumericScorer(**options)("?", answer, target)
    return score.value, score.explanation


@pytest.mark.parametrize(
    ("answer", "target", "tolerance", "relative", "right"),
    [
        ("12", "12.0", 0, 0, True), ("12.0000001", "12", 0, 0, False), ("0.30", "0.3", 0, 0, True),
        ("1.1", "1.0", 0.1, 0, True), ("1.11", "1.0", 0.1, 0, False), ("0.9", "1", 0.1, 0, True),
        ("101", "100", 0, 0.01, True), ("102", "100", 0, 0.01, False), ("-101", "-100", 0, 0.01, True),
        ("102", "100", 2, 0.01, True), ("100", "102", 0, 0.0196, False), ("0", "0", 0, 0.5, True),
        ("1e300", "1e300", 0, 0, True), ("1e-300", "0", 0, 0, False),
        ("123456789012345678901", "123456789012345678902", 0, 0, False),
        ("$5", "5", 0, 0, True), ("5", "$5", 0, 0, True), ("5 km", "5", 0, 0, True), ("5 km", "5 KM", 0, 0, True),
        ("5 km", "5 m", 0, 0, False), ("50%", "0.5", 0, 0, False), ("€5", "$5", 0, 0, False),
    ],
)  # fmt: skip
def test_the_tolerances_are_exact_and_units_must_agree(
    answer: str, target: str, tolerance: float, relative: float, right: bool
) -> None:
    value, why = judged(answer, target, tolerance=tolerance, relative_tolerance=relative)
    assert value == float(right), why


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "there is no answer"),
        (" ", "there is no answer"),
        ("about 41", "not one number alone"),
        ("42", "another number"),
        ("41 m", "another unit"),
    ],
)
def test_a_wrong_answer_is_told_why_without_the_gold(answer: str | None, words: str) -> None:
    value, why = judged(answer, "41 kg")
    assert value == 0.0 and words in why and "41" not in why


def test_a_gold_that_is_no_number_is_an_error_and_not_a_wrong_answer() -> None:
    with pytest.raises(ScorerError, match="gold answer is not one number") as raised:
        judged("5", "Kalmar")
    assert "Kalmar" not in str(raised.value)


@pytest.mark.parametrize("options", [{"tolerance": -0.1}, {"relative_tolerance": -1.0}, {"tolerance": float("nan")}])
def test_a_tolerance_that_is_none_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"scorer\.\w*tolerance=.* out of range"):
        NumericScorer(**options).check()
    NumericScorer(0.5, 0.01).check()


def test_a_text_of_two_hundred_characters_may_be_a_quantity_and_a_longer_one_is_none() -> None:
    assert parse_quantity("7".rjust(200, "0")) is not None
    assert parse_quantity("7".rjust(201, "0")) is None
