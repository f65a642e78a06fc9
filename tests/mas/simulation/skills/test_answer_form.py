"""Forms of an answer: with every rule followed, and with each of them forgotten."""

from typing import Any

import pytest

from mas.simulation.skills.answer_form import add_unit, find_unit, format_answer, reverse_list, wants_list, wants_unit

WEIGHT = "How many kilograms are left? Round to two decimal places."
NAMES = "List the names in alphabetical order, separated by commas."
RULES = {
    "prose": "answer_with_few_words_no_prose",
    "rounding": "follow_the_rounding_asked_for",
    "separators": "no_thousands_separators",
    "units": "leave_out_units_unless_asked",
    "order": "comma_separated_list_in_the_asked_order",
}


class Forgetting:
    """Follows every rule but those that it forgets, and makes the error of a kind."""

    def __init__(self, *rules: str, kind: int = 2) -> None:
        self.forgotten, self.kind = {RULES[rule] for rule in rules}, kind

    def follows(self, skill: str) -> bool:
        assert skill in RULES.values()
        return skill not in self.forgotten

    def pick(self, kinds: int, of: str) -> int:
        return min(self.kind, kinds - 1)


def form(question: str, given: str, behaviour: Any) -> str:
    return format_answer(question, given, behaviour)


@pytest.mark.parametrize(
    ("question", "given", "forgotten", "answer"),
    [
        (WEIGHT, "5611.614 kilograms", (), "5611.61"),
        (WEIGHT, "about $5,611.614", ("rounding",), "5611.614"),
        (WEIGHT, "5611.614", ("separators",), "5,611.61"),
        (WEIGHT, "999.614", ("separators",), "999.61"),
        (WEIGHT, "1000", ("separators", "rounding"), "1,000"),
        (WEIGHT, "5611.614 grams", ("units",), "5611.61 grams"),
        (WEIGHT, "5611.614", ("units",), "5611.61 kilograms"),
        ("What is the sum?", "17", ("units",), "17"),
        ("What is it, with its unit?", "17 crowns", (), "17 crowns"),
        ("What is it, with its unit?", "17", ("units",), "17"),
        (NAMES, "Rome, oslo, Lima", (), "Lima, oslo, Rome"),
        ("List the names, separated by commas.", "Rome, Oslo", (), "Rome, Oslo"),
        (NAMES, "Rome, Oslo, Lima", ("order",), "Rome, Oslo and Lima"),
        ("Where is it?", "Rome, Italy", (), "Rome, Italy"),
        (WEIGHT, "none", (), "none"),
        ("Where is it?", "Rome", ("prose",), "After working through the question, I arrive at Rome."),
    ],
)
def test_an_answer_has_the_form_asked_for_unless_the_rule_is_forgotten(
    question: str, given: str, forgotten: tuple[str, ...], answer: str
) -> None:
    assert form(question, given, Forgetting(*forgotten)) == answer


def test_a_separator_is_a_blank_or_a_comma() -> None:
    assert form(WEIGHT, "5611.614", Forgetting("separators", kind=1)) == "5 611.61"


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("How many kilograms are left?", "kilograms"),
        ("How many of the boats sank?", "boats"),
        ("How many are left?", ""),
        ("Convert it to degrees celsius.", "degrees celsius"),
        ("What is the number of ships?", "ships"),
        ("What are the crates received?", "crates"),
        ("Give the tonnes shipped.", "tonnes"),
        ("Where is it?", ""),
    ],
)
def test_the_unit_is_what_is_counted_or_measured(question: str, unit: str) -> None:
    assert find_unit(question) == unit
    assert add_unit(question, "17") == f"17 {unit}".strip()
    assert add_unit(question, "Rome") == "Rome"


def test_what_a_question_wants_is_read_from_its_words() -> None:
    assert (
        not wants_unit("Give a unit.")
        and wants_unit("Give its unit.")
        and wants_unit("Include the units.")
        and wants_unit("including the unit")
    )
    assert wants_list("Sort from the most to the fewest.") and wants_list(NAMES) and not wants_list(WEIGHT)
    assert reverse_list("a, b, c") == "c, b, a"


@pytest.mark.parametrize(
    ("given", "forgotten", "kind", "answer"),
    [
        ("999.994", ("separators",), 2, "999.99"),
        ("1000", ("separators",), 2, "1,000.00"),
        ("-1000", ("separators",), 2, "-1,000.00"),
        ("1234567.891", ("separators",), 0, "1 234 567.89"),
        ("1234567.891", ("separators",), 1, "1 234 567.89"),
        ("1,234.5", (), 0, "1234.50"),
        ("roughly 12.345 kg", ("units",), 0, "12.35 kg"),
        ("12 boxes of 3", (), 0, "12.00"),
        ("$12", (), 0, "12.00"),
        ("$12", ("rounding",), 0, "12"),
    ],
)
def test_a_number_is_written_in_its_form(given: str, forgotten: tuple[str, ...], kind: int, answer: str) -> None:
    assert form(WEIGHT, given, Forgetting(*forgotten, kind=kind)) == answer


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (0, "Based on the research, the final answer is Rome."),
        (1, "The answer is Rome, as the work above shows."),
        (2, "After working through the question, I arrive at Rome."),
        (9, "After working through the question, I arrive at Rome."),
    ],
)
def test_prose_is_one_of_three_sentences(kind: int, sentence: str) -> None:
    assert form("Where is it?", "Rome", Forgetting("prose", kind=kind)) == sentence
