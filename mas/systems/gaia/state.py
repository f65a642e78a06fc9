"""The state of one question's run (docs/explanation/decisions.md 3)."""

from typing import Any, Literal, TypedDict

Step = Literal[
    "input", "planner", "critic_planner", "researcher", "critic_researcher", "expert", "critic_expert", "finalizer"
]
Worker = Literal["planner", "researcher", "expert"]  # the agents that a critic reviews
Decision = Literal["approve", "reject", ""]

WORKERS: tuple[Worker, ...] = ("planner", "researcher", "expert")
AGENTS = ("planner", "critic_planner", "researcher", "critic_researcher", "expert", "critic_expert", "finalizer")


class AgentMessage(TypedDict):
    """What the orchestrator and an agent say to each other."""

    timestamp: str  # UTC, ISO 8601
    sender: str
    receiver: str
    type: Literal["instruction", "feedback", "response"]
    content: str
    step_id: int | None  # research step it belongs to


class ResearcherState(TypedDict):
    """One research step's own conversation; `messages` are `dspy.History` turns."""

    messages: list[dict[str, Any]]
    step_index: int
    result: str | None


class ExpertState(TypedDict):
    messages: list[dict[str, Any]]
    question: str
    research_steps: list[str]
    research_results: list[str]
    expert_answer: str
    expert_reasoning: str


class GraphState(TypedDict):
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


def initial_state(question: str, file: str | None, correlation_id: str, retry_limits: dict[Worker, int]) -> GraphState:
    """Return the state before the first step.

    Raises:
        ValueError: the question is empty.
    """
    if not question.strip():
        raise ValueError("no question was given to the system; expected some text")
    return GraphState(
        question=question,
        file=file,
        correlation_id=correlation_id,
        agent_messages=[],
        planner_turns=[],
        research_steps=[],
        expert_steps=[],
        current_research_index=-1,
        researcher_states={},
        research_results=[],
        expert_state=None,
        expert_answer="",
        expert_reasoning="",
        critic_planner_decision="",
        critic_planner_feedback="",
        critic_researcher_decision="",
        critic_researcher_feedback="",
        critic_expert_decision="",
        critic_expert_feedback="",
        final_answer="",
        final_reasoning_trace="",
        current_step="input",
        next_step="planner",
        planner_retry_count=0,
        researcher_retry_count=0,
        expert_retry_count=0,
        planner_retry_limit=retry_limits["planner"],
        researcher_retry_limit=retry_limits["researcher"],
        expert_retry_limit=retry_limits["expert"],
        retry_failed=False,
        failing_agent="",
        error="",
        error_component="",
    )
