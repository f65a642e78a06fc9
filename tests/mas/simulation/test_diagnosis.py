"""The reflection of the learnable worlds: it uses good feedback, and without it is no better than chance."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import NormalDist

import pytest

from mas.simulation.diagnosis import (
    CLAUSES,
    SUBJECTS,
    Draws,
    choose_clause,
    find_subjects,
    remove_contrary,
    shuffle_words,
)
from mas.simulation.reflection import HARMFUL, USELESS, Brief, _change_instruction
from mas.simulation.skills.lexicon import count_votes

BLIND = json.loads((Path(__file__).parent / "skills" / "paraphrases_blind.json").read_text())["clauses"]
MEANT = {
    "arithmetic": "use_the_calculator",
    "conversion": "convert_units_with_the_tool",
    "table": "check_the_right_row_and_column",
    "rounding": "follow_the_rounding_asked_for",
    "unit": "leave_out_units_unless_asked",
    "prose": "answer_with_few_words_no_prose",
    "separators": "no_thousands_separators",
    "order": "comma_separated_list_in_the_asked_order",
    "plan": "keep_the_plan_short_and_complete",
    "file": "read_the_attached_file_first",
    "sources": "use_tools_not_memory",
    "exactness": "quote_exact_values",
    "gaps": "say_what_was_not_found",
    "false_alarms": "reject_only_real_faults",
    "misses": "recompute_before_approving",
    "format": "keep_to_the_output_format",
}
UNIT = (
    "The final answer was wrong. Expected was a whole number, without a unit. A unit or currency sign stood beside the "
    "number. It first went wrong with this agent."
)
ELSEWHERE = (
    "The final answer was wrong. A unit or currency sign stood beside the number. It first went wrong with another "
    "agent, solve, and this agent's part was fine as far as can be told."
)
OTHERS = [*USELESS, *HARMFUL]
N = 600


def added(world: str, feedback: str) -> list[str]:
    """The clauses that many proposals add."""
    brief = Brief("You are the finalizer.", feedback, (), False)
    lines = [_change_instruction(brief, world, Draws(f"{world}\n{n}")).splitlines()[1:] for n in range(N)]
    return [line for each in lines for line in each if line != "You are the finalizer."]


def share_fitting(clauses: list[str]) -> float:
    return sum(each in SUBJECTS["unit"]["clauses"] for each in clauses) / len(clauses)


def test_feedback_that_is_good_is_used() -> None:
    assert find_subjects(UNIT) == {"unit": 1}
    assert share_fitting(added("learnable", UNIT)) > 0.7


@pytest.mark.parametrize(
    ("world", "feedback"),
    [("learnable", ""), ("learnable", "This is fine."), ("learnable", ELSEWHERE), ("shuffled", UNIT), ("dense", "")],
)
def test_without_good_feedback_a_proposal_is_no_better_than_chance(world: str, feedback: str) -> None:
    clauses = added(world, feedback)
    expected = len(SUBJECTS["unit"]["clauses"]) / len([*CLAUSES, *OTHERS])
    noise = 3 * (expected * (1 - expected) / len(clauses)) ** 0.5
    assert abs(share_fitting(clauses) - expected) < noise
    helpful = len(CLAUSES) / len([*CLAUSES, *OTHERS])
    noise = 3 * (helpful * (1 - helpful) / len(clauses)) ** 0.5
    assert abs(sum(each in CLAUSES for each in clauses) / len(clauses) - helpful) < noise


def test_a_line_that_says_the_opposite_is_taken_out_if_the_feedback_calls_for_it() -> None:
    lines = ["You are the finalizer.", "Give the answer.", "Always write the unit behind the number."]
    kept = [remove_contrary(lines, UNIT, Draws(str(n))) for n in range(100)]
    assert 65 <= sum(each == lines[:2] for each in kept) <= 95
    assert all(
        remove_contrary(lines, feedback, Draws(str(n))) == lines for n in range(20) for feedback in ("", ELSEWHERE)
    )


def test_the_same_draws_choose_the_same_clause() -> None:
    assert choose_clause(UNIT, Draws("a"), 0, OTHERS) == choose_clause(UNIT, Draws("a"), 0, OTHERS)


def test_the_recogniser_reads_the_reflection_s_words_no_better_than_another_author_s() -> None:
    """The rates of recognised clauses are equal within noise: two-sided test of two proportions."""
    assert set(MEANT) == set(SUBJECTS)
    own = [count_votes(each)[MEANT[name]] > 0 for name, about in SUBJECTS.items() for each in about["clauses"]]
    other = [count_votes(each["text"])[each["skill"]] > 0 for each in BLIND]
    pooled = (sum(own) + sum(other)) / (len(own) + len(other))
    assert 0.5 < pooled < 1.0, "neither bank is written for the recogniser"
    error = (pooled * (1 - pooled) * (1 / len(own) + 1 / len(other))) ** 0.5
    z = (sum(own) / len(own) - sum(other) / len(other)) / error
    assert 2 * (1 - NormalDist().cdf(abs(z))) > 0.1


class Given(Draws):
    """Draws with given numbers; one that is not given must not be drawn."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        self.numbers = numbers

    def draw(self, what: str) -> float:
        return self.numbers[what]


