"""What the second system itself takes: its graph, its keywords and its events, around agents that do nothing.

    python tests/bench/everything.py --only request_overhead

Planner, agents and composer answer at once, without a language model.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, cast

from tests.bench.measuring import ROOT
from tests.bench.tables import Table

QUESTIONS = 200
BUDGETS = {"a node of the graph": 5.0, "compiling the graph, once per process": 500.0, "keywords of a question": 10.0}
_COMPILE = """
import time
from mas.systems.bos import orchestrator
started = time.perf_counter()
orchestrator.workflow()
print((time.perf_counter() - started) * 1000)
"""


class _AtOnce:
    """Planner, agent and composer in one."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    async def plan(self, **given: object) -> Any:
        from mas.systems.bos.contracts import PlannerDecision

        return PlannerDecision(rationale="all of them", chosen_agents=("api_docs", "sql", "computation"))

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> Any:
        from mas.systems.bos.contracts import AgentExecutionStatus, AgentResult

        return AgentResult(agent=cast(Any, self.name), status=AgentExecutionStatus.SUCCEEDED, answer="done")

    async def compose(self, *, agent_results: Any, metadata: Any, **given: object) -> Any:
        from mas.systems.bos.contracts import OrchestratorResponse

        return OrchestratorResponse(answer="done", agent_results=list(agent_results), metadata=dict(metadata))


def request_overhead() -> Table:
    """Milliseconds of each part, against the budget of the system's design."""
    table = Table("The second system around its agents", ["part", "median ms", "highest of 95 in 100 ms", "budget ms"])
    compiled = subprocess.run([sys.executable, "-c", _COMPILE], cwd=ROOT, capture_output=True, text=True, check=True)
    measured = {
        "a node of the graph": asyncio.run(_measure_nodes()),
        "compiling the graph, once per process": [float(compiled.stdout)],
        "keywords of a question": _measure_keywords(),
    }
    for part, times in measured.items():
        times.sort()
        row = (statistics.median(times), times[int(0.95 * (len(times) - 1))])
        table.add([part, f"{row[0]:.2f}", f"{row[1]:.2f}", f"{BUDGETS[part]:g}"])
        table.keep("bos", part, {"median_ms": row[0], "p95_ms": row[1]})
    table.notes.append(f"{QUESTIONS} requests one after another, five nodes each; no language model, no tools")
    return table


async def _measure_nodes() -> list[float]:
    from mas.systems.bos.contracts import AGENT_NAMES, AgentRequest
    from mas.systems.bos.orchestrator import GraphContext, recursion_limit, workflow

    parts = _AtOnce()
    agents = {name: cast(Any, _AtOnce(name)) for name in AGENT_NAMES}
    context = GraphContext(planner=cast(Any, parts), agents=agents, composer=cast(Any, parts))
    config: Any = {"recursion_limit": recursion_limit(len(agents))}
    times = []
    for number in range(QUESTIONS):
        request = AgentRequest(question=f"How many orders are in month {number}?")
        started = time.perf_counter()
        final = await workflow().ainvoke({"request": request}, context=context, config=config)
        times.append((time.perf_counter() - started) * 1000 / (len(final["agent_results"]) + 2))
    return times


def _measure_keywords() -> list[float]:
    from omegaconf import OmegaConf

    from mas.systems.bos.agents import ORDER, REGISTRY
    from mas.systems.bos.planner import AgentChoice, find_candidates
    from mas.systems.bos.settings import PlannerSettings

    conf = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "system" / "bos.yaml"), resolve=False)
    settings = PlannerSettings(**cast(dict[str, Any], conf)["planner"])
    choices = {name: AgentChoice(REGISTRY[name].description, REGISTRY[name].rivals) for name in ORDER}
    question = "List all orders of the database and compute the average of their totals. " * 20
    times = []
    for _ in range(QUESTIONS):
        started = time.perf_counter()
        find_candidates(question, settings, choices)
        times.append((time.perf_counter() - started) * 1000)
    return times
