"""What prompts do in the learnable worlds: the claims of docs/explanation/simulated-worlds.md, by the chances alone."""

import math
from pathlib import Path

import pytest

from mas.simulation.diagnosis import CLAUSES
from mas.simulation.model import LEARNABLE
from mas.simulation.reflection import HARMFUL, USELESS
from mas.simulation.skills.behaviour import Behaviour, World
from mas.simulation.skills.effects import EFFECTS, Effects
from mas.simulation.skills.skills import SKILLS

ROOT = Path(__file__).parents[4]
CALCULATOR, CONVERTER = "Use the calculator.", "Convert units with the unit converter."
BARE, SHORT = "Leave out units unless asked for.", "Answer with few words and no prose."
ROUNDING, LISTS = "Follow the rounding asked for.", "Comma separated lists in the asked order."


def read_prompts(folder: Path) -> dict[str, str]:
    return {path.name.removesuffix("_system_prompt.txt"): path.read_text() for path in folder.glob("*.txt")}


TOY = {f"toy_{agent}": text for agent, text in read_prompts(ROOT / "prompts" / "toy_baseline").items()}
BAD = {f"toy_{agent}": text for agent, text in read_prompts(ROOT / "mas" / "simulation" / "bad_seed").items()}
GAIA = read_prompts(ROOT / "prompts" / "baseline")


def behave(world: str, role: str, prompt: str) -> Behaviour:
    return Behaviour(World(world), role, prompt, {}, question="", decision_key="")


def chance(world: str, role: str, skill: str, *clauses: str) -> float:
    found = behave(world, role, "\n".join(clauses)).compute_chance(skill)
    return math.log(found / (1 - found))


def rate(world: str, role: str, prompt: str) -> float:
    """The product of the chances of an agent's skills."""
    behaviour = behave(world, role, prompt)
    return math.prod(behaviour.compute_chance(name) for name, skill in SKILLS.items() if role in skill.roles)


def share_that_helps(world: str, prompts: dict[str, str]) -> float:
    changes = [
        rate(world, role, f"{prompt}\n{clause}") - rate(world, role, prompt)
        for role, prompt in prompts.items()
        for clause in (*CLAUSES, *USELESS, *HARMFUL)
    ]
    return sum(change > 0.005 for change in changes) / len(changes)


def test_every_learnable_world_has_effects_and_no_other_world_has() -> None:
    assert set(EFFECTS) == set(LEARNABLE)


def test_effects_differ_in_size() -> None:
    weights = EFFECTS["learnable"].weights
    assert max(weights.values()) >= 5 * min(weights.values())


def test_each_repetition_adds_half_of_what_is_missing() -> None:
    effects = EFFECTS["learnable"]
    said = [effects.weigh("toy_solve", "use_the_calculator", "\n".join([CALCULATOR] * n)) for n in range(4)]
    assert said == [0.0, 2.5, 3.75, 4.375]
    assert effects.weigh("toy_solve", "use_the_calculator", "Do the arithmetic in your head.") == -2.5


def test_effects_depend_on_each_other() -> None:
    alone = chance("learnable", "toy_solve", "convert_units_with_the_tool", CONVERTER)
    assert chance("learnable", "toy_solve", "convert_units_with_the_tool", CONVERTER, CALCULATOR) > alone + 0.3
    for skill, own, other in (
        ("leave_out_units_unless_asked", BARE, ROUNDING),
        ("comma_separated_list_in_the_asked_order", LISTS, SHORT),
    ):
        alone = chance("learnable", "toy_finalize", skill, own)
        assert chance("learnable", "toy_finalize", skill, own, other) < alone - 0.3


@pytest.mark.parametrize("prompts", [TOY, GAIA], ids=["toy", "gaia"])
def test_without_headroom_no_clause_helps_and_harmful_ones_harm(prompts: dict[str, str]) -> None:
    assert share_that_helps("noheadroom", prompts) == 0.0
    harmed = [
        rate("noheadroom", role, f"{prompt}\n{clause}") < rate("noheadroom", role, prompt) - 0.005
        for role, prompt in prompts.items()
        for clause in HARMFUL
    ]
    assert sum(harmed) >= len(prompts)


