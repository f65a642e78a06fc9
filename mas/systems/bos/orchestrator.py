"""The workflow as a LangGraph, compiled once per process: plan → execute_agent … → compose.

    START → plan → (execute_agent | compose);  execute_agent → (execute_agent | compose);  compose → END

A compiled graph stored on a `dspy.Module` breaks when an optimizer deep-copies the module. So all copies of the program
share one graph, and each invocation hands in its own planner, agents and composer (`GraphContext`).

A node returns the fields that it changes, lists as a whole.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from mas.runtime.trace import current_trace, span
from mas.systems.bos.composer import Composer, format_earlier
from mas.systems.bos.contracts import (
    EARLIER_RESULTS,
    SYSTEM_PROMPT,
    AgentError,
    AgentExecutionStatus,
    AgentName,
    AgentRequest,
    AgentResult,
    Clock,
    OrchestratorState,
    attach_temporal_context,
    read_clock,
)
from mas.systems.bos.planner import Planner
from mas.systems.bos.recorder import EventRecorder, RecordedAgent


@dataclass(frozen=True)
class GraphContext:
    """Inputs of one invocation of the graph, besides the state."""

    planner: Planner
    agents: Mapping[AgentName, RecordedAgent]
    composer: Composer
    share_results: bool = False  # True: agents see what earlier ones found
    clock: Clock = read_clock


Context = Runtime[GraphContext]
Workflow = CompiledStateGraph[OrchestratorState, GraphContext, OrchestratorState, OrchestratorState]


@functools.cache
def workflow() -> Workflow:
    """Return the compiled graph, the same one for every caller; RuntimeError: the graph could not be compiled."""
    try:
        graph = StateGraph(OrchestratorState, context_schema=GraphContext)
        graph.add_node("plan", plan_node)
        graph.add_node("execute_agent", execute_agent)
        graph.add_node("compose", compose_node)
        graph.add_edge(START, "plan")
        graph.add_conditional_edges("plan", route, ["execute_agent", "compose"])
        graph.add_conditional_edges("execute_agent", route, ["execute_agent", "compose"])
        graph.add_edge("compose", END)
        return graph.compile()
    except Exception as error:
        raise RuntimeError(f"the graph of the system could not be compiled: {error}") from error


async def route(state: OrchestratorState) -> Literal["execute_agent", "compose"]:
    """Route on the event loop: LangGraph would call a synchronous function in a thread."""
    return "execute_agent" if state.get("pending_agents") else "compose"


async def plan_node(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    request = attach_temporal_context(state["request"], runtime.context.clock)
    context = prepare_context(request)
    with span("agent", "planner", inputs={"question": request.question}) as current:
        recorder = EventRecorder("planner", context)
        decision = await runtime.context.planner.plan(
            question=request.question,
            prefer=request.prefer_agents,
            disable=request.disable_agents,
            context=context,
            recorder=recorder,
        )
        chosen = list(decision.chosen_agents)
        recorder.add("DECISION", "Planner produced execution order", agents=chosen, confidence=decision.confidence)
        current.outputs = {"agents": chosen, "rationale": decision.rationale, "guardrails": decision.guardrails}
    return _keep(state, request=request, planner=decision, pending_agents=chosen, trace=recorder.events)


def prepare_context(request: AgentRequest) -> dict[str, object]:
    """Return the context for planner, agents and composer: the request's, with its system prompt."""
    return {**request.context, **({SYSTEM_PROMPT: request.system_prompt} if request.system_prompt else {})}


async def execute_agent(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    pending = list(state.get("pending_agents", ()))
    if not pending:
        return {"pending_agents": []}
    name, request, earlier = pending.pop(0), state["request"], list(state.get("agent_results", ()))
    if request.max_turns is not None and len(earlier) >= request.max_turns:
        recorder = EventRecorder(name)
        recorder.change_status(AgentExecutionStatus.pending, AgentExecutionStatus.skipped)
        error = AgentError(message=f"max_turns={request.max_turns} agents have run", type="TurnLimit")
        result = AgentResult(agent=name, status=AgentExecutionStatus.skipped, error=error, trace=recorder.events)
    else:
        context = prepare_context(request)
        if runtime.context.share_results and (shared := format_earlier(earlier)):
            context[EARLIER_RESULTS] = shared
        result = await runtime.context.agents[name].invoke(request.question, context=context)
    return _keep(state, pending_agents=pending, agent_results=[*earlier, result], trace=result.trace)


async def compose_node(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    request, decision = state["request"], state["planner"]
    results, context = list(state.get("agent_results", ())), prepare_context(request)
    with span("agent", "composer", inputs={"question": request.question}) as current:
        recorder = EventRecorder("composer", context)
        composed = await runtime.context.composer.compose(
            question=request.question,
            planner_rationale=decision.rationale,
            agent_results=results,
            metadata={"confidence": decision.confidence, "agents": [result.agent for result in results]},
            context=context,
            recorder=recorder,
        )
        statuses = {result.agent: str(result.status) for result in results}
        recorder.add("RESULT", "Composer produced the response", statuses=statuses, has_data=composed.data is not None)
        current.outputs = {"final_answer": composed.answer}
    hidden: dict[str, object] = {} if request.include_data else {"tabular": None}
    hidden |= {} if request.trace else {"trace": []}
    response = composed.model_copy(
        update={
            "planner": decision,
            "agent_results": [result.model_copy(update=hidden) for result in results],
            "data": composed.data if request.include_data else None,
            "trace": [*state["trace"], *recorder.events] if request.trace else [],
        }
    )
    none_ran: dict[str, object] = {} if "agent_results" in state else {"agent_results": []}
    return _keep(state, **none_ran, trace=recorder.events, response=response)


def _keep(state: OrchestratorState, **changes: Any) -> OrchestratorState:
    """Store the new state for the sample's record, its trace with the new events at the end; return the changes."""
    changed = cast(OrchestratorState, {**changes, "trace": [*state.get("trace", ()), *changes["trace"]]})
    current_trace().state = {**state, **changed}
    return changed
