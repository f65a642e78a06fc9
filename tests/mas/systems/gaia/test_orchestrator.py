"""Whatever the critics decide: who is asked in which order, what each is asked then, and what is refused."""

import asyncio
from functools import cache
from typing import Any, cast

import pytest
from dspy.lm15 import Request
from hypothesis import given
from hypothesis import strategies as st

from mas.systems.gaia.agents import GraphState, Worker
from mas.systems.gaia.nodes import NODES
from mas.systems.gaia.orchestrator import (
    check_state,
    execute_next_step,
    get_agent_conversation,
    orchestrate,
    route_from_orchestrator,
    send_message,
)
from tests.mas.systems.gaia.building import LIMITS, build, start
from tests.scripted_model import APPROVE, Answer, ScriptedModel, all_text, answering, in_turn, plan, reject

FEW: dict[Worker, int] = {"planner": 2, "researcher": 3, "expert": 2}
MOST_RESEARCH_STEPS = 3


@cache
def build_once() -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(answering())
    return build(model, FEW), model


def walk(rejected: list[bool], plans: list[int]) -> tuple[list[str], str]:
    """Return the agents in order and the one whose retries ran out, if any: by the architecture's document."""
    asked: list[str] = []
    verdicts, sizes = iter(rejected), iter(plans)

    def work(worker: Worker) -> bool:
        for _ in range(FEW[worker]):
            if worker == "planner":
                topics.append(next(sizes, 0))
            asked.extend((worker, f"critic_{worker}"))
            if not next(verdicts, False):
                return True
        return False

    topics: list[int] = []
    if not work("planner"):
        return asked, "planner"
    for worker in (*["researcher"] * topics[-1], "expert"):
        if not work(worker):  # type: ignore[arg-type]
            return asked, worker
    return [*asked, "finalizer"], ""


@given(st.lists(st.booleans(), max_size=14), st.lists(st.integers(0, MOST_RESEARCH_STEPS), max_size=2))
def test_every_course_of_verdicts_leads_where_the_design_says(rejected: list[bool], plans: list[int]) -> None:
    program, model = build_once()
    verdicts, sizes = iter(rejected), iter(plans)

    def review(_: Request) -> Answer:
        return reject("why") if next(verdicts, False) else APPROVE

    def make_plan(_: Request) -> Answer:
        return plan(*(f"topic {n}" for n in range(next(sizes, 0))))

    critics = dict.fromkeys(("critic_planner", "critic_researcher", "critic_expert"), review)
    model.script, model.requests = answering(planner=make_plan, **critics), []
    prediction = program(question="How many?")
    asked, failing = walk(rejected, plans)
    assert model.agents_asked == asked
    assert prediction.state["failing_agent"] == failing
    assert prediction.final_answer == ("The question could not be answered." if failing else "42")
    researched = [each["step_id"] for each in prediction.state["agent_messages"] if each["receiver"] == "researcher"]
    assert researched == sorted(researched)


def test_agents_are_asked_in_the_words_of_the_design() -> None:
    once = {f"critic_{each}": in_turn(reject("name the source"), APPROVE) for each in ("planner", "expert")}
    researched = in_turn(reject("name the source"), APPROVE)
    model = ScriptedModel(answering(planner=plan("one", "two"), critic_researcher=researched, **once))
    build(model, LIMITS)(question="How many?")
    feedback = "Use the following feedback to improve"
    for agent, words in {
        "planner": ["Develop a logical plan to answer the following question:\nHow many?", f"{feedback} the plan:\n"],
        "researcher": ["Research the following topic or question: one", f"{feedback} the research:\n", "question: two"],
        "expert": ["", f"{feedback} your answer:\n"],
    }.items():
        requests = [all_text(each) for each in model.asked(agent)]
        assert len(requests) == len(words)
        assert all(word in request for word, request in zip(words, requests, strict=True))
        assert "name the source" in requests[1] and "name the source" not in requests[0]


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        ("planner", "Include using following file in any of the research steps:towns.csv"),
        ("critic_planner", "The file attached to the question:\ntowns.csv"),
    ],
)
def test_the_plan_and_its_review_are_asked_for_with_the_attachment(agent: str, text: str) -> None:
    requests = [
        execute_next_step(cast(GraphState, {**start(file), "next_step": agent}))["agent_messages"][-1]["content"]
        for file in ("towns.csv", None)
    ]
    assert [text in request for request in requests] == [True, False]
    assert "file" not in requests[1]


def test_no_question_is_refused() -> None:
    with pytest.raises(ValueError, match="No question provided to input interface"):
        build(ScriptedModel(answering()))(question=" ")


def state_with(**fields: Any) -> GraphState:
    return cast(GraphState, {**start(), **fields})


@pytest.mark.parametrize("step", ["critic", "nonsense", ""])
def test_a_step_that_does_not_exist_is_refused_by_name_wherever_it_is_met(step: str) -> None:
    for transition in (orchestrate, execute_next_step, route_from_orchestrator):
        with pytest.raises(ValueError, match=f"^Invalid current step: {step}$"):
            transition(state_with(current_step=step, next_step=step))


@pytest.mark.parametrize("critic", ["critic_planner", "critic_researcher", "critic_expert"])
def test_a_critic_that_has_not_decided_has_not_approved(critic: str) -> None:
    with pytest.raises(ValueError, match=f"^Invalid decision of {critic}"):
        orchestrate(state_with(current_step=critic))


def test_the_critic_refuses_a_step_that_it_has_no_prompt_for() -> None:
    with pytest.raises(RuntimeError, match=r"^Invalid critic step: planner$"):
        asyncio.run(NODES["critic"](state_with(current_step="planner"), cast(Any, None)))


WRONG = {
    "question": 7,
    "agent_messages": "none",
    "research_steps": ["a topic", 2],
    "researcher_states": {0: {"messages": []}},
    "expert_state": "a secret",
    "critic_expert_decision": "perhaps",
    "planner_retry_count": "3",
    "retry_failed": "no",
    "next_step": "nonsense",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_state_with_a_wrong_field_is_refused_before_the_transition(name: str) -> None:
    check_state(state_with(current_step="", next_step=""))
    with pytest.raises(ValueError, match=f"^Invalid state: {name}") as refused:
        orchestrate(state_with(**{name: WRONG[name]}))
    assert "a secret" not in str(refused.value)


def test_messages_have_known_names_and_are_found_by_type_and_research_step() -> None:
    state = state_with(research_steps=["one", "two"])
    state = send_message(state, "orchestrator", "all", "instruction", "The question is done.")
    for sender, receiver, kind in [
        ("orchestrator", "everybody", "instruction"),
        ("somebody", "orchestrator", "response"),
        ("orchestrator", "planner", "order"),
    ]:
        with pytest.raises(ValueError, match=r"Invalid message: (receiver|sender|type)"):
            send_message(start(), sender, receiver, cast(Any, kind), "Hello.")
    for step in (0, 1):
        state = send_message(state, "orchestrator", "researcher", "instruction", f"topic {step}", step)
        state = send_message(state, "researcher", "orchestrator", "response", f"found {step}", step)
    assert [each["content"] for each in get_agent_conversation(state, "researcher", ("response",), 1)] == ["found 1"]
    assert len(get_agent_conversation(state, "researcher")) == 4 and get_agent_conversation(state, "expert") == []
