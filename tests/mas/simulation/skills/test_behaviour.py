"""The odds: what saying, showing, denying, contradicting and rambling do to them, and how the draws behave."""

import hashlib
import math
from dataclasses import replace
from statistics import NormalDist, mean

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


def logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


TALENT = math.log(SKILLS[SKILL].talent / (1 - SKILLS[SKILL].talent))
FORMAT = "keep_to_the_output_format"


@pytest.mark.parametrize(("shows", "weight"), [(0, 0.0), (1, 0.35), (3, 1.05), (4, 1.05), (-1, -0.35), (-4, -1.05)])
def test_each_demo_up_to_three_adds_its_weight(shows: float, weight: float) -> None:
    assert chance(shows=shows) == pytest.approx(logistic(TALENT + weight))


@pytest.mark.parametrize(("world", "most"), [("learnable", 3), ("noheadroom", 0)])
@pytest.mark.parametrize("shows", [-4, -3, -1, 0, 1, 3, 4])
def test_demos_weigh_as_much_in_worlds_of_other_effects_and_help_none_that_only_loses(
    world: str, most: int, shows: float
) -> None:
    def logit(shows: float) -> float:
        found = chance(world=world, shows=shows)
        return math.log(found / (1 - found))

    assert logit(shows) - logit(0) == pytest.approx(0.35 * max(-3, min(shows, most)))


def test_a_handicap_is_taken_off_the_logit_and_feedback_and_toy_problems_add_to_it() -> None:
    base = behaviour()
    assert base.compute_chance(SKILL, 0.5) == pytest.approx(logistic(TALENT - 0.5))
    assert base.compute_chance(SKILL, -0.1) == pytest.approx(logistic(TALENT + 0.1))
    for revision in (1, 2):
        again = replace(base, revision=revision)
        assert again.compute_chance(SKILL, 1.0) == pytest.approx(logistic(TALENT + 0.8 - 1.0))
    assert replace(base, role="toy_solve").compute_chance(SKILL, 1.5) == pytest.approx(logistic(TALENT + 1.2 - 1.5))


def test_a_chance_is_never_beyond_its_limits() -> None:
    base = behaviour()
    assert (base.compute_chance(SKILL, 99.0), base.compute_chance(SKILL, -99.0)) == (0.02, 0.96)
    assert (base.compute_chance(FORMAT, 99.0), base.compute_chance(FORMAT, -99.0)) == (0.02, 0.997)


@pytest.mark.parametrize(("n_words", "dilution"), [(600, 0.0), (601, 0.0035), (700, 0.35), (1000, 1.4)])
def test_words_beyond_600_dilute_a_prompt(n_words: int, dilution: float) -> None:
    assert chance("word " * n_words) == pytest.approx(logistic(TALENT - dilution))


def test_in_the_null_world_only_the_role_and_its_baseline_count() -> None:
    for skill, about in SKILLS.items():
        talent = math.log(about.talent / (1 - about.talent))
        for role in ("expert", "single", "researcher"):
            null = Behaviour(World("null"), role, "Any.", {skill: 3.0}, "?", "asked")
            logit = talent + 2.5 * (role in about.baseline) - (0.17 if role == "single" else 0.0)
            high = 0.997 if skill == FORMAT else 0.96
            assert null.compute_chance(skill) == pytest.approx(min(max(logistic(logit), 0.02), high))


def uniform(seed: int, text: str) -> float:
    return int.from_bytes(hashlib.blake2b(f"{seed}\n{text}".encode(), digest_size=8).digest(), "big") / 2**64


def test_a_draw_is_made_of_question_skill_prompt_and_sample() -> None:
    base = Behaviour(World("normal", 3), "expert", "Work.", {"b": 1.0, "a": 2.0}, "Q?", "asked", 7)
    digest = hashlib.blake2b(b"Work.\n[('a', 2.0), ('b', 1.0)]", digest_size=8).hexdigest()
    here = f"{digest}\nQ?\nasked\n{SKILL}"
    shares = {"Q?": 0.2, f"Q?\n{SKILL}\nexpert": 0.35, here: 0.25, f"{here}\n7": 0.2}
    normal = NormalDist()
    total = sum(math.sqrt(share) * normal.inv_cdf(uniform(3, text)) for text, share in shares.items())
    assert base.draw(SKILL) == pytest.approx(normal.cdf(total))
    chance_of_it = base.compute_chance(SKILL)
    handicap = math.log(chance_of_it / (1 - chance_of_it)) - math.log(base.draw(SKILL) / (1 - base.draw(SKILL)))
    assert base.follows(SKILL, handicap - 0.01) and not base.follows(SKILL, handicap + 0.01)


@pytest.mark.parametrize("kinds", [1, 2, 3, 10])
def test_an_error_is_one_of_its_kinds_by_request_seed_and_subject(kinds: int) -> None:
    for seed in range(20):
        picked = Behaviour(World("normal", 3), "expert", "", {}, "Q?", "asked", seed).pick(kinds, "plan")
        assert picked == int(uniform(3, f"asked\n{seed}\nplan") * kinds) and 0 <= picked < kinds
