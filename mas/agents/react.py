"""The tool-using agent: a LangGraph subgraph (agent node ⇄ tools node) around one DSPy predictor.

The predictor's signature has the inputs `history` and `tools` and the output `tool_calls`; the other outputs are the
agent's answer. The graph is compiled once per process and gets predictor and tools at run time.
"""

import asyncio
import functools
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import dspy
import json_repair
from dspy.utils.exceptions import AdapterParseError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from mas.agents.media import describe_media, read_media
from mas.agents.nearly_right import read_value
from mas.agents.tool_adapter import NO_MORE_TOOLS, ToolAdapter
from mas.llm.reply_validation import UNREADABLE_ARGUMENTS
from mas.prompt_sets.demos import Turn
from mas.runtime.lm_errors import EmptyReplyError, StepLimitError, TruncatedReplyError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.sample_context import LimitReachedError, current_context
from mas.runtime.trace import NEARLY_RIGHT, Span, event, span
from mas.tools.attachments import can_be_used
from mas.tools.read_only import compute_key, is_read_only
from mas.tools.results import ToolError, ToolResult, to_tool_result
from mas.tools.settings import Resources, use_tool_context

Changes = dict[str, object]  # the fields of the state that a node has changed
Arguments = dict[str, object]  # of a tool call

NO_OBJECT = "value"  # DSPy's name for arguments that are JSON and no object


class ReactState(TypedDict):
    """State of one request."""

    turns: list[Turn]  # the conversation so far
    pending: Turn  # inputs that no turn holds yet
    steps: int
    results: list[tuple[str, Arguments, str]]  # tool, arguments, what the agent was shown
    must_answer: bool
    prediction: dspy.Prediction | None


@dataclass(frozen=True)
class Toolbox:
    """Tools of one agent, and the number of steps it may take."""

    tools: dict[str, dspy.Tool] = field(default_factory=dict)
    max_steps: int = 10  # model calls that may ask for tools; one more is made for the answer
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True)
class ReactContext:
    """Inputs of one invocation of the graph, besides the state."""

    predictor: dspy.Predict
    toolbox: Toolbox

    @property
    def lm(self) -> dspy.BaseLM:
        return self.predictor.lm or dspy.settings.lm


# A reply that arrived and cannot be used: its agent may try again with the reason.
UNUSABLE = (AdapterParseError, EmptyReplyError, TruncatedReplyError, StepLimitError)
MAX_EQUAL_RESULTS = 3  # of one call in one request; then the agent must answer
MAX_FEEDBACK_CHARS = 1_500  # of the reason


async def react(
    predictor: dspy.Predict, inputs: Turn, turns: list[Turn], toolbox: Toolbox
) -> tuple[list[Turn], dspy.Prediction]:
    """Run one agent from a request (its inputs without `history` and `tools`) to its answer.

    The result is the conversation with this request's turns added, and the last prediction, which holds the answer.
    One of `UNUSABLE` is raised if no reply could be used, or the agent did not stop calling tools.
    """
    offered = {name: tool for name, tool in toolbox.tools.items() if can_be_used(tool.func)}
    toolbox = replace(toolbox, tools=offered)
    state = ReactState(turns=list(turns), pending=dict(inputs), steps=0, results=[], must_answer=False, prediction=None)
    final = await react_graph().ainvoke(
        state,
        context=ReactContext(predictor, toolbox),
        config={"recursion_limit": 2 * toolbox.max_steps + 5},
    )
    return final["turns"], final["prediction"]


@functools.cache
def react_graph() -> CompiledStateGraph[ReactState, ReactContext, ReactState, ReactState]:
    graph = StateGraph(ReactState, context_schema=ReactContext)
    graph.add_node("agent", _ask_model)
    graph.add_node("tools", _run_tools)
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", _choose_next, ["tools", END])
    graph.add_edge("tools", "agent")
    return graph.compile()