def test_a_draw_depends_on_its_key_and_name_and_is_spread_evenly() -> None:
    key = hashlib.blake2b(b"a", digest_size=16).digest()
    drawn = hashlib.blake2b(b"x", key=key, digest_size=8).hexdigest()
    assert Draws("a").draw("x") == int(drawn, 16) / 2**64
    numbers = [Draws("b").draw(str(n)) for n in range(500)]
    assert len(set(numbers)) == 500 and all(0 <= each < 1 for each in numbers)
    assert sum(numbers) / 500 == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("number", "option"), [(0.0, "a"), (0.33, "a"), (0.34, "b"), (0.66, "b"), (0.99, "c")])
def test_each_option_has_an_equal_part_of_the_numbers(number: float, option: str) -> None:
    assert Given({"which": number}).choose("which", ["a", "b", "c"]) == option


TWO = "The rounding was wrong.\nA unit or currency sign stood beside it.\nMore than the bare number stood there."


def test_remarks_are_counted_by_subject_without_those_about_others() -> None:
    assert find_subjects(TWO) == {"rounding": 1, "unit": 2}
    assert find_subjects(f"{TWO}\nROUNDING WAS WRONG, but the fault lay elsewhere.") == {"rounding": 1, "unit": 2}
    assert find_subjects("Nothing in this agent's part has to change: the rounding was wrong.") == {}


def test_a_clause_fits_a_subject_as_often_as_it_is_named_or_comes_by_chance() -> None:
    subjects = list(find_subjects(TWO).elements())
    assert sorted(subjects) == ["rounding", "unit", "unit"]
    for place, subject in enumerate(subjects):
        clauses = SUBJECTS[subject]["clauses"]
        numbers = {"uses feedback 4": 0.79, "subject 4": (place + 0.5) / 3, "clause 4": 0.999}
        assert choose_clause(TWO, Given(numbers), 4, OTHERS) == clauses[-1]
        assert choose_clause(TWO, Given({**numbers, "clause 4": 0.0}), 4, OTHERS) == clauses[0]
    chance = {"uses feedback 4": 0.8, "any clause 4": 0.0}
    assert choose_clause(TWO, Given(chance), 4, OTHERS) == CLAUSES[0]
    assert choose_clause(TWO, Given({**chance, "any clause 4": 0.9999}), 4, OTHERS) == OTHERS[-1]
    assert choose_clause("", Given({"any clause 0": 0.0}), 0, OTHERS) == CLAUSES[0]


def test_only_the_first_contrary_line_goes_and_never_the_first_line_of_all() -> None:
    units, rounding = "Always write the unit.", "Do not round anything."
    lines = [units, "Be brief.", rounding, "Also add the units.", units]
    takes = Given({"takes out": 0.79})
    assert remove_contrary(lines, "More than the bare number.", takes) == [units, "Be brief.", rounding, units]
    assert remove_contrary(lines, "The rounding was wrong.", takes) == [*lines[:2], *lines[3:]]
    assert remove_contrary(lines[:2], "More than the bare number.", takes) == lines[:2]
    assert remove_contrary(lines, "The rounding was wrong.", Given({"takes out": 0.8})) == lines


def test_words_are_put_in_the_order_of_their_draws() -> None:
    draws = Given({"word 0": 0.5, "word 1": 0.9, "word 2": 0.1})
    assert shuffle_words(" one  two\nthree ", draws) == "three one two"
