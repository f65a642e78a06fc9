"""Decision of the planner, response of the system, and the state of its graph."""

import math

from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.systems.bos.contracts.events import TraceEvent
from mas.systems.bos.contracts.request import AgentName, AgentRequest
from mas.systems.bos.contracts.result import AgentResult, TabularResult


class PlannerDecision(BaseModel):
    """Agents to run, in order. Immutable."""

    model_config = ConfigDict(frozen=True)

    rationale: str
    chosen_agents: tuple[AgentName, ...] = ()
    confidence: float | None = None  # 0 to 1
    guardrails: dict[str, object] = Field(default_factory=dict)  # constraints that were applied, by name

    @field_validator("confidence", mode="before")
    @classmethod
    def _normalise(cls, value: object) -> float | None:
        return normalise_confidence(value)


def normalise_confidence(value: object) -> float | None:
    """Return a confidence of 0 to 1: percentages are divided by 100, other numbers clamped; None for no number."""
    text = str(value).strip()
    is_percentage = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        return None
    if math.isnan(number):
        return None
    if is_percentage or 1 < number <= 100:
        number /= 100
    return min(max(number, 0.0), 1.0)


class OrchestratorResponse(BaseModel):
    """Answer to a request, with everything that led to it. Immutable."""

    model_config = ConfigDict(frozen=True)

    answer: str
    data: TabularResult | None = None  # of the first agent that succeeded with a table
    agent_results: list[AgentResult] = Field(default_factory=list)  # failures included
    trace: list[TraceEvent] = Field(default_factory=list)  # only if the request asks for it
    planner: PlannerDecision | None = None
    metadata: dict[str, object] = Field(default_factory=dict)  # confidence, agents


class OrchestratorState(TypedDict, total=False):
    """State of the graph; a node returns only the fields that it changes, and lists as a whole."""

    request: AgentRequest  # with the temporal context after planning
    planner: PlannerDecision
    pending_agents: list[AgentName]
    agent_results: list[AgentResult]
    trace: list[TraceEvent]
    response: OrchestratorResponse
