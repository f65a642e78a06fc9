"""Signatures and graph nodes of the agents.

A node takes the orchestrator's newest message, asks its predictor and writes the state. What it needs of the program
arrives through the graph's runtime context (docs/explanation/decisions.md 25).

Instructions come from the prompt set. The first inputs have different names in each signature: GEPA tells predictors
apart by their signatures. Inputs that a later turn of a conversation leaves out are optional and have no default: a
default would be rendered into every turn.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

import dspy
from langgraph.runtime import Runtime

from mas.agents.react import MAX_FEEDBACK_CHARS, UNUSABLE, Toolbox, react
from mas.prompt_sets.demos import Turn
from mas.runtime.trace import current_trace, event, span
from mas.systems.gaia.agents import (
    COULD_NOT_ANSWER,
    ExpertState,
    GraphState,
    ResearcherState,
    Worker,
    describe_exhaustion,
)
from mas.systems.gaia.orchestrator import newest_request, open_request, send_message, unusable_response

DECISION = "approve, or reject"
FEEDBACK = "if rejected: what to change, concretely; if approved: why"
FILE = "bare name of the file attached to the question, if any"


class Plan(dspy.Signature):
    """Plan how the question is answered."""

    request: str = dspy.InputField(desc="the orchestrator's newest message")
    file: str | None = dspy.InputField(desc=FILE)
    history: dspy.History = dspy.InputField()
    research_steps: list[str] = dspy.OutputField(desc="what to find out, one self-contained task each; may be empty")
    expert_steps: list[str] = dspy.OutputField(desc="how to get from the findings to the answer; at least one")


class ReviewPlan(dspy.Signature):
    """Review a plan."""

    plan_to_review: str = dspy.InputField()
    file: str | None = dspy.InputField(desc=FILE)
    decision: Literal["approve", "reject"] = dspy.OutputField(desc=DECISION)
    feedback: str = dspy.OutputField(desc=FEEDBACK)


class Research(dspy.Signature):
    """Find out what one research step asks for."""

    research_request: str | None = dspy.InputField(desc="the orchestrator's newest message")
    file: str | None = dspy.InputField(desc=FILE)
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="tools to call now; none once the result is known")
    result: str = dspy.OutputField(desc="the findings, complete in themselves")


class ReviewResearch(dspy.Signature):
    """Review the findings of one research step."""

    research_to_review: str = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField(desc=DECISION)
    feedback: str = dspy.OutputField(desc=FEEDBACK)


class Solve(dspy.Signature):
    """Work out the answer from the findings."""

    expert_request: str | None = dspy.InputField(desc="the orchestrator's newest message")
    file: str | None = dspy.InputField(desc=FILE)
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="tools to call now; none once the answer is known")
    expert_answer: str = dspy.OutputField(desc="the answer")
    reasoning_trace: str = dspy.OutputField(desc="how it follows")


class ReviewAnswer(dspy.Signature):
    """Review an answer."""

    answer_to_review: str = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField(desc=DECISION)
    feedback: str = dspy.OutputField(desc=FEEDBACK)


class Finalize(dspy.Signature):
    """Put the answer into its final form."""

    answer_request: str = dspy.InputField()
    final_answer: str = dspy.OutputField(desc="the answer alone, in the form the question asks for")
    final_reasoning_trace: str = dspy.OutputField(desc="how the answer was reached, in a few sentences")


@dataclass(frozen=True)
class GraphContext:
    """Inputs of one invocation of the graph, besides the state."""

    predictors: Mapping[str, dspy.Predict]  # by agent
    toolboxes: Mapping[str, Toolbox]
    retry_limits: Mapping[Worker, int]
    max_research_steps: int
    on_retry_exhausted: str
    faults: dict[str, Exception] = field(default_factory=dict)  # agent → its last unusable reply


Context = Runtime[GraphContext]


async def planner(state: GraphState, runtime: Context) -> GraphState:
    request = open_request(state, "planner")
    inputs = {"request": request, "file": state["file"]}
    history = dspy.History(messages=state["planner_turns"])
    with span("agent", "planner", inputs={"request": request}) as current:
        try:
            prediction = await runtime.context.predictors["planner"].acall(**inputs, history=history)
        except UNUSABLE as error:
            return _reject_unusable(state, runtime, "planner", error)
        plan = {"research_steps": list(prediction.research_steps), "expert_steps": list(prediction.expert_steps)}
        current.outputs = plan
        content = f"Planner complete. Research steps: {plan['research_steps']}, Expert steps: {plan['expert_steps']}"
        turns = [*state["planner_turns"], {**inputs, **plan}]
        state = _respond(state, "planner", content, None, planner_turns=turns, **plan)
    objection = _find_objection(plan, runtime.context.max_research_steps)
    return _reject(state, "planner", objection) if objection else state


def _find_objection(plan: dict[str, list[str]], max_research_steps: int) -> str | None:
    """Return the reason why a plan is unusable, without asking the critic; None if it is usable."""
    if (n_steps := len(plan["research_steps"])) > max_research_steps:
        return f"The plan has {n_steps} research steps; at most {max_research_steps} are allowed. Merge or drop steps."
    if not plan["expert_steps"]:
        return "The plan has no expert steps; at least one is needed to get from the findings to the answer."
    return None


async def researcher(state: GraphState, runtime: Context) -> GraphState:
    """Work on one research step; a rejected step continues its own conversation."""
    index = state["current_research_index"]
    request, earlier = open_request(state, "researcher", step_id=index), state["researcher_states"].get(index)
    with span("agent", "researcher", inputs={"request": request}, step_index=index) as current:
        try:
            inputs: Turn = {"research_request": request, "file": state["file"]}
            turns, prediction = await _use_tools(runtime, "researcher", inputs, earlier)
        except UNUSABLE as error:
            return _reject_unusable(state, runtime, "researcher", error)
        current.outputs = {"result": prediction.result}
        step = ResearcherState(messages=turns, step_index=index, result=prediction.result)
        changes = {
            "researcher_states": {**state["researcher_states"], index: step},
            "research_results": [*state["research_results"][:index], prediction.result],
        }
        return _respond(state, "researcher", f"Researcher complete for step {index}", index, **changes)


async def expert(state: GraphState, runtime: Context) -> GraphState:
    request = open_request(state, "expert")
    with span("agent", "expert", inputs={"request": request}) as current:
        try:
            inputs: Turn = {"expert_request": request, "file": state["file"]}
            turns, prediction = await _use_tools(runtime, "expert", inputs, state["expert_state"])
        except UNUSABLE as error:
            return _reject_unusable(state, runtime, "expert", error)
        answer, reasoning = prediction.expert_answer or "", prediction.reasoning_trace or ""
        current.outputs = {"expert_answer": answer, "reasoning_trace": reasoning}
        if answer:
            current_trace().answer = answer
        expert_state = ExpertState(
            messages=turns,
            question=state["question"],
            research_steps=state["research_steps"],
            research_results=state["research_results"],
            expert_answer=answer,
            expert_reasoning=reasoning,
        )
        content = f"Expert complete. Answer: {answer}, Reasoning: {reasoning}"
        changes = {"expert_state": expert_state, "expert_answer": answer, "expert_reasoning": reasoning}
        return _respond(state, "expert", content, None, **changes)


async def _use_tools(
    runtime: Context, worker: str, inputs: Turn, earlier: ResearcherState | ExpertState | None
) -> tuple[list[Turn], dspy.Prediction]:
    turns = earlier["messages"] if earlier else []
    return await react(runtime.context.predictors[worker], inputs, turns, runtime.context.toolboxes[worker])


async def critic(state: GraphState, runtime: Context) -> GraphState:
    step = state["current_step"]
    if not step.startswith("critic_"):
        raise RuntimeError(f"Invalid critic step: {step}")
    request = newest_request(state, step)
    predictor = runtime.context.predictors[step]
    first, *others = predictor.signature.input_fields
    inputs = {first: request} | ({"file": state["file"]} if "file" in others else {})
    with span("agent", step, inputs={"request": request}) as current:
        prediction = await _ask_twice(lambda: predictor.acall(**inputs), step)
        verdict = {"decision": prediction.decision, "feedback": prediction.feedback}
        current.outputs = verdict
        event("decision", "warning" if prediction.decision == "reject" else "info", **verdict)
        content = f"Critic complete. Decision: {prediction.decision}, Feedback: {prediction.feedback}"
        return _respond(state, "critic", content, **{f"{step}_{name}": value for name, value in verdict.items()})


async def finalizer(state: GraphState, runtime: Context) -> GraphState:
    """Give the answer; with `give_up`, after an error or exhausted retries, a fixed one."""
    if (state["retry_failed"] or state["error"]) and runtime.context.on_retry_exhausted == "give_up":
        return give_up(state, runtime)
    request = newest_request(state, "finalizer")
    with span("agent", "finalizer", inputs={"request": request}) as current:
        prediction = await _ask_twice(
            lambda: runtime.context.predictors["finalizer"].acall(answer_request=request), "finalizer"
        )
        current.outputs = {"final_answer": prediction.final_answer}
        return _finalize(state, prediction.final_answer, prediction.final_reasoning_trace)


def give_up(state: GraphState, runtime: Context) -> GraphState:
    """Give the fixed answer; its reasoning trace says which agent failed, and why."""
    agent = state["error_component"] or state["failing_agent"]
    if fault := runtime.context.faults.get(agent):
        current_trace().failure = (fault, agent)  # of the model: no answer that could be scored
    with span("agent", "finalizer", inputs={"request": newest_request(state, "finalizer")}) as current:
        current.outputs = {"final_answer": COULD_NOT_ANSWER}
        return _finalize(state, COULD_NOT_ANSWER, describe_exhaustion(state))


def _finalize(state: GraphState, answer: str, trace: str) -> GraphState:
    content = f"Finalizer complete. The final answer is:\n{answer}\n\n## The final reasoning trace is:\n{trace}"
    return _respond(state, "finalizer", content, final_answer=answer, final_reasoning_trace=trace)


async def _ask_twice(ask: Callable[[], Awaitable[dspy.Prediction]], agent: str) -> dspy.Prediction:
    """Ask once more after an unusable reply: no reviewer sends critic and finalizer back."""
    try:
        return await ask()
    except UNUSABLE as error:
        event("unusable reply", "warning", agent=agent, error=_first_chars(error))
        return await ask()


def _respond(state: GraphState, agent: str, content: str, step_id: int | None = None, **changes: object) -> GraphState:
    state = cast(GraphState, {**state, **changes})
    return send_message(state, agent, "orchestrator", "response", content, step_id)


def _reject_unusable(state: GraphState, runtime: Context, worker: Worker, error: Exception) -> GraphState:
    """Count an unusable reply as a rejection with its reason (docs/explanation/decisions.md 7d)."""
    runtime.context.faults[worker] = error
    event("unusable reply", "warning", agent=worker, error=_first_chars(error))
    index = state["current_research_index"] if worker == "researcher" else None
    state = _respond(state, worker, unusable_response(worker), index)
    return _reject(state, worker, f"Your last reply could not be used: {_first_chars(error)}")


def _reject(state: GraphState, worker: Worker, feedback: str) -> GraphState:
    """Set a rejection as the critic would: the orchestrator counts it and sends the agent back."""
    verdict = {f"critic_{worker}_decision": "reject", f"critic_{worker}_feedback": feedback}
    return cast(GraphState, {**state, "current_step": f"critic_{worker}", **verdict})


def _first_chars(error: Exception) -> str:
    return str(error)[:MAX_FEEDBACK_CHARS]


NODES = {"planner": planner, "researcher": researcher, "expert": expert, "critic": critic, "finalizer": finalizer}
