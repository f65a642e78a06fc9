"""The system as one `dspy.Module`: a predictor and a prompt file for each LLM step, run through the shared graph."""

import json
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar, cast
from urllib.parse import urlsplit

import dspy
from dspy.utils.exceptions import LMError
from langchain_core.runnables import RunnableConfig

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State, check_question
from mas.runtime.errors import UserError
from mas.runtime.trace import note_failure
from mas.systems.bos.agents import COMPOSER, PLANNER, REGISTRY, SPECS
from mas.systems.bos.composer import Composer
from mas.systems.bos.context import Clock
from mas.systems.bos.contracts import (
    AGENT_NAMES,
    REQUEST_SENT,
    AgentExecutionStatus,
    AgentName,
    AgentRequest,
    OrchestratorState,
)
from mas.systems.bos.orchestrator import GraphContext, workflow
from mas.systems.bos.planner import Planner
from mas.systems.bos.settings import BosSettings
from mas.tools.tool_context import Resources, use_tool_context

Chunk = Mapping[str, OrchestratorState]  # node → the fields that it has changed

_REQUEST = "request"  # a field of a sample that holds a whole request as JSON
_FIELDS = frozenset(AgentRequest.model_fields)
_CONFIG: RunnableConfig = {"recursion_limit": len(AGENT_NAMES) + 5}  # supersteps of the longest run, and a few more
_LISTS = ("prefer_agents", "disable_agents")
_Json = TypeVar("_Json", dict[str, object], list[object])


class ModelFailedError(LMError):
    """Neither the planner nor any agent got a usable reply of the language model: there is no result to report."""

    default_code = "model_failed"


@dataclass
class SharedObjects:
    """Settings and resources, which copies of the program share: they hold connections."""

    settings: BosSettings
    gaps: Mapping[AgentName, str]  # agents that are not offered, with the reason
    resources: Resources
    clock: Clock

    def __deepcopy__(self, memo: object) -> Self:
        return self


class BosProgram(AgentProgram):
    """Answers a request; `mas.systems.bos.service` runs it outside of an evaluation."""

    def __init__(self, settings: BosSettings, gaps: Mapping[AgentName, str], resources: Resources) -> None:
        super().__init__(SPECS)
        workflow()  # compiled now, so that nothing of it can fail or wait at the first question
        self.shared = SharedObjects(settings, gaps, resources, settings.read_clock())

    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        """Return the complete final state.

        Raises:
            ValueError: the question is empty, or a field of the request is wrong.
            ModelFailedError: the language model could not be asked at all.
        """
        request = parse_inputs(question, inputs)
        check_question(request.question)
        context = self.make_graph_context()
        state = await self.run_graph(request, context)
        _check_model_replied(state)
        if context.faults and not any(result.has_succeeded for result in state["agent_results"]):
            name, error = next(iter(context.faults.items()))
            note_failure(error, name)
        return {
            "question": request.question,
            "correlation_id": thread_id,
            **state,
            "final_answer": state["response"].answer,
            "final_reasoning_trace": explain(state),
            "outputs": list_outputs(state, context.faults),
        }

    async def run_graph(self, request: AgentRequest, context: GraphContext | None = None) -> OrchestratorState:
        """Return the final state of the graph."""
        with dspy.context(adapter=ChatAdapter()), use_tool_context(self.shared.resources):
            own = context or self.make_graph_context()
            final = await workflow().ainvoke({"request": request}, context=own, config=_CONFIG)
        return cast(OrchestratorState, final)

    async def stream_graph(self, request: AgentRequest) -> AsyncIterator[Chunk]:
        """Yield the changes of each node; to be iterated in a task whose context it may change."""
        inputs, context = OrchestratorState(request=request), self.make_graph_context()
        with dspy.context(adapter=ChatAdapter(), **keep_no_prompts()), use_tool_context(self.shared.resources):
            async for chunk in workflow().astream(inputs, context=context, config=_CONFIG, stream_mode="updates"):
                yield cast(Chunk, chunk)

    def make_graph_context(self) -> GraphContext:
        """Return planner, agents and composer with this program's own predictors."""
        shared = self.shared
        settings, predictors = shared.settings, {spec.name: getattr(self, spec.name) for spec in SPECS}
        offered = {name: entry for name, entry in REGISTRY.items() if name not in shared.gaps}
        return GraphContext(
            planner=Planner(predictors[PLANNER.name], settings.planner, offered, shared.gaps),
            agents={name: entry.make(predictors, settings, shared.resources) for name, entry in offered.items()},
            composer=Composer(predictors[COMPOSER.name]),
            share_results=settings.share_results,
            clock=self.shared.clock,
        )


