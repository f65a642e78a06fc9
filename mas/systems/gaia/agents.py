"""The agents of the GAIA system: their state, what the orchestrator asks each, and their specs.

To add an agent: its fields in `GraphState`, its request (`to_…`) and its spec here; its signature and node in
`nodes.py`; its prompt file. The order of `SPECS` is the order of work (docs/explanation/decisions.md 3, 13a).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.agents.spec import AgentSpec

Step = Literal[
    "input", "planner", "critic_planner", "researcher", "critic_researcher", "expert", "critic_expert", "finalizer", ""
]
Worker = Literal["planner", "researcher", "expert"]  # the agents that a critic reviews
Decision = Literal["approve", "reject", ""]
MessageType = Literal["instruction", "feedback", "response"]
Party = Literal[  # sender or receiver of a message; the three critics answer under one name
    "orchestrator", "critic", "planner", "critic_planner", "researcher", "critic_researcher", "expert", "critic_expert",
    "finalizer", "all",
]  # fmt: skip

COULD_NOT_ANSWER = "The question could not be answered."


class AgentMessage(TypedDict):
    """A message between the orchestrator and an agent."""

    timestamp: str  # UTC, ISO 8601
    sender: Party
    receiver: Party
    type: MessageType
    content: str
    step_id: int | None  # research step it belongs to


class ResearcherState(TypedDict):
    """One research step's own conversation; `messages` are `dspy.History` turns."""

    messages: list[dict[str, Any]]
    step_index: int
    result: str | None


class ExpertState(TypedDict):
    """The expert's conversation, as `dspy.History` turns, and what it was given."""

    messages: list[dict[str, Any]]
    question: str
    research_steps: list[str]
    research_results: list[str]
    expert_answer: str
    expert_reasoning: str


class GraphState(TypedDict):
    """Everything known of one question while the system works on it."""

    question: str
    file: str | None  # bare name of the attachment
    correlation_id: str

    agent_messages: list[AgentMessage]
    planner_turns: list[dict[str, Any]]  # the planner's conversation, as `dspy.History` turns

    research_steps: list[str]
    expert_steps: list[str]

    current_research_index: int  # -1 before the first step
    researcher_states: dict[int, ResearcherState]
    research_results: list[str]

    expert_state: ExpertState | None
    expert_answer: str
    expert_reasoning: str

    critic_planner_decision: Decision
    critic_planner_feedback: str
    critic_researcher_decision: Decision
    critic_researcher_feedback: str
    critic_expert_decision: Decision
    critic_expert_feedback: str

    final_answer: str
    final_reasoning_trace: str

    current_step: Step
    next_step: Step

    planner_retry_count: int
    researcher_retry_count: int
    expert_retry_count: int
    planner_retry_limit: int
    researcher_retry_limit: int
    expert_retry_limit: int
    retry_failed: bool
    failing_agent: Worker | Literal[""]  # the one named when its retries are exhausted

    error: str
    error_component: str


def initial_state(
    question: str, file: str | None, correlation_id: str, retry_limits: Mapping[Worker, int]
) -> GraphState:
    state: dict[str, object] = dict.fromkeys(GraphState.__annotations__, "")
    lists = ("agent_messages", "planner_turns", "research_steps", "expert_steps", "research_results")
    state |= {name: [] for name in lists} | {"researcher_states": {}, "expert_state": None}
    for worker, limit in retry_limits.items():
        state |= {f"{worker}_retry_count": 0, f"{worker}_retry_limit": limit}
    state |= {"question": question, "file": file, "correlation_id": correlation_id}
    state |= {"current_step": "input", "next_step": "planner", "current_research_index": -1, "retry_failed": False}
    return cast(GraphState, state)


# Requests. A request is the value of the first input of the agent's signature, and the content of the orchestrator's
# message. Earlier turns of planner, researcher and expert travel in `dspy.History`; critics and finalizer have none.


def to_planner(state: GraphState) -> str:
    if state["critic_planner_decision"] == "reject":
        return f"Use the following feedback to improve the plan:\n{state['critic_planner_feedback']}"
    file_info = (
        f"\n\nInclude using following file in any of the research steps:{state['file']}" if state["file"] else ""
    )
    return f"Develop a logical plan to answer the following question:\n{state['question']}{file_info}"


