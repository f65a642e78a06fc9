"""The system as one `dspy.Module` with a predictor and a prompt file for each LLM step, and its LangGraph.

    START → plan → (execute_agent | compose);  execute_agent → (execute_agent | compose);  compose → END

A compiled graph stored on a `dspy.Module` breaks when an optimizer deep-copies the module. So all copies of the program
share one graph, and each invocation hands in its own program. A node returns changed fields, lists as a whole.
"""

import functools
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast
from urllib.parse import urlsplit

import dspy
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State, check_question
from mas.runtime.errors import UserError
from mas.runtime.trace import current_trace, span
from mas.systems.bos.agents import REGISTRY, SPECS
from mas.systems.bos.composer import compose, format_earlier
from mas.systems.bos.contracts import (
    AGENT_NAMES,
    EARLIER_RESULTS,
    REQUEST_SENT,
    SYSTEM_PROMPT,
    AgentError,
    AgentExecutionStatus,
    AgentName,
    AgentRequest,
    AgentResult,
    Clock,
    OrchestratorState,
    attach_temporal_context,
)
from mas.systems.bos.planner import plan
from mas.systems.bos.recorder import EventRecorder
from mas.tools.settings import Resources, use_tool_context

Chunk = Mapping[str, OrchestratorState]  # node → the fields that it has changed

_CONFIG: RunnableConfig = {"recursion_limit": len(AGENT_NAMES) + 5}  # of the longest run, and a few
_KEEP_NO_PROMPTS: dict[str, object] = {"disable_history": True, "trace": []}  # DSPy would collect all


@dataclass
class SharedObjects:
    """Settings and resources, which copies of the program share: they hold connections."""

    share_results: bool  # an agent sees what earlier ones found
    gaps: Mapping[AgentName, str]  # agents that are not offered, with the reason
    resources: Resources
    clock: Clock

    def __deepcopy__(self, memo: object) -> Self:
        return self


class BosProgram(AgentProgram):
    """Answers a request; `mas.systems.bos.service` runs it outside of an evaluation."""

    def __init__(self, shared: SharedObjects) -> None:
        super().__init__(SPECS)
        workflow()  # compiled now, so that nothing of it can fail or wait at the first question
        self.shared = shared

    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        """Return the complete final state; if no agent succeeded, a model's failure is noted."""
        check_question(question)
        request = parse_inputs(question, inputs)
        state = await self.run_graph(request)
        results = state["agent_results"]
        failed = [(result.model_error, result.agent) for result in results if result.model_error]
        if failed and not any(result.has_succeeded for result in results):
            current_trace().failure = failed[0]
        statuses = ", ".join(f"{result.agent} {result.status}" for result in results)
        return {
            "question": request.question,
            "correlation_id": thread_id,
            **state,
            "final_answer": state["response"].answer,
            "final_reasoning_trace": f"{state['planner'].rationale}\n\nAgents: {statuses or 'none'}",
            "outputs": list_outputs(state),
        }

    async def run_graph(self, request: AgentRequest, keep_prompts: bool = True) -> OrchestratorState:
        with self._settings(keep_prompts):
            final = await workflow().ainvoke({"request": request}, context=self, config=_CONFIG)
        return cast(OrchestratorState, final)

    async def stream_graph(self, request: AgentRequest) -> AsyncGenerator[Chunk]:
        """Yield the changes of each node; to be iterated in a task whose context it may change."""
        inputs = OrchestratorState(request=request)
        with self._settings(keep_prompts=False):
            async for chunk in workflow().astream(inputs, context=self, config=_CONFIG, stream_mode="updates"):
                yield cast(Chunk, chunk)

    @contextmanager
    def _settings(self, keep_prompts: bool) -> Iterator[None]:
        kept = {} if keep_prompts else _KEEP_NO_PROMPTS
        with dspy.context(adapter=ChatAdapter(), **kept), use_tool_context(self.shared.resources):
            yield


