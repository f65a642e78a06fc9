"""The simulated model's settings, and what marks its answers as simulated."""

import pytest

from mas.llm.profiles.model import AgentModel
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel


def test_the_settings_are_checked_and_null_is_a_world() -> None:
    SimulatedModel(world="normal", seed=0).check()
    assert SimulatedModel(world=None).world == "null"
    with pytest.raises(UserError, match=r"no simulated world 'flat'; set model\.world to one of .*normal"):
        SimulatedModel(world="flat").check()
    with pytest.raises(UserError, match=r"model\.seed is -1; expected a whole number from 0 on"):
        SimulatedModel(seed=-1).check()


def test_it_is_known_as_simulated_costs_nothing_and_takes_text_alone() -> None:
    model = SimulatedModel(seed=3)
    assert model.simulated and model.native_tools
    assert (model.secrets(), model.list_unpriced(["any"]), model.pace_history(), model.list_traffic()) == (
        [],
        [],
        [],
        [],
    )
    for lm in (model.create_lm(AgentModel()), model.create_reflection_lm()):
        policy = lm.engine.policy
        assert lm.model == "offline/normal-3" and policy.url == "offline"
        assert policy.price is not None and policy.price.cost_usd(1_000, 0, 1_000) == 0.0
        assert not policy.limits.takes_images and not policy.limits.takes_audio
        assert not lm.cache, "another cache than the run's own would hide requests"
