"""The workflow as a LangGraph, compiled once per process: plan → execute_agent … → compose.

    START → plan → (execute_agent | compose);  execute_agent → (execute_agent | compose);  compose → END

A compiled graph stored on a `dspy.Module` breaks when an optimizer deep-copies the module. So all copies of the program
share one graph, and each invocation hands in its own planner, agents and composer (`GraphContext`).

A node returns the fields that it changes, lists as a whole.
"""

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from dspy.utils.exceptions import AdapterParseError, LMError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.stack_trace import format_stack
from mas.runtime.trace import keep_answer, keep_state, span
from mas.systems.bos.composer import Composer, format_earlier
from mas.systems.bos.context import EARLIER_RESULTS, SYSTEM_PROMPT, Clock, read_clock
from mas.systems.bos.contracts import (
    Agent,
    AgentError,
    AgentExecutionStatus,
    AgentName,
    AgentRequest,
    AgentResult,
    OrchestratorState,
    attach_temporal_context,
)
from mas.systems.bos.planner import Planner
from mas.systems.bos.recorder import EventRecorder, note_recorders

_Status = AgentExecutionStatus


@dataclass(frozen=True)
class GraphContext:
    """Inputs of one invocation of the graph, besides the state."""

    planner: Planner
    agents: Mapping[AgentName, Agent]
    composer: Composer
    share_results: bool = False  # True: agents see what earlier ones found
    clock: Clock = read_clock
    faults: dict[AgentName, Exception] = field(default_factory=dict)  # agents whose model gave no usable reply


Context = Runtime[GraphContext]
Workflow = CompiledStateGraph[OrchestratorState, GraphContext, OrchestratorState, OrchestratorState]
_workflow: Workflow | None = None
_compiling = threading.Lock()


def workflow() -> Workflow:
    """Return the compiled graph, the same one for every caller.

    Raises:
        RuntimeError: the graph could not be compiled.
    """
    global _workflow
    with _compiling:
        if _workflow is None:
            try:
                _workflow = build_graph().compile()
            except Exception as error:
                raise RuntimeError(f"the graph of the system could not be compiled: {error}") from error
        return _workflow


def build_graph() -> StateGraph[OrchestratorState, GraphContext, OrchestratorState, OrchestratorState]:
    graph = StateGraph(OrchestratorState, context_schema=GraphContext)
    graph.add_node("plan", plan_node)
    graph.add_node("execute_agent", execute_agent)
    graph.add_node("compose", compose_node)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", route, ["execute_agent", "compose"])
    graph.add_conditional_edges("execute_agent", route, ["execute_agent", "compose"])
    graph.add_edge("compose", END)
    return graph


async def route(state: OrchestratorState) -> Literal["execute_agent", "compose"]:
    """Route on the event loop: LangGraph would call a synchronous function in a thread."""
    return "execute_agent" if state.get("pending_agents") else "compose"


