"""The toy program: what its three agents say to each other, what it leaves behind, and both ways of calling it."""

import asyncio
import re

import pytest
from dspy.utils.exceptions import AdapterParseError

from eval.cli.paths import PROJECT_ROOT
from mas.agents.spec import ModelSettings
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.trace import Trace, record_trace
from mas.systems.toy.system import AGENTS, ToySystem
from tests.mas.systems.toy.toy_model import ToyModel, build
from tests.scripted_model import UNREADABLE, system_text

QUESTION = "A rope costs 3 crowns. What do 4 ropes cost, less 2?"


def test_each_agent_is_asked_once_in_order_with_its_prompt() -> None:
    model = ToyModel()
    build(model)(question=QUESTION)
    assert model.agents_asked == list(AGENTS)
    texts = read_prompt_set("toy_baseline", AGENTS, "toy", PROJECT_ROOT).texts
    for agent, request in model.requests:
        prompt = re.sub(r"\s+", " ", texts[agent])
        assert prompt in re.sub(r"\s+", " ", system_text(request))


def test_an_unreadable_reply_ends_the_question_where_it_came() -> None:
    trace = Trace("thread-1")
    model = ToyModel(solve=UNREADABLE)
    with record_trace(trace), pytest.raises(AdapterParseError):
        asyncio.run(build(model).acall(question=QUESTION))
    assert "finalize" not in model.agents_asked
    failed = [span.name for span in trace.spans if span.kind == "agent" and span.error]
    assert failed == ["solve"]
    assert trace.state["steps"] == ["Multiply 3 by 4.", "Take 2 away."]
    assert trace.state["result"] == ""


def test_an_unknown_agent_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"names planner; the toy system's agents are finalize, plan, solve\.$"):
        ToySystem(agents={"planner": ModelSettings()}).check()
