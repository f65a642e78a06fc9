"""The workflow as a LangGraph, compiled once a process (DECISIONS 2).

    input_interface → orchestrator → {planner, researcher, expert, critic, finalizer}
    every agent → orchestrator, the finalizer → END

A compiled graph kept on a `dspy.Module` breaks when an optimiser deep-copies the module, so the graph is shared and the
program that runs through it is handed in with each invocation.
"""

import functools
from typing import Any

from langgraph.graph import END, START, StateGraph

from mas.gaia import agents
from mas.gaia.agents import GraphContext
from mas.gaia.orchestrator import orchestrate, route_from_orchestrator
from mas.gaia.state import GraphState, Worker
from mas.tracing.trace import keep_state, span

NODES = {
    "planner": agents.planner,
    "researcher": agents.researcher,
    "expert": agents.expert,
    "critic": agents.critic,
    "finalizer": agents.finalizer,
}


@functools.cache
def workflow() -> Any:
    graph = StateGraph(GraphState, context_schema=GraphContext)
    graph.add_node("input_interface", _input_interface)
    graph.add_node("orchestrator", _orchestrator)
    graph.add_edge(START, "input_interface")
    graph.add_edge("input_interface", "orchestrator")
    graph.add_conditional_edges("orchestrator", route_from_orchestrator, list(NODES))
    for name, node in NODES.items():
        graph.add_node(name, node)
        graph.add_edge(name, END if name == "finalizer" else "orchestrator")
    return graph.compile()


def recursion_limit(retry_limits: dict[Worker, int], max_research_steps: int) -> int:
    """Supersteps that the longest legal run takes.

    An attempt is four of them (orchestrator, agent, orchestrator, critic); every research step may use its researcher's
    whole limit, since an approval resets the counter.
    """
    attempts = retry_limits["planner"] + max_research_steps * retry_limits["researcher"] + retry_limits["expert"]
    return 4 * attempts + 10


async def _input_interface(state: GraphState) -> GraphState:
    keep_state(state)
    return state


async def _orchestrator(state: GraphState) -> GraphState:
    with span("orchestrator", "orchestrator", after=state["current_step"]):
        state = orchestrate(state)
    keep_state(state)
    return state
