"""Messages between the orchestrator and the agents: how they are sent, found again, and what agents respond."""

from datetime import UTC, datetime
from typing import Literal

from mas.runtime.trace import event
from mas.systems.gaia.agents import AgentMessage, GraphState


def compose_agent_message(
    sender: str,
    receiver: str,
    type: Literal["instruction", "feedback", "response"],
    content: str,
    step_id: int | None = None,
) -> AgentMessage:
    """`step_id` is the research step that the message belongs to, from 0."""
    return AgentMessage(
        timestamp=datetime.now(UTC).isoformat(),
        sender=sender,
        receiver=receiver,
        type=type,
        content=content,
        step_id=step_id,
    )


def send_message(state: GraphState, message: AgentMessage) -> GraphState:
    event(
        "message",
        sender=message["sender"],
        receiver=message["receiver"],
        type=message["type"],
        content=message["content"],
        step_id=message["step_id"],
    )
    return {**state, "agent_messages": [*state["agent_messages"], message]}


def get_agent_conversation(state: GraphState, agent: str, step_id: int | None = None) -> list[AgentMessage]:
    """Return the messages between the orchestrator and `agent`, oldest first; `step_id` selects a research step."""
    pair = {agent, "orchestrator"}
    return [
        message
        for message in state["agent_messages"]
        if {message["sender"], message["receiver"]} == pair and (step_id is None or message["step_id"] == step_id)
    ]


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


def planner_response(research_steps: list[str], expert_steps: list[str]) -> str:
    return f"Planner complete. Research steps: {research_steps}, Expert steps: {expert_steps}"


def researcher_response(step_index: int) -> str:
    return f"Researcher complete for step {step_index}"


def expert_response(answer: str, reasoning: str) -> str:
    return f"Expert complete. Answer: {answer}, Reasoning: {reasoning}"


def unusable_response(agent: str) -> str:
    return f"{agent.capitalize()} gave no usable reply."


def critic_response(decision: str, feedback: str) -> str:
    return f"Critic complete. Decision: {decision}, Feedback: {feedback}"


def finalizer_response(answer: str, trace: str) -> str:
    return f"Finalizer complete. The final answer is:\n{answer}\n\n## The final reasoning trace is:\n{trace}"
