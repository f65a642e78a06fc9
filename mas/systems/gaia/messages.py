"""Messages between the orchestrator and the agents: how they are sent and found again."""

from datetime import UTC, datetime
from typing import Literal

from mas.runtime.trace import event
from mas.systems.gaia.agents import AgentMessage, GraphState


def send_message(
    state: GraphState,
    sender: str,
    receiver: str,
    type: Literal["instruction", "feedback", "response"],
    content: str,
    step_id: int | None = None,
) -> GraphState:
    """Return the state with one more message; `step_id` is the research step that it belongs to, from 0."""
    message = AgentMessage(
        timestamp=datetime.now(UTC).isoformat(),
        sender=sender,
        receiver=receiver,
        type=type,
        content=content,
        step_id=step_id,
    )
    event("message", sender=sender, receiver=receiver, type=type, content=content, step_id=step_id)
    return {**state, "agent_messages": [*state["agent_messages"], message]}


def newest_request(state: GraphState, agent: str) -> str:
    """Return the content of the orchestrator's newest message to `agent`: critics and finalizer see no other."""
    return next(m["content"] for m in reversed(state["agent_messages"]) if m["receiver"] == agent)


def open_request(state: GraphState, agent: str) -> str:
    """Return the requests that `agent` has not yet answered in a usable way.

    That is the orchestrator's newest message. After an unusable reply, which leaves no turn in the agent's history, the
    message before it is open too.
    """
    open_contents: list[str] = []
    for message in reversed(state["agent_messages"]):
        if message["receiver"] == agent:
            open_contents.insert(0, message["content"])
        elif message["sender"] == agent and message["content"] != unusable_response(agent):
            break
    return "\n\n".join(open_contents)


def unusable_response(agent: str) -> str:
    return f"{agent.capitalize()} gave no usable reply."
