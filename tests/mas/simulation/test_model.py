"""The simulated model's settings, and what marks its answers as simulated."""

import asyncio
from typing import Any

import pytest
from dspy.lm15 import Message, Request, TextPart

from mas.llm.prices import FREE
from mas.llm.profiles.model import AgentModel
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel, reflection, task_model
from mas.simulation.model import WORLDS


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


def test_each_world_is_known_by_name() -> None:
    for world in WORLDS:
        SimulatedModel(world=world, seed=7).check()
    with pytest.raises(UserError) as raised:
        SimulatedModel(world="flat").check()
    assert str(raised.value) == (
        "There is no simulated world 'flat'; set model.world to one of normal, null, harmful, leaky, learnable, "
        "shuffled, badseed, noheadroom, dense."
    )


def test_either_lm_asks_its_own_simulation_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request("any", (Message("user", (TextPart("hello"),)),))
    asked: list[tuple[str, Request]] = []
    answer: Any = object()

    def reply(name: str) -> Any:
        return lambda given: (asked.append((name, given)), answer)[1]

    monkeypatch.setattr(task_model, "answer_request", reply("task"))
    monkeypatch.setattr(reflection, "propose_prompt", reply("reflection"))
    model = SimulatedModel(world="leaky", seed=4, native_tools=False, call_deadline_seconds=7.0)
    lms = {"task": model.create_lm(AgentModel(temperature=0.3)), "reflection": model.create_reflection_lm("any")}
    for name, lm in lms.items():
        assert (lm.model, lm.native_tools, lm.deadline_seconds) == ("offline/leaky-4", False, 7.0)
        assert lm.engine.policy.deadline_seconds == 7.0 and lm.engine.policy.price is FREE
        assert lm.engine.policy.limits.model == "offline"
        assert lm.engine.inner.complete(request) is answer
        assert asyncio.run(lm._async_engine_spec.inner.complete(request)) is answer
        assert asked == [(name, request)] * 2
        asked.clear()
    assert [lm.kwargs.get("temperature") for lm in lms.values()] == [0.3, None]
