"""The GAIA question scorer against verdicts written by hand and against a second implementation of the same rule.

Source: the rule quoted in `reference_scorer.py`. The verdicts in `DOCUMENTED` and `VERDICTS` were worked out from its
text, not from running code. Example: `("a; b", "a, b", True)` reads "answer `a; b` is right for ground truth `a, b`".
"""

import math
import re
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval.scorers.gaia import question_scorer
from tests.eval.scorers import reference_scorer as reference

Verdict = tuple[str | int | float | None, str, bool]  # answer, ground truth, is it right
QuestionScorer = Callable[[Any, str], bool]

shipped: QuestionScorer = question_scorer
by_reference: QuestionScorer = reference.question_scorer
both_scorers = pytest.mark.parametrize("score", [shipped, by_reference], ids=["gaia", "reference"])
# The verdict is tested, not its speed: a busy machine must not turn a property red.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

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

EVERY_VERDICT = [*DOCUMENTED.values(), *VERDICTS]


def crossed_pairs() -> set[tuple[str | int | float | None, str]]:
    """Every answer above against every ground truth above: mostly wrong answers of the wrong branch."""
    answers = {answer for answer, _, _ in EVERY_VERDICT}
    return set(product(answers, {truth for _, truth, _ in EVERY_VERDICT}))


def wrongly_judged(score: QuestionScorer) -> list[Verdict]:
    return [(answer, truth, right) for answer, truth, right in EVERY_VERDICT if score(answer, truth) is not right]


@both_scorers
@pytest.mark.parametrize("verdict", DOCUMENTED.values(), ids=DOCUMENTED.keys())
def test_documented_example(score: QuestionScorer, verdict: Verdict) -> None:
    answer, truth, right = verdict
    assert score(answer, truth) is right


@both_scorers
def test_every_verdict_written_by_hand(score: QuestionScorer) -> None:
    assert len(VERDICTS) >= 60
    assert wrongly_judged(score) == []


def test_both_scorers_agree_on_every_answer_against_every_truth() -> None:
    pairs = crossed_pairs()
    right = {(a, t) for a, t in pairs if by_reference(a, t)}
    assert len(pairs) >= 320
    assert len(right) >= 100, "a table of wrong answers alone could not tell two scorers apart"
    assert {(a, t) for a, t in pairs if shipped(a, t)} == right


float_works = reference.is_number

# Each entry replaces one name in the reference, and with it one clause of the rule.
WRONG_VARIANTS: dict[str, tuple[str, object]] = {
    "number_tolerance": ("same_number", lambda a, t: math.isclose(reference.amount(a), reference.amount(t))),
    "punctuation_removed_in_lists": (
        "same_element",
        lambda a, t: (reference.same_number if float_works(t) else reference.same_text)(a, t),
    ),
    "branch_chosen_by_answer": ("question_scorer", lambda a, t: reference.judge_for(str(a))(str(a), t)),
    "thousands_comma_accepted_in_truth": ("is_number", lambda t: float_works(t.replace(",", ""))),
    "numbers_in_lists_as_text": ("same_element", lambda a, t: reference.squeezed(a) == reference.squeezed(t)),
    "list_order_ignored": ("elements", lambda t: sorted(t.replace(";", ",").split(","), key=str.strip)),
    "empty_elements_dropped": ("elements", lambda t: [part for part in re.split("[,;]", t) if part.strip()]),
    "semicolon_does_not_separate": ("elements", lambda t: t.split(",")),
    "whitespace_only_stripped": ("squeezed", lambda t: t.strip().lower()),
    "case_folded": ("squeezed", lambda t: "".join(t.split()).casefold()),
    "lower_cased_before_whitespace_goes": ("squeezed", lambda t: "".join(t.lower().split())),
    "all_but_letters_and_digits_removed": ("bare", lambda t: re.sub(r"[\W_]", "", reference.squeezed(t))),
    "unparsable_is_nan": ("math", SimpleNamespace(inf=math.nan)),
    "none_is_empty_text": ("question_scorer", lambda a, t: by_reference("" if a is None else a, t)),
    "percent_sign_kept": ("NUMBER_SIGNS", frozenset("$,")),
    "euro_sign_deleted": ("NUMBER_SIGNS", frozenset("$%,€")),
}


@pytest.mark.parametrize(("name", "replacement"), WRONG_VARIANTS.values(), ids=WRONG_VARIANTS.keys())
def test_the_table_catches_a_wrong_scorer(name: str, replacement: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrongly_judged(reference.question_scorer) == []
    monkeypatch.setattr(reference, name, replacement)
    assert wrongly_judged(reference.question_scorer) != []


# What the properties draw from: pieces whose meaning changes with the branch, so that near-matches are frequent.
NUMBERS = ["0", "1", "1.0", "01", "-1", "1e0", "1000", "1,000", "1_000", "\uff11", "\u0663", "½", "inf", "nan", "1e999"]
SIGNS = [*"$%,;.!_-+()\u2019", " ", "\t", "\n", "\u00a0", "\u200b", "\x1f"]
REWRITES: list[Callable[[str], str]] = [str, str.swapcase, str.strip, lambda text: text.replace(",", ";")]
WORDS = ["a", "A", "b", "St.", "new York", "ß", "SS", "İ", "ς", "None", "e"]

near_text = st.lists(st.sampled_from(NUMBERS + SIGNS + WORDS), max_size=6).map("".join)
list_like = st.lists(near_text, min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from([",", ";", ", ", " ; "]).map(lambda separator: separator.join(parts))
)
any_text = st.one_of(near_text, list_like, st.sampled_from(NUMBERS), st.floats().map(repr), st.text())


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """The text after up to three small changes, some of which the rule forgives and some not."""
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.sampled_from([start, start, start + 1]))
        text = text[:start] + draw(st.sampled_from(["", *SIGNS, *NUMBERS])) + text[stop:]
        text = draw(st.sampled_from(REWRITES))(text)
    return text


@unhurried
@given(any_text, any_text)
def test_both_scorers_agree_on_unrelated_texts(answer: str, truth: str) -> None:
    assert shipped(answer, truth) is by_reference(answer, truth)


@unhurried
@given(any_text.flatmap(lambda text: st.tuples(edited(text), edited(text))))
def test_both_scorers_agree_on_near_matches(pair: tuple[str, str]) -> None:
    assert shipped(*pair) is by_reference(*pair)


@unhurried
@given(st.one_of(st.none(), st.integers(), st.floats(), st.booleans()), any_text)
def test_both_scorers_agree_on_answers_that_are_not_text(answer: float | None, truth: str) -> None:
    assert shipped(answer, truth) is by_reference(str(answer), truth)
