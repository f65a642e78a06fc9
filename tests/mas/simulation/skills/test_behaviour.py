"""The odds: what saying, showing, denying, contradicting and rambling do to them, and how the draws behave."""

from statistics import mean

import pytest

from mas.simulation.skills.behaviour import Behaviour, World
from mas.simulation.skills.skills import SKILLS

CLAUSE, CONTRARY = "Use the calculator.", "Do not use the calculator."
SKILL = "use_the_calculator"


def behaviour(prompt: str = "", world: str = "normal", shows: float = 0.0, seed: int = 0, n: int = 0) -> Behaviour:
    return Behaviour(World(world, seed), "expert", prompt, {SKILL: shows}, f"What is {n} * 7?", "asked")


def chance(prompt: str = "", world: str = "normal", shows: float = 0.0) -> float:
    return behaviour(prompt, world, shows).compute_chance(SKILL)


def test_saying_helps_more_than_showing_and_denying_hurts() -> None:
    assert chance(CONTRARY) < chance() < chance(shows=1) < chance(shows=3) < chance(CLAUSE) < 0.97


def test_more_than_three_demos_help_no_more() -> None:
    assert chance(shows=3) == chance(shows=9)


def test_contradictions_cancel() -> None:
    assert chance(f"{CLAUSE} {CONTRARY}") <= chance()


def test_long_prompts_dilute() -> None:
    filler = "The matter has many sides to it. "

    assert chance(CLAUSE + filler * 60) == chance(CLAUSE)
    assert chance(CLAUSE + filler * 120) < chance(CLAUSE) - 0.03
    assert chance(CLAUSE + filler * 300) < chance()


@pytest.mark.parametrize("prompt", ["", CLAUSE, CONTRARY, "Anything at all. " * 500])
def test_in_the_null_world_the_prompt_does_not_matter(prompt: str) -> None:
    assert chance(prompt, "null", shows=3) == chance("", "null") == chance(CLAUSE)


@pytest.mark.parametrize("world", ["harmful", "leaky"])
def test_other_worlds_differ_from_the_normal_one_in_their_reflection_only(world: str) -> None:
    assert [behaviour(CLAUSE, world, n=n).draw(SKILL) for n in range(20)] == [
        behaviour(CLAUSE, n=n).draw(SKILL) for n in range(20)
    ]
    assert chance(CLAUSE, world) == chance(CLAUSE)


def test_over_many_questions_the_skill_is_followed_as_often_as_its_chance_says() -> None:
    followed = mean(behaviour(n=n).follows(SKILL) for n in range(4000))

    assert followed == pytest.approx(chance(), abs=0.03)


def test_a_question_that_is_hard_under_one_prompt_tends_to_be_hard_under_another() -> None:
    pairs = [(behaviour("One.", n=n).draw(SKILL), behaviour("Two.", n=n).draw(SKILL)) for n in range(2000)]
    agree = mean((first > 0.5) == (second > 0.5) for first, second in pairs)

    assert 0.6 < agree < 0.8  # 0.5 if questions did not matter, 1 if prompts did not


def test_another_sample_may_turn_out_otherwise() -> None:
    base = behaviour(n=3)
    draws = {Behaviour(base.world, "expert", "", {}, base.question, "asked", sample).draw(SKILL) for sample in range(5)}

    assert len(draws) == 5


def test_another_seed_is_other_luck() -> None:
    assert behaviour(seed=1).draw(SKILL) != behaviour(seed=2).draw(SKILL)


def test_a_second_try_pays_attention() -> None:
    again = Behaviour(World(), "expert", "", {}, "What is 3 * 7?", "asked", revision=1)

    assert again.compute_chance(SKILL) > chance()


def test_there_are_eighteen_skills_each_with_a_role_and_an_error() -> None:
    assert len(SKILLS) == 18
    assert all(skill.roles and skill.error and 0 < skill.talent < 1 for skill in SKILLS.values())