async def _ask_model(state: ReactState, runtime: Runtime[ReactContext]) -> Changes:
    predictor, toolbox, lm = runtime.context.predictor, runtime.context.toolbox, runtime.context.lm
    files = {name: media.parts for name, media in (await read_media(lm)).items()}
    with dspy.context(adapter=ToolAdapter(toolbox.tools, native=lm.supports_function_calling, files=files)):
        prediction = await predictor.acall(
            **state["pending"], history=dspy.History(messages=state["turns"]), tools=list(toolbox.tools.values())
        )
    calls = _read_calls(prediction, state["steps"])
    if calls.tool_calls and state["must_answer"]:
        raise StepLimitError(f"no answer after {state['steps']} steps of tool calls")
    changes: Changes = {"turns": [*state["turns"], _make_turn(state, prediction, calls)], "pending": {}}
    return changes | ({"steps": state["steps"] + 1} if calls.tool_calls else {"prediction": prediction})


async def _choose_next(state: ReactState) -> str:
    """Route on the event loop: LangGraph would call a synchronous function in a thread."""
    return END if state["prediction"] is not None else "tools"


async def _run_tools(state: ReactState, runtime: Runtime[ReactContext]) -> Changes:
    """Run the calls of the newest turn concurrently and put their results into it.

    Calls and results are in one `ToolCalls`: DSPy's history drops results that are anywhere else.
    """
    toolbox, turn = runtime.context.toolbox, state["turns"][-1]
    calls: dspy.ToolCalls = turn["tool_calls"]
    if sample := current_context():
        for _ in calls.tool_calls:  # all first: none is left running when the limit is reached
            sample.count_tool_call()
    event("tool calls", calls=[call.name for call in calls.tool_calls])
    results = await _run_concurrently(calls.tool_calls, toolbox)
    media = await read_media(runtime.context.lm)
    remarks = (describe_media(call.args or {}, media) for call in calls.tool_calls)
    observations = [result + remark for result, remark in zip(results, remarks, strict=True)]
    made = ((call.name, call.args, shown) for call, shown in zip(calls.tool_calls, observations, strict=True))
    seen = [*state["results"], *made]
    # Scrolling a page is the same call with another result each time.
    must_answer = state["steps"] >= toolbox.max_steps or any(seen.count(each) >= MAX_EQUAL_RESULTS for each in seen)
    if must_answer:
        observations[-1] += NO_MORE_TOOLS
    shown = dspy.ToolCallResults.from_tool_calls_and_values(calls, observations, [result.failed for result in results])
    answered = {**turn, "tool_calls": calls.model_copy(update={"tool_call_results": shown})}
    return {"turns": [*state["turns"][:-1], answered], "results": seen, "must_answer": must_answer}


async def _run_concurrently(calls: Sequence[dspy.ToolCalls.ToolCall], toolbox: Toolbox) -> list[ToolResult]:
    """Run the calls and return their results in order; an exception of one cancels the others.

    A call that runs in a thread cannot be interrupted: its result is dropped.
    """
    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run_tool(call, toolbox)) for call in calls]
    except ExceptionGroup as failed:
        failure = failed.exceptions[0]
    if failure is not None:
        raise failure  # outside of the block, which would replace what caused it by the group
    return [task.result() for task in tasks]


async def _run_tool(call: dspy.ToolCalls.ToolCall, toolbox: Toolbox) -> ToolResult:
    """Return what the agent sees of a call, or of its failure unless `tools.fail_fast` is set."""
    arguments, function = call.args or {}, getattr(toolbox.tools.get(call.name), "func", None)
    try:
        with span("tool", call.name, inputs=arguments) as current:
            with use_tool_context(toolbox.resources):
                result = await _call_once(call.name, arguments, function, toolbox, current)
            shown = result.to_observation(call.name)
            current.outputs = {"observation": str(shown)}
            current.attributes |= shown.describe()
        return shown
    except LimitReachedError:  # raised by a tool that asks a model
        raise
    except Exception as error:
        if toolbox.resources.settings.fail_fast:
            raise
        failed = to_tool_result(f"{call.name} failed: {error}", function, failed=True)
        return failed.to_observation(call.name)