def keep_no_prompts() -> dict[str, object]:
    """Return settings of DSPy for one request: it would collect the prompts of thousands in its history and trace."""
    return {"disable_history": True, "trace": []}


def parse_inputs(question: str, inputs: Mapping[str, str]) -> AgentRequest:
    """Return the request in a sample: its JSON in the field `request`, or its fields by name; others are context.

    Raises:
        UserError: a field is no JSON where it must be.
        ValidationError: a value is wrong.
    """
    given: dict[str, object] = {"question": question}
    if inputs.get(_REQUEST):
        given |= _parse_json(_REQUEST, inputs[_REQUEST], dict)
    context = given.setdefault("context", {})
    values: dict[str, object] = dict(context) if isinstance(context, dict) else {}
    for name, text in inputs.items():
        if name == "context" and text:
            values |= _parse_json(name, text, dict)
        elif name in _LISTS:
            names = [each for each in text.split(",") if each.strip()]
            given[name] = _parse_json(name, text, list) if text.strip().startswith("[") else names
        elif name in _FIELDS and text != "":
            given[name] = text
        elif name not in (*_FIELDS, _REQUEST):
            values[name] = text
    return AgentRequest.parse({**given, "context": values} if isinstance(context, dict) else given)


def _parse_json(name: str, text: str, kind: type[_Json]) -> _Json:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        expected = "a list of agents" if kind is list else "a JSON object"
        raise UserError(f"The field {name} of a sample is {text[:60]!r}; expected {expected}.")
    return found


def explain(state: OrchestratorState) -> str:
    """Return how the answer came about: the planner's reason, and the status of each agent."""
    statuses = [f"{result.agent} {result.status}" for result in state["agent_results"]]
    return f"{state['planner'].rationale}\n\nAgents: {', '.join(statuses) or 'none'}"


def list_outputs(state: OrchestratorState, faults: Collection[str] = ()) -> dict[str, object]:
    """Return what a scorer may read besides the answer: the agents that ran, their tables and their requests.

    Args:
        state: when the program ended.
        faults: agents whose model gave no usable reply: what the answer says of them is no refusal.
    """
    results = state["agent_results"]
    tables = [result.tabular for result in results if result.tabular is not None]
    sent = [event.data for result in results for event in result.trace if event.message == REQUEST_SENT]
    return {
        "answer": state["response"].answer,
        "agents": [result.agent for result in results if result.status is not AgentExecutionStatus.skipped],
        "statuses": {result.agent: str(result.status) for result in results},
        "model_failed": list(faults),
        "tables": [
            {"columns": table.columns, "rows": [[row[name] for name in table.columns] for row in table.rows]}
            for table in tables
        ],
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


def _check_model_replied(state: OrchestratorState) -> None:
    """Refuse a final state in which the model could not be asked: a sentence about it is no answer to score.

    Raises:
        ModelFailedError: the planner's request failed, and no agent succeeded.
    """
    results = state["agent_results"]
    if not state["planner"].guardrails.get("model_failed") or any(result.has_succeeded for result in results):
        return
    errors = [event for event in state["trace"] if event.agent == "planner" and event.event_type == "ERROR"]
    reasons = [f"planner: {event.data.get('error')}" for event in errors]
    reasons += [f"{result.agent}: {result.error.message}" for result in results if result.error]
    raise ModelFailedError("The language model could not be asked. " + "; ".join(reasons))