def to_critic_planner(state: GraphState) -> str:
    file = ["file attached to the question"] if state["file"] else []
    opening = "Review the following plan to answer a question."
    return _write(state, opening, "question", *file, "research steps", "expert steps")


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
    return _write(state, "Answer the following question.", "question", "research results", "steps to follow")


def to_critic_expert(state: GraphState) -> str:
    opening = "Review the following answer to a question."
    return _write(state, opening, "question", "research results", "expert's answer", "expert's reasoning")


def to_finalizer(state: GraphState) -> str:
    opening = "Give the final answer to the following question and its reasoning trace."
    parts = ("question", "research steps", "expert steps", "expert's answer", "expert's reasoning")
    return _write(state, opening, *parts)


def to_finalizer_retry_failed(state: GraphState) -> str:
    """Return the finalizer's request after an error or exhausted retries, with `best_effort`."""
    opening = (
        f"{describe_exhaustion(state)}\n\n"
        "Give the best final answer that the work so far supports, and its reasoning trace, which says that the work "
        "was not approved."
    )
    parts = ("question", "research steps", "research results", "expert's answer", "expert's reasoning")
    return _write(state, opening, *parts)


def to_finalizer_give_up(state: GraphState) -> str:
    """Return the finalizer's request after an error or exhausted retries, with `give_up`."""
    return (
        f"{describe_exhaustion(state)}\n\n"
        f'Return the final answer "{COULD_NOT_ANSWER}" with this as its reasoning trace.'
    )


def describe_exhaustion(state: GraphState) -> str:
    """Return why a question is given up: the failing agent, and its error or last feedback."""
    if state["error"]:
        return f"The {state['error_component']} failed:\n{state['error']}"
    agent = state["failing_agent"]
    feedback = cast(dict[str, object], state)[f"critic_{agent}_feedback"]
    return f"The {agent} reached its retry limit. The last feedback on its work was:\n{feedback}"


def _research_topic(state: GraphState) -> str:
    return state["research_steps"][state["current_research_index"]]


def _write(state: GraphState, opening: str, *parts: str) -> str:
    """Return the opening and, each under its title, parts of the state."""
    texts = {
        "question": state["question"],
        "file attached to the question": state["file"],
        "research steps": _number(state["research_steps"]),
        "expert steps": _number(state["expert_steps"]),
        "steps to follow": _number(state["expert_steps"]),
        "research results": _number(state["research_results"]),
        "expert's answer": state["expert_answer"],
        "expert's reasoning": state["expert_reasoning"],
    }
    return "\n\n".join([opening, *(f"The {part}:\n{texts[part] or '(none)'}" for part in parts)])


def _number(items: list[str]) -> str:
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


@dataclass(frozen=True)
class GaiaAgent(AgentSpec):
    """An agent, and the orchestrator's request to it."""

    request: Callable[[GraphState], str] = field(kw_only=True)


_NODES = "mas.systems.gaia.nodes"
SPECS = (
    GaiaAgent("planner", f"{_NODES}.Plan", critic="critic_planner", request=to_planner),
    GaiaAgent("critic_planner", f"{_NODES}.ReviewPlan", request=to_critic_planner),
    GaiaAgent("researcher", f"{_NODES}.Research", uses_tools=True, critic="critic_researcher", request=to_researcher),
    GaiaAgent("critic_researcher", f"{_NODES}.ReviewResearch", request=to_critic_researcher),
    GaiaAgent("expert", f"{_NODES}.Solve", uses_tools=True, critic="critic_expert", request=to_expert),
    GaiaAgent("critic_expert", f"{_NODES}.ReviewAnswer", request=to_critic_expert),
    GaiaAgent("finalizer", f"{_NODES}.Finalize", request=to_finalizer),
)
AGENTS = tuple(spec.name for spec in SPECS)
WORKERS: tuple[Worker, ...] = tuple(cast(Worker, spec.name) for spec in SPECS if spec.critic)  # critics review
