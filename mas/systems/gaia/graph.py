"""The workflow as a LangGraph, compiled once a process (docs/explanation/decisions.md 2).

    input_interface → orchestrator → {planner, researcher, expert, critic, finalizer}
    every agent → orchestrator, the finalizer → END

A compiled graph kept on a `dspy.Module` breaks when an optimiser deep-copies the module, so the graph is shared and the
program that runs through it is handed in with each invocation.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, cast

from langgraph.graph import END, START, StateGraph

from mas.runtime.trace import keep_state, span
from mas.systems.gaia import agents
from mas.systems.gaia.agents import Context, GraphContext
from mas.systems.gaia.orchestrator import orchestrate, route_from_orchestrator
from mas.systems.gaia.state import GraphState, Worker

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
    graph.add_conditional_edges("orchestrator", _route, list(NODES))
    for name, node in NODES.items():
        graph.add_node(name, _changes_of(node))
        graph.add_edge(name, END if name == "finalizer" else "orchestrator")
    return graph.compile()


def recursion_limit(retry_limits: dict[Worker, int], max_research_steps: int) -> int:
    """Supersteps that the longest legal run takes.

    An attempt is four of them (orchestrator, agent, orchestrator, critic); every research step may use its researcher's
    whole limit, since an approval resets the counter.
    """
    attempts = retry_limits["planner"] + max_research_steps * retry_limits["researcher"] + retry_limits["expert"]
    return 4 * attempts + 10


Changes = dict[str, Any]  # the fields of the state that a node has changed
Agent = Callable[[GraphState, Context], Awaitable[GraphState]]


def _changes_of(agent: Agent) -> Any:
    """The agent as a node that writes only what it has changed: the graph's work grows with the fields written."""

    async def node(state: GraphState, runtime: Context) -> Changes:
        return _changes(state, await agent(state, runtime))

    return node


def _changes(before: GraphState, after: GraphState) -> Changes:
    earlier = cast(dict[str, Any], before)
    return {field: value for field, value in after.items() if value is not earlier[field]}


async def _input_interface(state: GraphState) -> Changes:
    keep_state(state)
    return {}


async def _orchestrator(state: GraphState) -> Changes:
    with span("orchestrator", "orchestrator", after=state["current_step"]):
        after = orchestrate(state)
    keep_state(after)
    return _changes(state, after)


async def _route(state: GraphState) -> str:
    """Asynchronous, or the graph would hand it to a thread."""
    return route_from_orchestrator(state)
