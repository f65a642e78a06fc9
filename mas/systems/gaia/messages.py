"""What the orchestrator says to each agent, and the protocol it says it in.

The texts are those of the design where it gives them, and ours where it only names a template
(docs/explanation/decisions.md 13a). A message's content is the value of the receiving signature's first input:
`request` (planner), `plan_to_review`, `research_request`, `research_to_review`, `expert_request`, `answer_to_review`,
`answer_request`. Earlier turns of planner, researcher and expert travel in `dspy.History`; critics and finalizer have
none.
"""

from datetime import UTC, datetime
from typing import Literal

from mas.runtime.trace import event
from mas.systems.gaia.state import AgentMessage, GraphState

COULD_NOT_ANSWER = "The question could not be answered."


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
    """The messages between the orchestrator and `agent`, oldest first; of one research step if `step_id` is given."""
    pair = {agent, "orchestrator"}
    return [
        message
        for message in state["agent_messages"]
        if {message["sender"], message["receiver"]} == pair and (step_id is None or message["step_id"] == step_id)
    ]


def newest_request(state: GraphState, agent: str) -> str:
    """The content of the orchestrator's newest message to `agent`: all that critics and finalizer ever see."""
    return next(m["content"] for m in reversed(state["agent_messages"]) if m["receiver"] == agent)


def open_request(state: GraphState, agent: str) -> str:
    """What `agent` has been asked and has not usably answered yet.

    The orchestrator's newest message; after an unusable reply, which leaves no turn in the agent's history, the message
    that it answered as well.
    """
    open_contents: list[str] = []
    for message in reversed(state["agent_messages"]):
        if message["receiver"] == agent:
            open_contents.insert(0, message["content"])
        elif message["sender"] == agent and message["content"] != unusable_response(agent):
            break
    return "\n\n".join(open_contents)


def to_planner(state: GraphState) -> str:
    if state["critic_planner_decision"] == "reject":
        return f"Use the following feedback to improve the plan:\n{state['critic_planner_feedback']}"
    file_info = (
        f"\n\nInclude using following file in any of the research steps:{state['file']}" if state["file"] else ""
    )
    return f"Develop a logical plan to answer the following question:\n{state['question']}{file_info}"


def to_critic_planner(state: GraphState) -> str:
    file_info = f"\n\nThe file attached to the question:\n{state['file']}" if state["file"] else ""
    return (
        "Review the following plan to answer a question.\n\n"
        f"The question:\n{state['question']}{file_info}\n\n"
        f"The research steps:\n{_numbered(state['research_steps'])}\n\n"
        f"The expert steps:\n{_numbered(state['expert_steps'])}"
    )


def to_researcher(state: GraphState) -> str:
    if state["critic_researcher_decision"] == "reject":
        return f"Use the following feedback to improve the research:\n{state['critic_researcher_feedback']}"
    return f"Research the following topic or question: {_research_topic(state)}"


def to_critic_researcher(state: GraphState) -> str:
    return (
        "Review the following research.\n\n"
        f"The research topic:\n{_research_topic(state)}\n\n"
        f"The research results:\n{state['research_results'][state['current_research_index']]}"
    )


def to_expert(state: GraphState) -> str:
    if state["critic_expert_decision"] == "reject":
        return f"Use the following feedback to improve your answer:\n{state['critic_expert_feedback']}"
    return (
        "Answer the following question.\n\n"
        f"The question:\n{state['question']}\n\n"
        f"The research results:\n{_numbered(state['research_results'])}\n\n"
        f"The steps to follow:\n{_numbered(state['expert_steps'])}"
    )


def to_critic_expert(state: GraphState) -> str:
    return (
        "Review the following answer to a question.\n\n"
        f"The question:\n{state['question']}\n\n"
        f"The research results:\n{_numbered(state['research_results'])}\n\n"
        f"The expert's answer:\n{state['expert_answer']}\n\n"
        f"The expert's reasoning:\n{state['expert_reasoning']}"
    )


def to_finalizer(state: GraphState) -> str:
    return (
        "Give the final answer to the following question and its reasoning trace.\n\n"
        f"The question:\n{state['question']}\n\n"
        f"The research steps:\n{_numbered(state['research_steps'])}\n\n"
        f"The expert steps:\n{_numbered(state['expert_steps'])}\n\n"
        f"The expert's answer:\n{state['expert_answer']}\n\n"
        f"The expert's reasoning:\n{state['expert_reasoning']}"
    )


def to_finalizer_retry_failed(state: GraphState) -> str:
    """For `on_retry_exhausted: best_effort`: what was agreed and what was not, so that the finalizer can still try."""
    return (
        f"{exhausted_trace(state)}\n\n"
        "Give the best final answer that the work so far supports, and its reasoning trace, which says that the work "
        "was not approved.\n\n"
        f"The question:\n{state['question']}\n\n"
        f"The research steps:\n{_numbered(state['research_steps'])}\n\n"
        f"The research results:\n{_numbered(state['research_results'])}\n\n"
        f"The expert's answer:\n{state['expert_answer'] or '(none)'}\n\n"
        f"The expert's reasoning:\n{state['expert_reasoning'] or '(none)'}"
    )


def exhausted_trace(state: GraphState) -> str:
    """Which agent failed for good, and why: the reasoning trace of a question that is given up."""
    agent = state["failing_agent"]
    if not agent:
        raise ValueError("no agent has exhausted its retries")
    feedback = {
        "planner": state["critic_planner_feedback"],
        "researcher": state["critic_researcher_feedback"],
        "expert": state["critic_expert_feedback"],
    }[agent]
    return f"The {agent} reached its retry limit. The last feedback on its work was:\n{feedback}"


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


def _research_topic(state: GraphState) -> str:
    return state["research_steps"][state["current_research_index"]]


def _numbered(items: list[str]) -> str:
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1)) or "(none)"