def test_each_prompt_of_the_bad_seed_is_worse_than_the_toy_system_s_own() -> None:
    worse = {"toy_plan": 0.98, "toy_solve": 0.1, "toy_finalize": 0.5}  # the plan matters least
    assert all(
        rate("badseed", role, BAD[role]) < share * rate("badseed", role, TOY[role]) for role, share in worse.items()
    )
    assert all(BAD[role].startswith(TOY[role].rstrip("\n")) for role in TOY), "its harmful clauses can be taken out"


def test_in_the_dense_world_as_large_a_share_of_clauses_helps_in_gaia_as_in_the_toy_system() -> None:
    toy = share_that_helps("normal", TOY)
    assert share_that_helps("dense", GAIA) >= toy
    assert share_that_helps("normal", GAIA) < toy


HEAD, NO_CONVERTER = "Do the arithmetic in your head.", "Do not use the unit converter."
USE, CONVERT = "use_the_calculator", "convert_units_with_the_tool"


@pytest.mark.parametrize(
    ("skill", "clauses", "logits"),
    [
        (USE, [], 0.0),
        (USE, [CALCULATOR], 4.0 * 0.75),
        (USE, [HEAD], -4.0 * 0.75),
        (USE, [CALCULATOR, CALCULATOR], 4.0 * 0.9375),
        (CONVERT, [CONVERTER], 2.0 * 0.75),  # its weight is the usual one
        (USE, [CALCULATOR, CONVERTER], 4.0 * 0.75 + 8.0 * 0.75**2),
        (CONVERT, [CALCULATOR, CONVERTER], 2.0 * 0.75 + 8.0 * 0.75**2),
        (USE, [HEAD, CONVERTER], -4.0 * 0.75),  # only what is asked for goes together
        (CONVERT, [HEAD, CONVERTER], 2.0 * 0.75),
        (ROUND := "follow_the_rounding_asked_for", [ROUNDING, CALCULATOR, CONVERTER], 2.0 * 0.75),
    ],
)
def test_logits_are_weights_by_strength_and_what_two_skills_add_together(
    skill: str, clauses: list[str], logits: float
) -> None:
    effects = Effects({"default": 2.0, USE: 4.0}, together=[(USE, CONVERT, 8.0)], rest=0.25)
    assert effects.weigh("toy_solve", skill, "\n".join(clauses)) == pytest.approx(logits)


def test_a_clause_may_serve_another_skill_of_a_role_but_does_not_harm_it() -> None:
    effects = Effects({"default": 1.0}, serves={"toy_solve": {CONVERT: USE}})
    assert effects.weigh("toy_solve", USE, CONVERTER) == 0.5
    assert effects.weigh("toy_solve", USE, f"{CONVERTER}\n{CALCULATOR}") == 0.75
    assert effects.weigh("toy_solve", USE, NO_CONVERTER) == 0.0
    assert effects.weigh("toy_solve", CONVERT, NO_CONVERTER) == -0.5
    assert effects.weigh("expert", USE, CONVERTER) == 0.0


def test_where_prompts_can_only_lose_the_baseline_asks_once_and_no_more_helps() -> None:
    effects = Effects({"default": 1.0}, only_loses=True)
    assert "expert" in SKILLS[USE].baseline and "planner" not in SKILLS[USE].baseline
    twice = f"{CALCULATOR}\n{CALCULATOR}"
    assert [effects.weigh("expert", USE, each) for each in (twice, CALCULATOR, "", HEAD)] == [0.5, 0.5, 0.0, -0.5]
    assert [effects.weigh("planner", USE, each) for each in (twice, CALCULATOR, "", HEAD)] == [0.0, 0.0, 0.0, -0.5]
    assert Effects({"default": 1.0}).weigh("planner", USE, twice) == 0.75
