"""Effects of changes, estimated from mixtures of them."""

import random

import numpy as np
import pytest

from optimize.search.optimizers.change_effects import ChangeEffects
from optimize.search.optimizers.prompt_changes import Change

CHANGES = [Change("solve", 3, 3, (f"Rule {n}.",)) for n in range(12)]


def test_helpful_changes_are_found_harmful_ones_left_out_and_drawn_less_and_less() -> None:
    rng, effects = random.Random(1), ChangeEffects(seed=1)
    effects.add_changes(CHANGES)
    for n in range(160):
        [mixture] = effects.draw_mixtures(1)
        chance = 0.4 + 0.15 * len(mixture & set(CHANGES[:3])) - 0.3 * len(mixture & set(CHANGES[9:]))
        effects.add_score(mixture, f"q{n % 20}", float(rng.random() < chance))
    best = effects.choose_best()
    assert set(CHANGES[:3]) <= best and not best & set(CHANGES[9:])
    late = effects.draw_mixtures(50)
    assert sum(len(each & set(CHANGES[9:])) for each in late) < 50 * 3 / 4


def test_a_change_of_which_little_is_known_has_the_benefit_of_the_doubt() -> None:
    effects = ChangeEffects(seed=0)
    assert effects.choose_best() == set() and effects.draw_mixtures(3) == []
    effects.add_changes(CHANGES)
    effects.add_changes(CHANGES)
    assert effects.n_changes == 12
    effects.add_score(set(), "q1", 1.0)
    drawn = effects.draw_mixtures(100)
    assert 0.5 < sum(map(len, drawn)) / 1200 < 0.7
    assert effects.choose_best() == set(CHANGES)


def test_changes_that_exclude_each_other_are_never_together() -> None:
    effects, anew = ChangeEffects(seed=0), Change("solve", 0, 4, ("Another prompt.",))
    effects.add_changes([Change("solve", 1, 2, ()), anew])
    effects.add_score(set(), "q1", 0.0)
    drawn = effects.draw_mixtures(50)
    assert {len(each) for each in drawn} == {0, 1}, "at most one of both"


def test_the_effect_of_a_change_is_its_posterior_mean_with_its_prior() -> None:
    """With it and without it, one answer each to one question: two normal observations with a known noise."""
    effects, [change] = ChangeEffects(seed=0), CHANGES[:1]
    effects.add_changes([change])
    effects.add_score({change}, "q1", 1.0)
    effects.add_score(set(), "q1", 0.0)
    mean, covariance = effects._estimate()
    shared = 0.35**2 + 1.0  # variance of what both answers have in common: the question and the base rate
    noise, prior = 0.4**2, 0.1**2
    # the answer without the change tells of what is shared; what is left of it is noise of the answer with it
    rest = shared * noise / (shared + noise) + noise
    gain = prior / (prior + rest)
    assert mean.tolist() == pytest.approx([0.03 + gain * (1.0 - 0.03)])
    assert covariance.tolist() == [pytest.approx([prior * (1 - gain)])]


def test_a_change_of_no_effect_is_left_out_and_one_of_a_tiny_effect_is_not() -> None:
    effects = ChangeEffects(seed=0)
    effects.add_changes(CHANGES[:3])
    assert effects._select(np.array([0.0, 1e-8, -1e-8])) == {CHANGES[1]}
    assert effects._select(np.array([1e-10, 0.0, 0.5])) == {CHANGES[2]}


def test_of_changes_that_exclude_each_other_the_best_is_taken() -> None:
    effects, removed, anew = ChangeEffects(seed=0), Change("solve", 1, 2, ()), Change("solve", 0, 4, ("Another.",))
    effects.add_changes([removed, anew])
    assert effects._select(np.array([0.2, 0.1])) == {removed}
    assert effects._select(np.array([0.1, 0.2])) == {anew}


def test_mixtures_are_drawn_by_the_seed() -> None:
    def draw(seed: int) -> list[set[Change]]:
        effects = ChangeEffects(seed)
        effects.add_changes(CHANGES)
        effects.add_score(set(CHANGES[:2]), "q1", 1.0)
        return effects.draw_mixtures(3)

    assert draw(5) == draw(5) != draw(6) and len(draw(5)) == 3
