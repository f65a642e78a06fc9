"""Effects of changes, estimated from mixtures of them."""

import random

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
