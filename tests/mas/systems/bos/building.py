"""The program over a scripted model, with agents that a test writes in place of the real ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from mas.agents.spec import AgentSpec
from mas.systems.bos.agents import AgentEntry
from mas.systems.bos.contracts import (
    AgentExecutionStatus,
    AgentFailureError,
    AgentName,
    AgentResult,
    TabularResult,
    TraceEvent,
)
from mas.systems.bos.program import BosProgram
from mas.systems.bos.recorder import EventRecorder, RecordedAgent
from mas.systems.bos.system import BosSystem
from mas.tools.settings import Resources, ToolSettings
from tests.scripted_model import ScriptedModel

NOW = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
KEYWORDS = {"sql": ["table", "list", "query"], "api_docs": ["api", "endpoint"], "computation": ["sum", "average"]}
Behaviour = Callable[[str, Mapping[str, object]], Any]  # question and context → a result, or an awaitable of one


class WrittenAgent(RecordedAgent):
    """Agent whose behaviour is a function of the test; it notes its calls."""

    def __init__(self, name: AgentName, behaviour: Behaviour | None = None) -> None:
        self.name, self.behaviour = name, behaviour  # type: ignore[misc]
        self.calls: list[tuple[str, dict[str, object]]] = []

    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, TabularResult | None]:
        self.calls.append((question, dict(recorder.context)))
        made = self.behaviour(question, recorder.context) if self.behaviour else succeed(self.name)
        result = cast(AgentResult, await made if hasattr(made, "__await__") else made)
        recorder.events += result.trace
        if result.error:
            raise AgentFailureError(result.error.type, result.error.message, result.error.details)
        return result.answer or "", result.tabular


def own_events(result: AgentResult) -> list[TraceEvent]:
    """The events of an agent, without the changes of its status."""
    return [event for event in result.trace if not (event.message or "").startswith("Status changed")]


def succeed(name: AgentName, answer: str | None = None, rows: list[dict[str, Any]] | None = None) -> AgentResult:
    columns = list(rows[0]) if rows else []
    table = None if rows is None else TabularResult.from_lists(columns, [list(row.values()) for row in rows])
    answer = f"{name} says so" if answer is None else answer
    return AgentResult(agent=name, status=AgentExecutionStatus.succeeded, answer=answer, tabular=table)


@dataclass(frozen=True)
class ReadyEntry(AgentEntry):
    """Entry of an agent that is made already."""

    ready: Any = None

    def make(self, predictors: Any, resources: Any) -> RecordedAgent:
        return cast(RecordedAgent, self.ready)


def use_agents(monkeypatch: pytest.MonkeyPatch, *agents: Any) -> None:
    """Offer these agents in the registry, and no other."""
    rivals: dict[str, tuple[AgentName, ...]] = {"api_docs": ("sql", "computation"), "sql": ("computation",)}
    entries: dict[AgentName, AgentEntry] = {
        agent.name: ReadyEntry(
            description=f"the agent {agent.name}",
            specs=(AgentSpec(f"{agent.name}_step", "mas.systems.toy.program.Solve"),),
            agent="",
            ready=agent,
            keywords=tuple(KEYWORDS[agent.name]),
            rivals=rivals.get(agent.name, ("sql",)),
        )
        for agent in agents
    }
    for module in ("program", "system"):
        monkeypatch.setattr(f"mas.systems.bos.{module}.REGISTRY", entries)


def build(model: ScriptedModel, **system: Any) -> BosProgram:
    made = BosSystem(**system)
    made.check()
    program = cast(BosProgram, made.build(cast(Any, model), None, Resources(ToolSettings())))
    program.shared.clock = lambda: NOW
    return program


def choose(*agents: str, **fields: Any) -> dict[str, Any]:
    """The planner's reply."""
    return {"chosen_agents": list(agents), "rationale": "because", "confidence": "0.9", **fields}
