"""The GAIA question scorer against verdicts that were worked out by hand from the rule's text.

Example: `("a; b", "a, b", True)` reads "answer `a; b` is right for ground truth `a, b`".
"""

import pytest

from eval.scorers.gaia import question_scorer

Verdict = tuple[str | int | float | None, str, bool]  # answer, ground truth, is it right

DOCUMENTED: dict[str, Verdict] = {
    "thousands_comma_in_truth_makes_a_list": ("1000", "1,000", False),
    "percent_sign_is_deleted": ("50%", "50", True),
    "semicolon_and_comma_both_separate": ("a; b", "a, b", True),
    "list_keeps_punctuation": ("a, b.", "a, b", False),
    "exponent_is_a_number": ("1000", "1e3", True),
    "trailing_point_is_a_number": ("42", "42.", True),
    "underscore_is_a_number": ("1000", "1_000", True),
    "inf_matches_unparsable_text": ("no idea", "inf", True),
    "text_drops_punctuation": ("St.", "St", True),
    "text_drops_punctuation_of_truth": ("St", "St.", True),
    "none_is_the_text_none": (None, "None", True),
    "int_is_its_text": (42, "42", True),
}

VERDICTS: list[Verdict] = [
    # Rule 1: the ground truth is a number.
    ("17", "17", True),
    ("17.0", "17", True),
    ("017", "17", True),
    ("+17", "17", True),
    ("-17", "17", False),
    (" 17\n", "17", True),
    ("17", " 17 ", True),
    ("1 7", "17", False),
    ("$17", "17", True),
    ("$ 17", "17", True),
    ("17 %", "17", True),
    ("%1$7,", "17", True),
    ("€17", "17", False),
    ("17 km", "17", False),
    ("17.", "17", True),
    ("17;", "17", False),
    ("seventeen", "17", False),
    ("", "17", False),
    (None, "17", False),
    (17.0, "17", True),
    ("1,000", "1000", True),
    ("1,0,0,0", "1000", True),
    ("1.000", "1000", False),
    ("1e3", "1000", True),
    ("1_000", "1000", True),
    ("1__000", "1000", False),
    ("1_000", "1e3", True),
    ("0.30000000000000004", "0.3", False),
    ("0.3000000001", "0.3", False),
    (".3", "0.30", True),
    ("-0", "0", True),
    ("0x10", "16", False),
    ("\uff11\uff17", "17", True),
    ("17", "\u0661\u0667", True),
    ("½", "0.5", False),
    ("3, 4", "34", False),
    ("3,4", "34", True),
    ("inf", "inf", True),
    ("17", "inf", False),
    ("-inf", "inf", False),
    ("anything", "-inf", False),
    (None, "Infinity", True),
    ("1e999", "inf", True),
    ("anything", "1e999", True),
    ("nan", "nan", False),
    ("nan", "inf", False),
    # Rule 2: the ground truth is a list.
    ("1,000", "1,000", True),
    ("1;0", "1,000", True),
    ("a,b", "a, b", True),
    ("A ,\tB", "a, b", True),
    ("b, a", "a, b", False),
    ("a", "a, b", False),
    ("a, b, c", "a, b", False),
    ("a, b,", "a, b", False),
    ("a b", "a, b", False),
    ("a and b", "a, b", False),
    ("a, (b)", "a, b", False),
    ("a, b.", "a, b.", True),
    ("a, b", "a, b.", False),
    ("new york; los angeles", "New York, Los Angeles", True),
    ("newyork,losangeles", "New York, Los Angeles", True),
    ("1, $2, 3%", "1, 2, 3", True),
    ("1, 2.0, 3", "1; 2; 3", True),
    ("3, 2, 1", "1, 2, 3", False),
    ("1, two, 3", "1, 2, 3", False),
    ("1, 2.0000001", "1, 2", False),
    ("a, 2.0", "a, 2", True),
    ("2.0, a", "2.0, a", True),
    ("1, $2", "1, $2", True),
    ("1, 2", "1, $2", False),
    ("1 0, 2", "10, 2", False),
    ("whatever, 2", "inf, 2", True),
    ("nan, 1", "nan, 1", False),
    ("a,", "a,", True),
    ("a; ", "a,", True),
    ("a", "a,", False),
    (";", ",", True),
    ("", ",", False),
    (None, "None, None", False),
    # Rule 3: the ground truth is plain text.
    ("paris", "Paris", True),
    (" P a\u00a0r\u2003i s ", "Paris", True),
    ("Par\u200bis", "Paris", False),
    ("Paris, France", "Paris France", True),
    ("Paris; France!", "Paris France", True),
    ("“Paris”", "Paris", False),
    ('"Paris"', "Paris", True),
    ("Pàris", "Paris", False),
    ("the Paris", "Paris", False),
    ("Pariss", "Paris", False),
    ("17 km", "17km", True),
    ("17", "17 km", False),
    ("1/7", "17!", True),
    ("17.0%", "17%", False),
    ("17", "$17", True),
    ("$17.00", "$17", False),
    ("none", "None", True),
    (None, "nothing", False),
    ("", "None", False),
    ("", "", True),
    ("?!", "", True),
    (" ", "...", True),
    ("strasse", "straße", False),
    # Python lower-cases a capital sigma by its neighbours: whitespace goes before the lower-casing, punctuation after.
    ("ΛΣ ΔΓ", "λσδγ", True),
    ("ΛΣ-ΔΓ", "λσδγ", False),
]


@pytest.mark.parametrize("verdict", DOCUMENTED.values(), ids=DOCUMENTED.keys())
def test_documented_example(verdict: Verdict) -> None:
    answer, truth, right = verdict
    assert question_scorer(answer, truth) is right


@pytest.mark.parametrize(("answer", "truth", "right"), VERDICTS)
def test_every_verdict_written_by_hand(answer: str | None, truth: str, right: bool) -> None:
    assert question_scorer(answer, truth) is right
