"""Messages between the orchestrator and the agents: how they are checked, sent and found again."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mas.runtime.trace import event
from mas.systems.gaia.agents import AgentMessage, GraphState, MessageType

ORCHESTRATOR = "orchestrator"
REQUESTS: tuple[MessageType, ...] = ("instruction", "feedback")

_MESSAGE = TypeAdapter(AgentMessage)


def send_message(
    state: GraphState, sender: str, receiver: str, type: MessageType, content: str, step_id: int | None = None
) -> GraphState:
    """Return the state with one more message; `step_id` is the research step that it belongs to, from 0."""
    fields: dict[str, Any] = {
        "sender": sender,
        "receiver": receiver,
        "type": type,
        "content": content,
        "step_id": step_id,
    }
    try:
        message = _MESSAGE.validate_python({"timestamp": datetime.now(UTC).isoformat(), **fields}, strict=True)
    except ValidationError as error:
        raise ValueError(f"Invalid message: {describe_invalid(error)}") from None
    event("message", **fields)
    return {**state, "agent_messages": [*state["agent_messages"], message]}


def describe_invalid(error: ValidationError) -> str:
    """Return the place and the reason of the first thing that is not valid, without its value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def get_agent_conversation(
    state: GraphState, agent: str, types: Collection[MessageType] | None = None, step_id: int | None = None
) -> list[AgentMessage]:
    """Return the messages between the orchestrator and `agent`, oldest first; None: of all types, of all steps."""
    return [
        message
        for message in state["agent_messages"]
        if (message["sender"], message["receiver"]) in ((ORCHESTRATOR, agent), (agent, ORCHESTRATOR))
        and (types is None or message["type"] in types)
        and (step_id is None or message["step_id"] == step_id)
    ]


def newest_request(state: GraphState, agent: str) -> str:
    """Return the content of the orchestrator's newest message to `agent`: critics and finalizer see no other."""
    return get_agent_conversation(state, agent, REQUESTS)[-1]["content"]


def open_request(state: GraphState, agent: str, step_id: int | None = None) -> str:
    """Return the requests that planner, researcher or expert has not yet answered in a usable way.

    That is the orchestrator's newest message. After an unusable reply, which leaves no turn in the agent's history, the
    message before it is open too.
    """
    open_contents: list[str] = []
    for message in reversed(get_agent_conversation(state, agent, step_id=step_id)):
        if message["type"] in REQUESTS:
            open_contents.insert(0, message["content"])
        elif message["content"] != unusable_response(agent):
            break
    return "\n\n".join(open_contents)


def unusable_response(agent: str) -> str:
    return f"{agent.capitalize()} gave no usable reply."
