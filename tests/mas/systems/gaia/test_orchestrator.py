"""The orchestrator as pure functions: the routing table, the retry counters, and what is said to whom."""

import asyncio
from typing import Any, cast

import pytest

from mas.systems.gaia.agents import WORKERS, AgentMessage, GraphState, describe_exhaustion, initial_state
from mas.systems.gaia.messages import get_agent_conversation, send_message
from mas.systems.gaia.nodes import critic
from mas.systems.gaia.orchestrator import (
    check_retry_limit,
    check_state,
    determine_next_step,
    execute_next_step,
    orchestrate,
    route_from_orchestrator,
)
from tests.mas.systems.gaia.building import LIMITS, build, start
from tests.scripted_model import ScriptedModel, answering


def state_with(**fields: Any) -> GraphState:
    return cast(GraphState, {**start(), **fields})


def newest(state: GraphState) -> AgentMessage:
    return state["agent_messages"][-1]


TWO = ["first topic", "second topic"]
ROUTES: dict[str, tuple[dict[str, Any], str]] = {  # current step and the fields that decide → next step
    "question taken in": ({"current_step": "input"}, "planner"),
    "planned": ({"current_step": "planner"}, "critic_planner"),
    "researched": ({"current_step": "researcher"}, "critic_researcher"),
    "answered": ({"current_step": "expert"}, "critic_expert"),
    "plan approved": (
        {"current_step": "critic_planner", "critic_planner_decision": "approve", "research_steps": TWO},
        "researcher",
    ),
    "plan without research approved": (
        {"current_step": "critic_planner", "critic_planner_decision": "approve", "research_steps": []},
        "expert",
    ),
    "plan rejected": (
        {"current_step": "critic_planner", "critic_planner_decision": "reject", "research_steps": TWO},
        "planner",
    ),
    "research approved, more to come": (
        {
            "current_step": "critic_researcher",
            "critic_researcher_decision": "approve",
            "research_steps": TWO,
            "current_research_index": 0,
        },
        "researcher",
    ),
    "last research approved": (
        {
            "current_step": "critic_researcher",
            "critic_researcher_decision": "approve",
            "research_steps": TWO,
            "current_research_index": 1,
        },
        "expert",
    ),
    "research rejected": (
        {
            "current_step": "critic_researcher",
            "critic_researcher_decision": "reject",
            "research_steps": TWO,
            "current_research_index": 1,
        },
        "researcher",
    ),
    "answer approved": ({"current_step": "critic_expert", "critic_expert_decision": "approve"}, "finalizer"),
    "answer rejected": ({"current_step": "critic_expert", "critic_expert_decision": "reject"}, "expert"),
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_row_of_the_routing_table(route: str) -> None:
    fields, following = ROUTES[route]
    assert determine_next_step(state_with(**fields))["next_step"] == following


@pytest.mark.parametrize("step", ["critic", "nonsense", ""])
def test_a_step_that_does_not_exist_is_refused_by_name_wherever_it_is_met(step: str) -> None:
    state = state_with(current_step=step, next_step=step)
    for transition in (orchestrate, execute_next_step, route_from_orchestrator):
        with pytest.raises(ValueError, match=f"^Invalid current step: {step}$"):
            transition(state)


@pytest.mark.parametrize("decision", ["", "Approve", "approved", "yes", None])
@pytest.mark.parametrize("agent", WORKERS)
def test_a_critic_that_has_not_decided_has_not_approved(agent: str, decision: object) -> None:
    fields = {"current_step": f"critic_{agent}", f"critic_{agent}_decision": decision}
    with pytest.raises(ValueError, match=r"Invalid decision of critic_.*; expected approve or reject"):
        determine_next_step(state_with(**fields))


def test_the_state_may_name_no_step_and_a_message_may_go_to_all() -> None:
    check_state(state_with(current_step="", next_step=""))
    sent = send_message(start(), "orchestrator", "all", "instruction", "The question is done.")
    assert newest(sent)["receiver"] == "all"
    with pytest.raises(ValueError, match="unknown receiver"):
        send_message(start(), "orchestrator", "everybody", "instruction", "Hello.")
    with pytest.raises(ValueError, match="unknown sender"):
        send_message(start(), "somebody", "orchestrator", "response", "Hello.")
    with pytest.raises(ValueError, match="Invalid message: type"):
        send_message(start(), "orchestrator", "planner", cast(Any, "order"), "Hello.")


def test_an_agents_messages_are_found_by_type_and_research_step() -> None:
    state = state_with(research_steps=TWO)
    for step in (0, 1):
        state = send_message(state, "orchestrator", "researcher", "instruction", f"topic {step}", step)
        state = send_message(state, "researcher", "orchestrator", "response", f"found {step}", step)
    assert [each["content"] for each in get_agent_conversation(state, "researcher", ("response",), 1)] == ["found 1"]
    assert len(get_agent_conversation(state, "researcher")) == 4 and get_agent_conversation(state, "expert") == []


def test_the_prescribed_errors_of_input_interface_and_critic() -> None:
    program = build(ScriptedModel(answering()))
    with pytest.raises(ValueError, match="No question provided to input interface"):
        program(question=" ")
    with pytest.raises(RuntimeError, match="Invalid critic step: planner"):
        asyncio.run(critic(state_with(current_step="planner"), cast(Any, None)))


WRONG_TYPES = {
    "question": 7,
    "agent_messages": "none",
    "research_steps": ["a topic", 2],
    "researcher_states": {0: {"messages": []}},
    "expert_state": "thinking",
    "critic_expert_decision": "perhaps",
    "planner_retry_count": "3",
    "retry_failed": "no",
    "next_step": "nonsense",
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_a_state_with_a_wrong_field_is_refused_before_the_transition(name: str) -> None:
    with pytest.raises(ValueError, match=f"^Invalid state: {name}") as refused:
        orchestrate(state_with(**{name: WRONG_TYPES[name]}))
    assert "thinking" not in str(refused.value), "a value may be anything, and long"


def test_a_state_without_one_of_its_fields_is_refused() -> None:
    for name in initial_state("Q", None, "id", LIMITS):
        state = {key: value for key, value in start().items() if key != name}
        with pytest.raises(ValueError, match=name if name != "current_step" else "Invalid current step"):
            orchestrate(cast(GraphState, state))


@pytest.mark.parametrize(("decision", "count"), [("reject", 2), ("approve", 0)])
@pytest.mark.parametrize("agent", WORKERS)
def test_a_rejection_counts_for_its_own_agent_alone_and_an_approval_resets_it(
    agent: str, decision: str, count: int
) -> None:
    before = state_with(
        current_step=f"critic_{agent}",
        **{f"critic_{agent}_decision": decision},
        **{f"{each}_retry_count": 1 for each in WORKERS},
    )
    after = cast(dict[str, object], determine_next_step(before))
    assert {each: after[f"{each}_retry_count"] for each in WORKERS} == {
        each: count if each == agent else 1 for each in WORKERS
    }
    assert before[f"{agent}_retry_count"] == 1, "the state is replaced, not changed"  # type: ignore[literal-required]


@pytest.mark.parametrize("agent", WORKERS)
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_at_its_limit_an_agent_fails_and_not_before(agent: str, distance: int) -> None:
    limit = LIMITS[agent]  # type: ignore[index]
    after = check_retry_limit(state_with(next_step=agent, **{f"{agent}_retry_count": limit + distance}))
    failed = distance >= 0
    assert (after["retry_failed"], after["failing_agent"]) == (failed, agent if failed else "")
    assert after["next_step"] == ("finalizer" if failed else agent)
    assert after["final_answer"] == ("The question could not be answered." if failed else "")


WORK = {
    "research_steps": TWO,
    "expert_steps": ["add them"],
    "research_results": ["found one", "found two"],
    "expert_answer": "42",
    "expert_reasoning": "six by seven",
}


def enter(step: str, **fields: Any) -> GraphState:
    return execute_next_step(state_with(**{**WORK, "next_step": step, **fields}))


def test_the_plan_and_its_review_begin_with_the_question_and_its_file() -> None:
    assert newest(enter("planner", file="towns.csv"))["content"] == (
        "Develop a logical plan to answer the following question:\nHow many?\n\n"
        "Include using following file in any of the research steps:towns.csv"
    )
    review = newest(enter("critic_planner", file="towns.csv"))["content"]
    assert "How many?" in review and "towns.csv" in review and "2. second topic" in review


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        ("planner", "Use the following feedback to improve the plan:\nname the source"),
        ("researcher", "Use the following feedback to improve the research:\nname the source"),
        ("expert", "Use the following feedback to improve your answer:\nname the source"),
    ],
)
def test_a_request_after_a_rejection_is_feedback_and_nothing_else(agent: str, text: str) -> None:
    rejected = {f"critic_{agent}_decision": "reject", f"critic_{agent}_feedback": "name the source"}
    message = newest(enter(agent, **rejected, current_research_index=0))
    assert (message["receiver"], message["type"], message["content"]) == (agent, "feedback", text)


