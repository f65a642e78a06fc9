"""The program over a scripted model, with agents that a test writes in place of the real ones."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from mas.agents.spec import AgentSpec
from mas.systems.bos import agents as registry
from mas.systems.bos.agents import AgentEntry
from mas.systems.bos.contracts import AgentExecutionStatus, AgentName, AgentResult, TabularResult
from mas.systems.bos.program import BosProgram
from mas.systems.bos.settings import PlannerSettings
from mas.systems.bos.system import BosSystem
from mas.tools.settings import Resources, ToolSettings
from tests.scripted_model import ScriptedModel

NOW = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
KEYWORDS = {"sql": ["table", "list", "query"], "api_docs": ["api", "endpoint"], "computation": ["sum", "average"]}
Behaviour = Callable[[str, Mapping[str, object]], Any]  # question and context → what `invoke` returns, or an awaitable


class WrittenAgent:
    """Agent whose behaviour is a function of the test; it notes its calls."""

    def __init__(self, name: AgentName, behaviour: Behaviour | None = None) -> None:
        self.name, self.behaviour = name, behaviour
        self.calls: list[tuple[str, dict[str, object]]] = []

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        self.calls.append((question, dict(context)))
        if self.behaviour is None:
            return succeed(self.name)
        result = self.behaviour(question, context)
        return cast(AgentResult, await result if hasattr(result, "__await__") else result)


def succeed(name: AgentName, answer: str | None = None, rows: list[dict[str, Any]] | None = None) -> AgentResult:
    columns = list(rows[0]) if rows else []
    table = None if rows is None else TabularResult.from_lists(columns, [list(row.values()) for row in rows])
    answer = f"{name} says so" if answer is None else answer
    return AgentResult(agent=name, status=AgentExecutionStatus.succeeded, answer=answer, tabular=table)


def use_agents(monkeypatch: pytest.MonkeyPatch, *agents: Any) -> None:
    """Offer these agents in the registry, and no other."""
    rivals: dict[str, tuple[AgentName, ...]] = {"api_docs": ("sql", "computation"), "sql": ("computation",)}
    entries: dict[AgentName, AgentEntry] = {
        agent.name: AgentEntry(
            description=f"the agent {agent.name}",
            specs=(AgentSpec(f"{agent.name}_step", "mas.systems.toy.program.Solve"),),
            make=lambda predictors, settings, resources, agent=agent: agent,
            rivals=rivals.get(agent.name, ("sql",)),
        )
        for agent in agents
    }
    monkeypatch.setattr(registry, "REGISTRY", entries)
    for module in ("program", "system"):
        monkeypatch.setattr(f"mas.systems.bos.{module}.REGISTRY", entries)


def build(model: ScriptedModel, **system: Any) -> BosProgram:
    system.setdefault("planner", PlannerSettings(keywords=KEYWORDS))
    made = BosSystem(**system)
    made.check()
    program = cast(BosProgram, made.build(cast(Any, model), None, Resources(ToolSettings())))
    program.shared.clock = lambda: NOW
    return program


def choose(*agents: str, **fields: Any) -> dict[str, Any]:
    """The planner's reply."""
    return {"chosen_agents": list(agents), "rationale": "because", "confidence": "0.9", **fields}