async def plan_node(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    """Complete the request's context and decide which agents run."""
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
    trace = [*state.get("trace", ()), *recorder.events]
    changes = OrchestratorState(request=request, planner=decision, pending_agents=chosen, trace=trace)
    return _keep(state, changes)


def prepare_context(request: AgentRequest) -> dict[str, object]:
    """Return the context for planner, agents and composer: the request's, with its system prompt."""
    own = {SYSTEM_PROMPT: request.system_prompt} if request.system_prompt else {}
    return {**request.context, **own}


async def execute_agent(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    """Run the first pending agent, or skip it if the request's turns are used up."""
    pending = list(state.get("pending_agents", ()))
    if not pending:
        return {"pending_agents": []}
    name, request, earlier = pending.pop(0), state["request"], list(state.get("agent_results", ()))
    if request.max_turns is not None and len(earlier) >= request.max_turns:
        result = _skip(name, f"max_turns={request.max_turns} agents have run")
    else:
        result = await run_agent(name, request, earlier if runtime.context.share_results else (), runtime)
    trace = [*state.get("trace", ()), *result.trace]
    return _keep(state, OrchestratorState(pending_agents=pending, agent_results=[*earlier, result], trace=trace))


async def run_agent(
    name: AgentName, request: AgentRequest, earlier: Sequence[AgentResult], runtime: Context
) -> AgentResult:
    """Run one agent. Whatever it raises becomes a failed result.

    Raises:
        LimitReachedError: a limit of the sample or the run was reached.
    """
    context = prepare_context(request)
    if shared := format_earlier(earlier):
        context[EARLIER_RESULTS] = shared
    recorder, started = EventRecorder(name, context), time.perf_counter()
    with span("agent", name, inputs={"question": request.question}) as current:
        status = _change_status(recorder, _Status.pending, _Status.running)
        opening = list(recorder.events)
        try:
            with note_recorders() as noted:
                result = await _invoke(runtime.context.agents[name], request.question, context)
            if not isinstance(result, AgentResult):
                raise TypeError(f"the agent {name} returned {type(result).__name__}; expected AgentResult")
            if result.status in (_Status.pending, _Status.running):
                raise ValueError(f"the agent {name} returned a result that is {result.status}; expected a final one")
        except LimitReachedError:
            raise
        except Exception as error:  # noqa: BLE001  # of an agent: becomes its result
            if isinstance(error, LMError | AdapterParseError):
                runtime.context.faults[name] = error
            kind, own = type(error).__name__, noted[0] if noted else EventRecorder(name, context)
            result = own.fail(kind, str(error) or kind, {"stack": format_stack(error)})
        if result.error is not None and not any(each.event_type == "ERROR" for each in result.trace):
            recorder.add("ERROR", result.error.message, type=result.error.type)
        _change_status(recorder, status, result.status)
        closing = recorder.events[len(opening) :]
        current.outputs = {"status": str(result.status), "answer": result.answer}
        current.attributes["status"] = str(result.status)
        if result.error is not None:
            current.outputs["error"] = {"type": result.error.type, "message": result.error.message}
    latency = (time.perf_counter() - started) * 1000
    return result.model_copy(
        update={"agent": name, "trace": [*opening, *result.trace, *closing], "latency_ms": latency}
    )


async def _invoke(agent: Agent, question: str, context: Mapping[str, object]) -> object:
    """Await an agent; one whose `invoke` blocks runs in a thread."""
    if inspect.iscoroutinefunction(agent.invoke):
        return await await_safely(agent.invoke(question, context=context), RuntimeError)
    blocking = cast(Callable[..., object], agent.invoke)
    return await run_in_thread(lambda: blocking(question, context=context), RuntimeError)


def _change_status(
    recorder: EventRecorder, before: AgentExecutionStatus, after: AgentExecutionStatus
) -> AgentExecutionStatus:
    recorder.add("MESSAGE", f"Status changed from {before} to {after}", status=str(before.move_to(after)))
    return after


def _skip(name: AgentName, reason: str) -> AgentResult:
    recorder = EventRecorder(name)
    status = _change_status(recorder, _Status.pending, _Status.skipped)
    error = AgentError(message=reason, type="TurnLimit")
    return AgentResult(agent=name, status=status, error=error, trace=recorder.events)


async def compose_node(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    """Make the response from the results of all agents."""
    request, decision = state["request"], state["planner"]
    results, context = list(state.get("agent_results", ())), prepare_context(request)
    metadata = {"confidence": decision.confidence, "agents": [result.agent for result in results]}
    with span("agent", "composer", inputs={"question": request.question}) as current:
        recorder = EventRecorder("composer", context)
        composed = await runtime.context.composer.compose(
            question=request.question,
            planner_rationale=decision.rationale,
            agent_results=results,
            metadata=metadata,
            context=context,
            recorder=recorder,
        )
        statuses = {result.agent: str(result.status) for result in results}
        recorder.add("RESULT", "Composer produced the response", statuses=statuses, has_data=composed.data is not None)
        current.outputs = {"final_answer": composed.answer}
    trace = [*state.get("trace", ()), *recorder.events]
    hidden: dict[str, object] = {} if request.include_data else {"tabular": None}
    hidden |= {} if request.trace else {"trace": []}
    shown: dict[str, object] = {
        "planner": decision,
        "agent_results": [result.model_copy(update=hidden) for result in results],
        "data": composed.data if request.include_data else None,
        "trace": trace if request.trace else [],
    }
    keep_answer(composed.answer)
    response = composed.model_copy(update=shown)
    changes = OrchestratorState(trace=trace, response=response)
    if "agent_results" not in state:  # no agent ran
        changes["agent_results"] = []
    return _keep(state, changes)


def _keep(state: OrchestratorState, changes: OrchestratorState) -> OrchestratorState:
    """Store the new state for the sample's record."""
    keep_state({**state, **changes})
    return changes