Context = Runtime[BosProgram]


@functools.cache
def workflow() -> CompiledStateGraph[OrchestratorState, BosProgram, OrchestratorState, OrchestratorState]:
    """Return the compiled graph, the same for every caller; RuntimeError: it could not be compiled."""
    try:
        graph = StateGraph(OrchestratorState, context_schema=BosProgram)
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
    program, shared = runtime.context, runtime.context.shared
    request = attach_temporal_context(state["request"], shared.clock)
    context = prepare_context(request)
    offered = {name: entry for name, entry in REGISTRY.items() if name not in shared.gaps}
    with span("agent", "planner", inputs={"question": request.question}) as current:
        recorder = EventRecorder("planner", context)
        decision = await plan(
            program.planner,
            offered,
            shared.gaps,
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
        status = recorder.change_status(AgentExecutionStatus.pending, AgentExecutionStatus.skipped)
        error = AgentError(message=f"max_turns={request.max_turns} agents have run", type="TurnLimit")
        result = AgentResult(agent=name, status=status, error=error, trace=recorder.events)
    else:
        program, shared = runtime.context, runtime.context.shared
        context = prepare_context(request)
        if shared.share_results and (found := format_earlier(earlier)):
            context[EARLIER_RESULTS] = found
        agent = REGISTRY[name].make(dict(program.named_predictors()), shared.resources)
        result = await agent.invoke(request.question, context=context)
    return _keep(state, pending_agents=pending, agent_results=[*earlier, result], trace=result.trace)


async def compose_node(state: OrchestratorState, runtime: Context) -> OrchestratorState:
    request, decision = state["request"], state["planner"]
    results, context = list(state.get("agent_results", ())), prepare_context(request)
    with span("agent", "composer", inputs={"question": request.question}) as current:
        recorder = EventRecorder("composer", context)
        composed = await compose(
            runtime.context.composer,
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
    """Store the new state for the record, with the new events in its trace; return the changes."""
    changed = cast(OrchestratorState, {**changes, "trace": [*state.get("trace", ()), *changes["trace"]]})
    current_trace().state = {**state, **changed}
    return changed


def parse_inputs(question: str, inputs: Mapping[str, str]) -> AgentRequest:
    """Return the request of a sample; fields that are none of a request's are values of its context."""
    fields: dict[str, object] = {"question": question}
    context: dict[str, object] = {}
    for name, text in inputs.items():
        if name == "context" and text:
            try:
                context |= dict(**json.loads(text))
            except (ValueError, TypeError, RecursionError) as error:
                reason = f"The field context of a sample is {text[:60]!r}; expected a JSON object."
                raise UserError(reason) from error
        elif name in ("prefer_agents", "disable_agents"):
            fields[name] = re.findall(r"\w+", text)  # "sql, api_docs" as well as ["sql"]
        elif name not in AgentRequest.model_fields:
            context[name] = text
        elif text:
            fields[name] = text
    return AgentRequest.parse({**fields, "context": context})


def list_outputs(state: OrchestratorState) -> dict[str, object]:
    results = state["agent_results"]
    tables = [result.tabular for result in results if result.tabular is not None]
    sent = [event.data for result in results for event in result.trace if event.message == REQUEST_SENT]
    return {
        "answer": state["response"].answer,
        "agents": [result.agent for result in results if result.status is not AgentExecutionStatus.skipped],
        "statuses": {result.agent: str(result.status) for result in results},
        # Their model gave no usable reply: what the answer says of them is no refusal.
        "model_failed": [result.agent for result in results if result.model_error],
        "tables": [{"columns": table.columns, "rows": [list(row.values()) for row in table.rows]} for table in tables],
        "requests": [
            {
                "method": data.get("method"),
                "path": urlsplit(str(data.get("url"))).path,
                "query": data.get("query"),
                "status": data.get("status_code"),
            }
            for data in sent
        ],
    }
