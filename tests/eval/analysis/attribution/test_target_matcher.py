"""Finding a gold answer: strictly where it must not be, carefully where it is evidence."""

import pytest

from eval.analysis.attribution.target_matcher import TargetMatcher


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("17", "there were 17 of them"),
        ("17", "the 17th"),
        ("3", "a list of three items"),
        ("1234.5", "it came to $1,234.50"),
        ("1234", "1 234 metres"),
        ("-5", "off by 5"),
        ("0.5", "about .5"),
        ("Paris", "not PARIS, surely"),
        ("Café Noir", "the cafe-noir"),
        ("St. Petersburg", "in st petersburg"),
        ("the stove", "behind a stove"),
        ("Boworn, Fikesn", "without Fikesn"),
        ("red, 12; blue", "twelve"),
        ("answer", "it answered"),
        ("New York", "newyorkers"),
        ("?!", "what?!"),
        ("Straße", "the STRASSE"),
    ],
)
def test_a_quotation_is_seen_in_any_form(target: str, text: str) -> None:
    assert TargetMatcher(target).is_quoted_in(text)


@pytest.mark.parametrize(
    ("target", "text"),
    [("17", "171 and 0.9"), ("no", "nothing is known"), ("cat", "concatenated"), ("Paris", "a parish"), ("4", "42")],
)
def test_what_only_looks_like_it_is_no_quotation(target: str, text: str) -> None:
    assert not TargetMatcher(target).is_quoted_in(text)


@pytest.mark.parametrize(
    ("target", "text", "held"),
    [
        ("88450.42", "88450.42", True),
        ("88450.42", "88450.4187 cm", True),
        ("88450.42", "88450", True),
        ("88450.42", "88450.43", False),
        ("88450.42", "88451", False),
        ("0.4", "0", False),
        ("17", "16.9", False),
        ("8.5", "8.4987", True),
        ("Velmomar", "After all of that I arrive at Velmomar.", True),
        ("1333", "I arrive at 1333.", True),
        ("1333", "It may be 1333 or 1477.", False),
        ("4", "I arrive at 4.", False),
        ("3177 of 4021 crates", "I arrive at 3177 of 4021 crates.", True),
        ("Boworn, Fikesn", "Boworn and Fikesn", True),
        ("Boworn, Fikesn", "Fikesn, Boworn", True),
        ("Boworn, Fikesn", "Boworn, Drazeth, Fikesn", False),
    ],
)
def test_an_answer_is_right_in_content_whatever_its_form(target: str, text: str, held: bool) -> None:
    assert TargetMatcher(target).is_contained_in(text) is held


def test_a_short_gold_answer_in_a_long_text_is_no_evidence() -> None:
    page = "Row 4: the cat sat on 17 mats, and a no was heard in Velmomar, where 2500 people live."

    assert not any(TargetMatcher(target).is_within(page) for target in ("4", "17", "no", "cat", "4, 17"))
    assert TargetMatcher("Velmomar").is_within(page)
    assert TargetMatcher("2,500").is_within(page)
    assert TargetMatcher("Velmomar, 17").is_within(page)
    assert not TargetMatcher("Velmomar, Boworn").is_within(page)
