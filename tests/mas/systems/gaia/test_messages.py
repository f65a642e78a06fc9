"""Messages: which are refused, and which of them make up an agent's conversation."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import AGENTS, AgentMessage, GraphState
from mas.systems.gaia.messages import (
    PARTIES,
    check_message,
    get_agent_conversation,
    newest_request,
    open_request,
    send_message,
    unusable_response,
)
from tests.mas.systems.gaia.building import start

VALID: dict[str, Any] = {
    "timestamp": "2026-11-22T14:00:00+00:00",
    "sender": "orchestrator",
    "receiver": "researcher",
    "type": "instruction",
    "content": "Research rivers",
    "step_id": 1,
}
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "unknown sender": ({"sender": "oracle"}, "unknown sender 'oracle'; expected one of orchestrator, critic, planner"),
    "unknown receiver": ({"receiver": "everybody"}, "unknown receiver 'everybody'"),
    "empty receiver": ({"receiver": ""}, "unknown receiver ''"),
    "unknown type": ({"type": "gossip"}, "type: Input should be 'instruction', 'feedback' or 'response'"),
    "content that is no text": ({"content": ["a"]}, "content: Input should be a valid string"),
    "sender that is no text": ({"sender": 1}, "sender: Input should be a valid string"),
    "step that is no number": ({"step_id": "1"}, "step_id: Input should be a valid integer"),
    "step before the first": ({"step_id": -1}, "research step -1 does not exist; there are 2"),
    "step after the last": ({"step_id": 2}, "research step 2 does not exist; there are 2"),
    "agent to agent": ({"sender": "planner"}, "from the orchestrator to an agent, or back"),
    "orchestrator to itself": ({"receiver": "orchestrator"}, "from the orchestrator to an agent, or back"),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_message_is_refused_with_the_reason(case: str) -> None:
    changes, reason = INVALID[case]
    with pytest.raises(ValueError) as refused:
        check_message(cast(AgentMessage, VALID | changes), n_research_steps=2)
    assert str(refused.value).startswith("Invalid message: ") and reason in str(refused.value)


@pytest.mark.parametrize("field", VALID)
def test_a_message_without_a_field_is_refused(field: str) -> None:
    message = {key: value for key, value in VALID.items() if key != field}
    with pytest.raises(ValueError, match=f"{field}: Field required"):
        check_message(cast(AgentMessage, message), n_research_steps=2)


@pytest.mark.parametrize("step_id", [None, 0, 1])
@pytest.mark.parametrize("agent", [*AGENTS, "critic"])
def test_every_agent_may_be_asked_and_may_answer(agent: str, step_id: int | None) -> None:
    for sender, receiver in (("orchestrator", agent), (agent, "orchestrator")):
        message = VALID | {"sender": sender, "receiver": receiver, "step_id": step_id}
        check_message(cast(AgentMessage, message), n_research_steps=2)


def test_an_invalid_message_is_not_sent() -> None:
    state = start()
    with pytest.raises(ValueError, match="unknown receiver 'nobody'"):
        send_message(state, "orchestrator", "nobody", "instruction", "hello")
    with pytest.raises(ValueError, match="research step 0 does not exist; there are 0"):
        send_message(state, "orchestrator", "researcher", "instruction", "hello", step_id=0)
    assert state["agent_messages"] == []


def conversation() -> GraphState:
    state = cast(GraphState, {**start(), "research_steps": ["rivers", "towns"]})
    for sender, receiver, kind, content, step_id in (
        ("orchestrator", "planner", "instruction", "plan", None),
        ("planner", "orchestrator", "response", "a plan", None),
        ("orchestrator", "researcher", "instruction", "rivers", 0),
        ("researcher", "orchestrator", "response", "the Tiber", 0),
        ("orchestrator", "critic_researcher", "instruction", "review", 0),
        ("critic", "orchestrator", "response", "reject", None),
        ("orchestrator", "researcher", "feedback", "how long?", 0),
        ("researcher", "orchestrator", "response", "406 km", 0),
        ("orchestrator", "researcher", "instruction", "towns", 1),
    ):
        state = send_message(state, sender, receiver, cast(Any, kind), content, step_id)
    return state


@pytest.mark.parametrize(
    ("arguments", "contents"),
    [
        ({"agent": "planner"}, ["plan", "a plan"]),
        ({"agent": "researcher"}, ["rivers", "the Tiber", "how long?", "406 km", "towns"]),
        ({"agent": "researcher", "step_id": 0}, ["rivers", "the Tiber", "how long?", "406 km"]),
        ({"agent": "researcher", "types": ["feedback"]}, ["how long?"]),
        ({"agent": "researcher", "types": ["instruction", "feedback"], "step_id": 1}, ["towns"]),
        ({"agent": "critic_researcher"}, ["review"]),
        ({"agent": "critic"}, ["reject"]),
        ({"agent": "planner", "types": []}, []),
        ({"agent": "finalizer"}, []),
    ],
)
def test_a_conversation_is_what_was_said_between_the_orchestrator_and_one_agent(
    arguments: dict[str, Any], contents: list[str]
) -> None:
    assert [message["content"] for message in get_agent_conversation(conversation(), **arguments)] == contents


def test_requests_are_found_in_the_agents_own_conversation() -> None:
    state = conversation()
    assert newest_request(state, "critic_researcher") == "review"
    assert open_request(state, "researcher", step_id=1) == "towns"
    assert open_request(state, "researcher", step_id=0) == "", "that step is answered"


@pytest.mark.parametrize(("step_id", "n_steps"), [(None, 0), (0, 1), (0, 2), (1, 2)])
def test_every_step_that_there_is_may_be_named(step_id: int | None, n_steps: int) -> None:
    check_message(cast(AgentMessage, VALID | {"step_id": step_id}), n_research_steps=n_steps)


def test_a_wrong_field_is_named_without_its_value() -> None:
    with pytest.raises(ValueError) as refused:
        check_message(cast(AgentMessage, VALID | {"content": 3}), n_research_steps=2)
    assert str(refused.value) == "Invalid message: content: Input should be a valid string"


def test_a_message_is_sent_with_its_time_and_is_noted() -> None:
    state = cast(GraphState, {**start(), "research_steps": ["rivers", "towns"]})
    events: list[tuple[str, str, dict[str, Any]]] = []
    began = datetime.now(UTC)
    with record_trace(Trace("t", listener=lambda level, name, fields: events.append((level, name, fields)))):
        first = send_message(state, "orchestrator", "researcher", "instruction", "Towns?", 1)
        second = send_message(first, "researcher", "orchestrator", "response", "Rome")
    fields: list[dict[str, Any]] = [
        {"sender": "orchestrator", "receiver": "researcher", "type": "instruction", "content": "Towns?", "step_id": 1},
        {"sender": "researcher", "receiver": "orchestrator", "type": "response", "content": "Rome", "step_id": None},
    ]
    sent = [dict(message) for message in second["agent_messages"]]
    times = [datetime.fromisoformat(str(message.pop("timestamp"))) for message in sent]
    assert sent == fields
    assert began <= times[0] <= times[1] and times[0].utcoffset() == timedelta(0)
    assert events == [("info", "message", each) for each in fields]
    assert (state["agent_messages"], len(first["agent_messages"])) == ([], 1)
    assert {**second, "agent_messages": []} == state


def asked(*contents: tuple[str, str, int | None]) -> GraphState:
    state = cast(GraphState, {**start(), "research_steps": ["rivers", "towns"]})
    for kind, content, step_id in contents:
        sender, receiver = ("researcher", "orchestrator") if kind == "response" else ("orchestrator", "researcher")
        state = send_message(state, sender, receiver, cast(Any, kind), content, step_id)
    return state


UNUSABLE = "Researcher gave no usable reply."


@pytest.mark.parametrize(
    ("contents", "step_id", "open_ones"),
    [
        ([], None, ""),
        ([("instruction", "a", 0)], 0, "a"),
        ([("instruction", "a", 0), ("response", UNUSABLE, 0), ("feedback", "b", 0)], 0, "a\n\nb"),
        (
            [("instruction", "a", 0), *[("response", UNUSABLE, 0), ("feedback", "b", 0)] * 2],
            0,
            "a\n\nb\n\nb",
        ),
        ([("instruction", "a", 0), ("response", "done", 0), ("feedback", "b", 0)], 0, "b"),
        (
            [("instruction", "a", 0), ("response", "done", 0), ("feedback", "b", 0), ("response", UNUSABLE, 0),
             ("feedback", "c", 0)],
            0,
            "b\n\nc",
        ),
        ([("instruction", "a", 0), ("response", UNUSABLE, 0), ("instruction", "b", 1)], 1, "b"),
        ([("instruction", "a", 0), ("response", UNUSABLE, 0), ("instruction", "b", 1)], None, "a\n\nb"),
    ],
)  # fmt: skip
def test_open_requests_are_those_since_the_last_usable_reply_oldest_first(
    contents: list[tuple[str, str, int | None]], step_id: int | None, open_ones: str
) -> None:
    assert unusable_response("researcher") == UNUSABLE
    assert open_request(asked(*contents), "researcher", step_id) == open_ones


def test_the_newest_request_is_no_response() -> None:
    state = asked(("instruction", "a", 0), ("feedback", "b", 0), ("response", "done", 0))
    assert newest_request(state, "researcher") == "b"


def test_who_may_send_and_get_messages() -> None:
    assert ("orchestrator", "critic", *AGENTS) == PARTIES
    with pytest.raises(ValueError) as refused:
        check_message(cast(AgentMessage, VALID | {"sender": "oracle"}), n_research_steps=2)
    assert str(refused.value) == (
        "Invalid message: unknown sender 'oracle'; expected one of orchestrator, critic, planner, critic_planner, "
        "researcher, critic_researcher, expert, critic_expert, finalizer"
    )
