"""The GAIA system as one `dspy.Module`, its workflow as a LangGraph (docs/explanation/decisions.md 2).

    input_interface → orchestrator → {planner, researcher, expert, critic, finalizer}
    every agent → orchestrator, the finalizer → END

The graph is compiled once per process: on a `dspy.Module` it would break when an optimizer deep-copies the module. So
all copies of the program share one graph, and each invocation hands in its own predictors.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State
from mas.agents.spec import Toolboxes
from mas.runtime.errors import walk_chain
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.trace import current_trace, event, span
from mas.systems.gaia.agents import AGENTS, SPECS, GraphState, Worker, initial_state
from mas.systems.gaia.nodes import NODES, Context, GraphContext, give_up
from mas.systems.gaia.orchestrator import orchestrate, route_from_orchestrator

Changes = dict[str, object]  # the fields of the state that a node has changed
Workflow = CompiledStateGraph[GraphState, GraphContext, GraphState, GraphState]


class GaiaProgram(AgentProgram):
    """Answers a question with its attachment: seven predictors, one prompt file each."""

    def __init__(
        self, toolboxes: Toolboxes, retry_limits: dict[Worker, int], max_research_steps: int, on_retry_exhausted: str
    ) -> None:
        super().__init__(SPECS, toolboxes)
        workflow()  # compiled now, so that nothing of it can fail or wait at the first question
        self.retry_limits = retry_limits
        self.max_research_steps = max_research_steps
        self.on_retry_exhausted = on_retry_exhausted

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        context = GraphContext(
            predictors={name: getattr(self, name) for name in AGENTS},
            toolboxes=self.toolboxes,
            retry_limits=self.retry_limits,
            max_research_steps=self.max_research_steps,
            on_retry_exhausted=self.on_retry_exhausted,
        )
        asked = {"question": question, "file": file.name if file else None, "correlation_id": thread_id}
        limit = recursion_limit(self.retry_limits, self.max_research_steps)
        with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)):
            final = await workflow().ainvoke(
                cast(GraphState, asked), context=context, config={"recursion_limit": limit}
            )
        return cast(State, final)


@functools.cache
def workflow() -> Workflow:
    graph = StateGraph(GraphState, context_schema=GraphContext)
    graph.add_node("input_interface", _input_interface)
    graph.add_node("orchestrator", _orchestrator)
    graph.add_edge(START, "input_interface")
    graph.add_edge("input_interface", "orchestrator")
    graph.add_conditional_edges("orchestrator", _route, list(NODES))
    for name, node in NODES.items():
        graph.add_node(name, cast(Any, _write_changes(node)))
        graph.add_edge(name, END if name == "finalizer" else "orchestrator")
    return graph.compile()


def recursion_limit(retry_limits: Mapping[Worker, int], max_research_steps: int) -> int:
    """Return the number of supersteps that the longest legal run takes.

    An attempt is four of them (orchestrator, agent, orchestrator, critic); every research step may use its researcher's
    whole limit, since an approval resets the counter.
    """
    attempts = sum(
        limit * (max_research_steps if worker == "researcher" else 1) for worker, limit in retry_limits.items()
    )
    return 4 * attempts + 10


def _write_changes(
    node: Callable[[GraphState, Context], Awaitable[GraphState]],
) -> Callable[[GraphState, Context], Awaitable[Changes]]:
    """Return the node as one that writes only what it has changed, since each field costs the graph work.

    An error of its model becomes the state's, and the finalizer is next (docs/explanation/decisions.md 7e).
    """

    async def write_changes(state: GraphState, runtime: Context) -> Changes:
        step = state["current_step"]
        runtime.context.faults.pop(step, None)
        try:
            after = await node(state, runtime)
        except (LMError, AdapterParseError) as error:
            if any(isinstance(each, LimitReachedError) for each in walk_chain(error)):
                raise
            runtime.context.faults[step] = error
            after = {**state, "error": f"{type(error).__name__}: {error}", "error_component": step}
            if step == "finalizer":
                after = give_up(after, runtime)
        return _find_changes(state, after)

    return write_changes


def _find_changes(before: GraphState, after: GraphState) -> Changes:
    earlier = cast(dict[str, Any], before)
    return {field: value for field, value in after.items() if value is not earlier[field]}


async def _input_interface(state: GraphState, runtime: Context) -> Changes:
    if not state["question"].strip():
        raise ValueError("No question provided to input interface")
    event("input interface started", component="input_interface")
    first = initial_state(state["question"], state["file"], state["correlation_id"], runtime.context.retry_limits)
    current_trace().state = dict(first)
    event("input interface completed", component="input_interface")
    return cast(Changes, first)


async def _orchestrator(state: GraphState, runtime: Context) -> Changes:
    with span("orchestrator", "orchestrator", after=state["current_step"]):
        after = orchestrate(state, gives_up=runtime.context.on_retry_exhausted == "give_up")
    current_trace().state = dict(after)
    return _find_changes(state, after)


async def _route(state: GraphState) -> str:
    """Route on the event loop: LangGraph would call a synchronous function in a thread."""
    return route_from_orchestrator(state)
