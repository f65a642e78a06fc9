"""Finding a gold answer: strictly where it must not be, carefully where it is evidence."""

from decimal import Decimal

import pytest

from eval.analysis.attribution.target_matcher import LabelMatcher, TargetMatcher, extract_numbers, split_elements
from eval.scorers.labels import LabelSet


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


@pytest.mark.parametrize(
    ("target", "weak"),
    [
        ("100", False),
        ("99", True),
        ("-100", False),
        ("-99", True),
        ("99.5", False),
        ("abcd", False),
        ("a-b c", True),
        ("abc, 5", True),
        ("abc, Velmomar", False),
        ("?!", True),
    ],
)
def test_a_target_is_weak_below_four_letters_or_a_hundred(target: str, weak: bool) -> None:
    assert TargetMatcher(target).is_weak is weak
    assert TargetMatcher(target).is_within(f"there: {target}") is not weak


@pytest.mark.parametrize(
    ("target", "text", "rounded", "truncated"),
    [
        ("100.5", "100", True, True),  # half to even, and the largest difference
        ("100.5", "101", True, True),  # half up
        ("100", "100.5", True, False),
        ("99.5", "99", False, False),  # another value: more than half a percent
        ("7201.12", "7201", True, True),
        ("7201.12", "7201.1189", True, False),
        ("7201.12", "7202", False, False),
        ("7201.12", "7201.13", False, False),
        ("7201.12", "7201.120", False, False),
        ("-7201.12", "-7201", True, True),
        ("7201.12", "many", False, False),
        ("Velmomar", "7201", False, False),
    ],
)
def test_a_number_is_rounded_by_at_most_half_a_percent(target: str, text: str, rounded: bool, truncated: bool) -> None:
    matcher = TargetMatcher(target)
    assert (matcher.is_rounded(text), matcher.is_truncated(text)) == (rounded, truncated)
    assert matcher.matches(text) or not rounded


@pytest.mark.parametrize(
    ("target", "text", "reordered"),
    [
        ("Boworn, Fikesn", "fikesn and BOWORN", True),
        ("Boworn, Fikesn", "Boworn; Fikesn", False),
        ("Boworn, Fikesn", "Fikesn, Boworn, Fikesn", False),
        ("Boworn, Fikesn", "Fikesn", False),
        ("Boworn", "Boworn", False),
    ],
)
def test_a_list_in_another_order_is_reordered(target: str, text: str, reordered: bool) -> None:
    assert TargetMatcher(target).is_reordered(text) is reordered


@pytest.mark.parametrize(
    ("target", "answer", "contained"),
    [
        ("Velmomar", "I arrive at Velmomar of 17.", True),
        ("Velmomar", "Velmomar of 17, or 18", False),
        ("3177 of 4021 crates", "With 5, I arrive at 3177 of 4021 crates.", False),
        ("Velmomar, Boworn", "It is Velmomar and also Boworn there", False),
        ("Velmomar", "It is Boworn", False),
    ],
)
def test_one_thing_in_an_answer_with_few_other_numbers_is_right_in_content(
    target: str, answer: str, contained: bool
) -> None:
    assert TargetMatcher(target).is_contained_in(answer) is contained


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("a, and b; c\nd and e", ["a", "b", "c", "d", "e"]),
        ("1,234", ["1,234"]),
        ("sand and land", ["sand", "land"]),
        ("a, ?!, b", ["a", "b"]),
        (" alone ", ["alone"]),
        ("?!", []),
    ],
)
def test_the_elements_of_a_list(text: str, elements: list[str]) -> None:
    assert split_elements(text) == elements


def test_all_numbers_of_a_text_are_found_in_any_spelling() -> None:
    found = extract_numbers("-5 of 1,234.5 and .25, three or TWENTY; v2")
    assert found == {Decimal(each) for each in ("5", "1234.5", "1", "234.5", "0.25", "3", "20", "2")}
    assert extract_numbers("none") == set()


LABELS = LabelSet(("York", "New York", "Boston"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("york", {"York"}),
        ("NEW york", {"New York"}),
        ("I think New York it is", {"New York"}),
        ("York, not New York", {"York", "New York"}),
        ("New York or Boston", {"New York", "Boston"}),
        ("Yorkshire", set()),
        ("", set()),
    ],
)
def test_labels_are_whole_words_and_not_parts_of_longer_labels(text: str, names: set[str]) -> None:
    for label in LABELS.names:
        matcher = LabelMatcher(label, LABELS)
        assert matcher.find_names(text) == names
        assert matcher.matches(text) is matcher.is_contained_in(text) is (names == {label})


def test_a_label_may_be_named_and_is_no_evidence() -> None:
    matcher = LabelMatcher("New York", LABELS)
    assert (matcher.is_weak, matcher.is_quoted_in("New York"), matcher.is_within("New York")) == (True, False, False)
