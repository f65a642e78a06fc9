"""The orchestrator as pure functions: the routing table, the retry counters, and what is said to whom."""

from typing import Any, cast

import pytest

from mas.agents.program import check_question
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import AGENTS, WORKERS, AgentMessage, GraphState, describe_exhaustion, initial_state
from mas.systems.gaia.orchestrator import (
    check_retry_limit,
    determine_next_step,
    execute_next_step,
    orchestrate,
    route_from_orchestrator,
)
from tests.mas.systems.gaia.building import LIMITS, start


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


@pytest.mark.parametrize("step", ["finalizer", "critic", "nonsense", "critic_finalizer"])
def test_a_step_that_nothing_follows_is_an_error(step: str) -> None:
    with pytest.raises(ValueError, match=f"^Invalid current step: {step}$"):
        determine_next_step(state_with(current_step=step))


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


WRONG_TYPES = {
    "question": 7,
    "file": ["a.csv"],
    "agent_messages": "none",
    "research_steps": ["a topic", 2],
    "expert_steps": "add them",
    "current_research_index": "0",
    "researcher_states": {0: {"messages": []}},
    "expert_state": "thinking",
    "expert_answer": None,
    "critic_expert_decision": "perhaps",
    "planner_retry_count": "3",
    "expert_retry_limit": None,
    "retry_failed": "no",
    "failing_agent": "critic",
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


@pytest.mark.parametrize("agent", WORKERS)
def test_a_rejection_counts_for_its_own_agent_alone(agent: str) -> None:
    before = state_with(
        current_step=f"critic_{agent}",
        **{f"critic_{agent}_decision": "reject"},
        **{f"{each}_retry_count": 1 for each in WORKERS},
    )
    after = determine_next_step(before)
    assert {each: after[f"{each}_retry_count"] for each in WORKERS} == {  # type: ignore[literal-required]
        each: 2 if each == agent else 1 for each in WORKERS
    }
    assert before[f"{agent}_retry_count"] == 1, "the state is replaced, not changed"  # type: ignore[literal-required]


@pytest.mark.parametrize("agent", WORKERS)
def test_an_approval_resets_its_own_counter_alone(agent: str) -> None:
    after = determine_next_step(
        state_with(
            current_step=f"critic_{agent}",
            **{f"critic_{agent}_decision": "approve"},
            **{f"{each}_retry_count": 2 for each in WORKERS},
        )
    )
    assert {each: after[f"{each}_retry_count"] for each in WORKERS} == {  # type: ignore[literal-required]
        each: 0 if each == agent else 2 for each in WORKERS
    }


@pytest.mark.parametrize("agent", WORKERS)
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_at_its_limit_an_agent_fails_and_not_before(agent: str, distance: int) -> None:
    limit = LIMITS[agent]  # type: ignore[index]
    after = check_retry_limit(state_with(next_step=agent, **{f"{agent}_retry_count": limit + distance}))
    failed = distance >= 0
    assert (after["retry_failed"], after["failing_agent"]) == (failed, agent if failed else "")
    assert after["next_step"] == ("finalizer" if failed else agent)
    assert after["final_answer"] == ("The question could not be answered." if failed else "")


def test_each_agent_has_a_limit_of_its_own() -> None:
    limits = {"planner": 1, "researcher": 2, "expert": 4}
    state = initial_state("Q", None, "id", limits)  # type: ignore[arg-type]
    counted = cast(GraphState, {**state, "researcher_retry_count": 1, "expert_retry_count": 3})
    assert not check_retry_limit(counted)["retry_failed"]
    assert check_retry_limit(cast(GraphState, {**counted, "planner_retry_count": 1}))["failing_agent"] == "planner"
    assert check_retry_limit(cast(GraphState, {**counted, "expert_retry_count": 4}))["failing_agent"] == "expert"


WORK = {
    "research_steps": TWO,
    "expert_steps": ["add them"],
    "research_results": ["found one", "found two"],
    "expert_answer": "42",
    "expert_reasoning": "six by seven",
}


def enter(step: str, **fields: Any) -> GraphState:
    return execute_next_step(state_with(**{**WORK, "next_step": step, **fields}))


@pytest.mark.parametrize("step", AGENTS)
def test_a_first_request_is_an_instruction_to_that_agent(step: str) -> None:
    state = enter(step, current_research_index=0)
    message = newest(state)
    assert state["current_step"] == step
    assert (message["sender"], message["receiver"], message["type"]) == ("orchestrator", step, "instruction")
    assert len(state["agent_messages"]) == 1


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


def test_the_specified_texts_stand_as_they_are() -> None:
    assert newest(enter("planner"))["content"] == "Develop a logical plan to answer the following question:\nHow many?"
    assert newest(enter("planner", file="towns.csv"))["content"] == (
        "Develop a logical plan to answer the following question:\nHow many?"
        "\n\nInclude using following file in any of the research steps:towns.csv"
    )
    assert newest(enter("researcher"))["content"] == "Research the following topic or question: first topic"


def test_reviewers_and_finalizer_get_the_work_that_they_judge() -> None:
    for step, parts in {
        "critic_planner": ["How many?", "towns.csv", "1. first topic", "2. second topic", "1. add them"],
        "critic_researcher": ["second topic", "found two"],
        "expert": ["How many?", "1. found one", "2. found two", "1. add them"],
        "critic_expert": ["How many?", "1. found one", "2. found two", "42", "six by seven"],
        "finalizer": ["How many?", "1. first topic", "1. add them", "42", "six by seven"],
    }.items():
        content = newest(enter(step, file="towns.csv", current_research_index=1))["content"]
        assert [part for part in parts if part not in content] == [], step
    assert "first topic" not in newest(enter("critic_researcher", current_research_index=1))["content"]


def test_research_messages_and_only_they_carry_their_step() -> None:
    step_ids = {step: newest(enter(step, current_research_index=0))["step_id"] for step in AGENTS}
    assert step_ids == {**dict.fromkeys(AGENTS), "researcher": 1, "critic_researcher": 0}


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


@pytest.mark.parametrize("step", AGENTS)
def test_the_three_critic_steps_share_one_node(step: str) -> None:
    assert route_from_orchestrator(state_with(current_step=step)) == ("critic" if "critic" in step else step)


@pytest.mark.parametrize("question", ["", " \n\t"])
def test_an_empty_question_is_refused(question: str) -> None:
    with pytest.raises(ValueError, match="no question was given"):
        check_question(question)


def changed(before: GraphState, after: GraphState) -> dict[str, Any]:
    """The fields that differ; of the messages only the new ones, without their times."""
    assert set(after) == set(before)
    new = after["agent_messages"][len(before["agent_messages"]) :]
    fields: dict[str, Any] = {name: value for name, value in after.items() if value != before[name]}  # type: ignore[literal-required]
    if new:
        fields["agent_messages"] = [
            {name: value for name, value in message.items() if name != "timestamp"} for message in new
        ]
    return fields


def record(call: Any) -> tuple[GraphState, Trace, list[tuple[str, str, dict[str, Any]]]]:
    """The result of a transition, what it noted in the trace, and its events."""
    events: list[tuple[str, str, dict[str, Any]]] = []
    trace = Trace("thread-1", listener=lambda level, name, fields: events.append((level, name, fields)))
    with record_trace(trace):
        return call(), trace, events


@pytest.mark.parametrize("agent", WORKERS)
@pytest.mark.parametrize(("decision", "count"), [("approve", 0), ("reject", 2)])
def test_a_decision_changes_the_next_step_and_its_counter_and_is_noted(agent: str, decision: str, count: int) -> None:
    before = state_with(
        current_step=f"critic_{agent}",
        next_step="input",
        **{f"critic_{agent}_decision": decision, f"{agent}_retry_count": 1},
    )
    after, trace, _ = record(lambda: determine_next_step(before))
    following = {"planner": "expert", "researcher": "expert", "expert": "finalizer"}[agent]
    assert changed(before, after) == {
        "next_step": agent if decision == "reject" else following,
        f"{agent}_retry_count": count,
    }
    assert trace.reviews == {agent: [decision == "approve"]}


def test_a_step_that_is_not_a_review_changes_nothing_but_the_next_step() -> None:
    before = state_with(current_step="planner", next_step="input")
    after, trace, events = record(lambda: determine_next_step(before))
    assert changed(before, after) == {"next_step": "critic_planner"}
    assert (trace.reviews, events) == ({}, [])


def test_exhausted_retries_end_the_question_and_are_noted() -> None:
    before = state_with(next_step="expert", researcher_retry_count=LIMITS["researcher"], expert_retry_count=99)
    after, trace, events = record(lambda: check_retry_limit(before))
    assert changed(before, after) == {
        "retry_failed": True,
        "failing_agent": "researcher",  # the first in the order of work
        "next_step": "finalizer",
        "final_answer": "The question could not be answered.",
        "final_reasoning_trace": "The question could not be answered.",
    }
    assert trace.limit == "retry_limit:researcher"
    assert events == [
        ("warning", "retries exhausted", {"agent": "researcher", "retry_count": LIMITS["researcher"]}),
    ]


def test_before_a_limit_is_reached_nothing_changes() -> None:
    before = state_with(**{f"{agent}_retry_count": LIMITS[agent] - 1 for agent in WORKERS})
    after, trace, events = record(lambda: check_retry_limit(before))
    assert after is before
    assert (trace.limit, events) == (None, [])


COUNTS = {"planner": 1, "researcher": 2, "expert": 3}


@pytest.mark.parametrize(
    ("step", "index", "rejected", "entered", "step_id", "kind"),
    [
        ("planner", -1, False, -1, None, "instruction"),
        ("planner", -1, True, -1, None, "feedback"),
        ("critic_planner", -1, True, -1, None, "instruction"),
        ("researcher", -1, False, 0, 0, "instruction"),
        ("researcher", 0, False, 1, 1, "instruction"),
        ("researcher", 0, True, 0, 0, "feedback"),
        ("critic_researcher", 1, True, 1, 1, "instruction"),
        ("expert", 1, True, 1, None, "feedback"),
        ("critic_expert", 1, False, 1, None, "instruction"),
        ("finalizer", 1, True, 1, None, "instruction"),
    ],
)
def test_entering_a_step_sends_its_message_and_is_noted(
    step: str, index: int, rejected: bool, entered: int, step_id: int | None, kind: str
) -> None:
    decisions = {f"critic_{agent}_decision": "reject" if rejected else "approve" for agent in WORKERS}
    counts = {f"{agent}_retry_count": count for agent, count in COUNTS.items()}
    before = state_with(**{**WORK, **decisions, **counts, "next_step": step, "current_research_index": index})
    after, trace, events = record(lambda: execute_next_step(before))
    content = newest(after)["content"]
    message = {"sender": "orchestrator", "receiver": step, "type": kind, "content": content, "step_id": step_id}
    assert changed(before, after) == {
        "current_step": step,
        **({"current_research_index": entered} if entered != index else {}),
        "agent_messages": [message],
    }
    assert (trace.step, trace.retry_counts) == (step, COUNTS)
    noted = {"step": step, "research_index": entered, "retry_counts": COUNTS}
    assert events[0] == ("info", "step", noted)
    assert events[1][:2] == ("info", "message")
    assert events[1][2] | {"step": step} == {**message, "step": step}


@pytest.mark.parametrize("failed", [True, False])
def test_only_after_exhausted_retries_the_finalizer_is_told_of_them(failed: bool) -> None:
    fields = {"retry_failed": failed, "failing_agent": "expert" if failed else ""}
    content = newest(enter("finalizer", **fields))["content"]
    assert content.startswith("The expert reached" if failed else "Give the final answer to the following question")


def test_a_transition_is_all_three_in_turn() -> None:
    """The rejection is counted, then compared with the limit, then the next step is entered."""
    before = state_with(**{**WORK, "current_step": "critic_expert", "critic_expert_decision": "reject",
                           "critic_expert_feedback": "wrong", "expert_retry_count": LIMITS["expert"] - 1})  # fmt: skip
    after = changed(before, orchestrate(before))
    (message,) = after.pop("agent_messages")
    assert (message["receiver"], message["type"], message["step_id"]) == ("finalizer", "instruction", None)
    assert after == {
        "expert_retry_count": LIMITS["expert"],
        "retry_failed": True,
        "failing_agent": "expert",
        "next_step": "finalizer",
        "current_step": "finalizer",
        "final_answer": "The question could not be answered.",
        "final_reasoning_trace": "The question could not be answered.",
    }


def test_a_wrong_step_is_told_before_any_other_wrong_field() -> None:
    with pytest.raises(ValueError, match=r"^Invalid current step: nonsense$"):
        orchestrate(state_with(question=7, current_step="nonsense"))
    with pytest.raises(ValueError) as refused:
        orchestrate(state_with(question=7, expert_answer=None))
    assert str(refused.value) == "Invalid state: question: Input should be a valid string"