async def _call_once(name: str, arguments: Arguments, function: object, toolbox: Toolbox, current: Span) -> ToolResult:
    """Return the result; of a read-only tool the one that is kept, with its events, such as a blocked page.

    Of parallel calls all get the result of the first, as they will in a resumed run.
    """
    sample, tool = current_context(), toolbox.tools.get(name)
    if sample is None or sample.tool_log is None or tool is None or not is_read_only(tool.func):
        return to_tool_result(await _call(name, arguments, toolbox), function)
    log, key = sample.tool_log, await compute_key(tool, arguments)
    if (kept := log.get(key)) is not None:
        current.attributes["replayed"] = True
        for noted in json.loads(kept)["events"]:
            event(**{name: value for name, value in noted.items() if name != "seconds"})
        return _restore(kept)
    result = to_tool_result(await _call(name, arguments, toolbox), function)
    if log.get(key) is None:
        noted = {"returned": str(result), "events": current.events, "facts": result.describe()}
        log.put(key, json.dumps(noted, default=str))
    return result if (kept := log.get(key)) is None else _restore(kept)


def _restore(kept: str) -> ToolResult:
    found = json.loads(kept)
    return ToolResult.restore(found["returned"], found["facts"])


async def _call(name: str, arguments: Arguments, toolbox: Toolbox) -> object:
    """Call the tool: an asynchronous one on this event loop, any other in a thread."""
    if name not in toolbox.tools:
        offered = ", ".join(sorted(toolbox.tools)) or "none"
        raise LookupError(f"there is no tool of that name; tools offered: {offered}")
    tool = toolbox.tools[name]
    arguments = _read_arguments(arguments, tool)
    if asyncio.iscoroutinefunction(tool.func):
        return await await_safely(tool.acall(**arguments), lambda how: ToolError(f"the tool {how}"))
    return await run_in_thread(lambda: tool(**arguments), lambda how: ToolError(f"the tool {how}"))


def _read_arguments(arguments: Arguments, tool: dspy.Tool) -> Arguments:
    """Return the arguments as the tool takes them, if the model wrote "2" for 2, or JSON in a string."""
    known, read = tool.args or {}, dict(arguments)
    if read.keys() == {UNREADABLE_ARGUMENTS} or (read.keys() == {NO_OBJECT} and NO_OBJECT not in known):
        (given,) = read.values()
        found = given[0] if isinstance(given, list) and len(given) == 1 else given
        if isinstance(found, str) and NO_OBJECT in read:
            found = json_repair.loads(found)
        if found is not None and not isinstance(found, dict):
            raise ToolError(
                f"the arguments are no valid JSON object: {str(given)[:MAX_FEEDBACK_CHARS]}; "
                f"expected one with {', '.join(known) or 'nothing in it'}"
            )
        read = dict(found or {})
    for name in read.keys() & known.keys():
        kinds, value = _list_types(known[name]), read[name]
        if isinstance(value, str) and not kinds & {"string", None}:
            with suppress(ValueError):
                read[name] = read_value(value, (tool.arg_types or {}).get(name, Any))
        elif type(value) in (int, float) and kinds <= {"string", "null"}:
            read[name] = str(value)
        elif value is None and not kinds & {"null", None} and "default" in known[name]:
            del read[name]
    if read != arguments:
        event(NEARLY_RIGHT)
    return read


def _list_types(schema: Mapping[str, Any]) -> set[str | None]:
    """Return the types that an argument may have; None among them if one is not named."""
    named = [each.get("type") for each in schema.get("anyOf", [schema])]
    return {kind for each in named for kind in (each if isinstance(each, list) else [each])}


def _read_calls(prediction: dspy.Prediction, step: int) -> dspy.ToolCalls:
    """Return the prediction's tool calls, each with the id that its result must name."""
    calls = prediction.tool_calls.tool_calls if prediction.tool_calls is not None else []
    ids = [call.id or f"call_{step}_{index}" for index, call in enumerate(calls)]
    return dspy.ToolCalls(tool_calls=[call.model_copy(update={"id": id}) for call, id in zip(calls, ids, strict=True)])


def _make_turn(state: ReactState, prediction: dspy.Prediction, calls: dspy.ToolCalls) -> Turn:
    answers = {key: value for key, value in prediction.items() if key != "tool_calls" and value is not None}
    return {**state["pending"], **({} if calls.tool_calls else answers), "tool_calls": calls}