def test_the_research_index_moves_on_with_a_new_step_and_stays_for_a_retry() -> None:
    first = enter("researcher")
    assert (first["current_research_index"], newest(first)["step_id"]) == (0, 0)
    again = enter("researcher", current_research_index=0, critic_researcher_decision="reject")
    assert (again["current_research_index"], newest(again)["step_id"]) == (0, 0)
    second = enter("researcher", current_research_index=0, critic_researcher_decision="approve")
    assert (second["current_research_index"], newest(second)["content"]) == (
        1,
        "Research the following topic or question: second topic",
    )


@pytest.mark.parametrize("agent", WORKERS)
def test_exhausted_retries_name_the_agent_and_its_last_feedback(agent: str) -> None:
    rejected = {f"critic_{agent}_decision": "reject", f"critic_{agent}_feedback": "still wrong"}
    counts = {f"{agent}_retry_count": LIMITS[agent] - 1}  # type: ignore[index]
    state = orchestrate(state_with(**{**WORK, "current_step": f"critic_{agent}", **rejected, **counts}))
    assert (state["current_step"], state["failing_agent"]) == ("finalizer", agent)
    assert newest(state)["receiver"] == "finalizer"
    assert newest(state)["content"].startswith(f"The {agent} reached its retry limit.")
    assert "still wrong" in describe_exhaustion(state)
    assert "still wrong" in newest(state)["content"]
