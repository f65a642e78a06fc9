"""The system as one `dspy.Module`: a predictor and a prompt file for each LLM step, run through the shared graph."""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import urlsplit

import dspy
from langchain_core.runnables import RunnableConfig

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State, check_question
from mas.runtime.errors import UserError
from mas.runtime.trace import current_trace
from mas.systems.bos.agents import COMPOSER, PLANNER, REGISTRY, SPECS
from mas.systems.bos.composer import Composer
from mas.systems.bos.contracts import (
    AGENT_NAMES,
    REQUEST_SENT,
    AgentExecutionStatus,
    AgentName,
    AgentRequest,
    Clock,
    OrchestratorState,
)
from mas.systems.bos.orchestrator import GraphContext, workflow
from mas.systems.bos.planner import Planner
from mas.tools.settings import Resources, use_tool_context

if TYPE_CHECKING:
    from mas.systems.bos.system import BosSystem

Chunk = Mapping[str, OrchestratorState]  # node → the fields that it has changed

_LISTS = ("prefer_agents", "disable_agents")
_CONFIG: RunnableConfig = {"recursion_limit": len(AGENT_NAMES) + 5}  # supersteps of the longest run, and a few more
_KEEP_NO_PROMPTS: dict[str, object] = {"disable_history": True, "trace": []}  # of DSPy: it would collect thousands


@dataclass
class SharedObjects:
    """System and resources, which copies of the program share: they hold connections."""

    system: "BosSystem"
    gaps: Mapping[AgentName, str]  # agents that are not offered, with the reason
    resources: Resources
    clock: Clock

    def __deepcopy__(self, memo: object) -> Self:
        return self


class BosProgram(AgentProgram):
    """Answers a request; `mas.systems.bos.service` runs it outside of an evaluation."""

    def __init__(self, system: "BosSystem", resources: Resources) -> None:
        super().__init__(SPECS)
        workflow()  # compiled now, so that nothing of it can fail or wait at the first question
        self.shared = SharedObjects(system, system.find_gaps(), resources, system.read_clock())

    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        """Return the complete final state; a model that failed an agent, where none succeeded, is noted."""
        check_question(question)
        request = parse_inputs(question, inputs)
        state = await self.run_graph(request)
        results = state["agent_results"]
        failed = [(result.model_error, result.agent) for result in results if result.model_error]
        if failed and not any(result.has_succeeded for result in results):
            current_trace().failure = failed[0]
        return {
            "question": request.question,
            "correlation_id": thread_id,
            **state,
            "final_answer": state["response"].answer,
            "final_reasoning_trace": explain(state),
            "outputs": list_outputs(state),
        }

    async def run_graph(self, request: AgentRequest, keep_prompts: bool = True) -> OrchestratorState:
        with self._settings(keep_prompts) as context:
            final = await workflow().ainvoke({"request": request}, context=context, config=_CONFIG)
        return cast(OrchestratorState, final)

    async def stream_graph(self, request: AgentRequest) -> AsyncGenerator[Chunk]:
        """Yield the changes of each node; to be iterated in a task whose context it may change."""
        inputs = OrchestratorState(request=request)
        with self._settings(keep_prompts=False) as context:
            async for chunk in workflow().astream(inputs, context=context, config=_CONFIG, stream_mode="updates"):
                yield cast(Chunk, chunk)

    @contextmanager
    def _settings(self, keep_prompts: bool) -> Iterator[GraphContext]:
        """Set what an invocation needs; yield planner, agents and composer with this program's own predictors."""
        shared, system = self.shared, self.shared.system
        predictors = {spec.name: getattr(self, spec.name) for spec in SPECS}
        offered = {name: entry for name, entry in REGISTRY.items() if name not in shared.gaps}
        kept = {} if keep_prompts else _KEEP_NO_PROMPTS
        with dspy.context(adapter=ChatAdapter(), **kept), use_tool_context(shared.resources):
            yield GraphContext(
                planner=Planner(predictors[PLANNER.name], offered, shared.gaps),
                agents={name: entry.make(predictors, system, shared.resources) for name, entry in offered.items()},
                composer=Composer(predictors[COMPOSER.name]),
                share_results=system.share_results,
                clock=shared.clock,
            )


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
        elif name in _LISTS:
            fields[name] = re.findall(r"\w+", text)  # "sql, api_docs" as well as ["sql"]
        elif name not in AgentRequest.model_fields:
            context[name] = text
        elif text:
            fields[name] = text
    return AgentRequest.parse({**fields, "context": context})


def explain(state: OrchestratorState) -> str:
    """Return how the answer came about: the planner's reason, and the status of each agent."""
    statuses = [f"{result.agent} {result.status}" for result in state["agent_results"]]
    return f"{state['planner'].rationale}\n\nAgents: {', '.join(statuses) or 'none'}"


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
