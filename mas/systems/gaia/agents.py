"""The agents as graph nodes: each takes the orchestrator's newest message, asks its predictor, writes the state.

See docs/explanation/decisions.md 1 and 6. One asynchronous body a node; the program, with
its predictors and toolboxes, arrives through the graph's runtime context.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import dspy
from dspy.utils.exceptions import AdapterParseError
from langgraph.runtime import Runtime

from mas.agents.react import StepLimitError, Toolbox, react
from mas.runtime.lm_errors import EmptyReplyError, TruncatedReplyError
from mas.runtime.trace import event, keep_answer, span
from mas.systems.gaia import messages
from mas.systems.gaia.state import ExpertState, GraphState, ResearcherState, Worker

# A reply that arrived and is of no use: its agent gets another try, like after a critic's rejection.
UNUSABLE = (AdapterParseError, EmptyReplyError, TruncatedReplyError, StepLimitError)
MAX_FEEDBACK_CHARS = 1_500


class Program(Protocol):
    """What the nodes need of the program (`mas/systems/gaia/program.py`)."""

    planner: dspy.Predict
    critic_planner: dspy.Predict
    researcher: dspy.Predict
    critic_researcher: dspy.Predict
    expert: dspy.Predict
    critic_expert: dspy.Predict
    finalizer: dspy.Predict
    toolboxes: dict[str, Toolbox]
    max_research_steps: int
    on_retry_exhausted: str


@dataclass(frozen=True)
class GraphContext:
    """What an invocation of the graph is given beside the state."""

    program: Program


Context = Runtime[GraphContext]


async def planner(state: GraphState, runtime: Context) -> GraphState:
    request = messages.open_request(state, "planner")
    inputs = {"request": request, "file": state["file"]}
    history = dspy.History(messages=state["planner_turns"])
    with span("agent", "planner", inputs={"request": request}) as current:
        try:
            prediction = await runtime.context.program.planner.acall(**inputs, history=history)
        except UNUSABLE as error:
            return _rejected_unread(state, "planner", error)
        plan = {"research_steps": list(prediction.research_steps), "expert_steps": list(prediction.expert_steps)}
        current.outputs = plan
    content = messages.planner_response(**plan)
    turns = [*state["planner_turns"], {**inputs, **plan}]
    state = _respond(state, "planner", content, None, planner_turns=turns, **plan)
    objection = _objection(plan, runtime.context.program.max_research_steps)
    return _rejected(state, "planner", objection) if objection else state


def _objection(plan: dict[str, list[str]], max_research_steps: int) -> str | None:
    """What makes a plan unusable, whatever the critic would say."""
    if len(plan["research_steps"]) > max_research_steps:
        return (
            f"The plan has {len(plan['research_steps'])} research steps; at most {max_research_steps} are allowed. "
            "Merge or drop steps."
        )
    if not plan["expert_steps"]:
        return "The plan has no expert steps; at least one is needed to get from the findings to the answer."
    return None


async def researcher(state: GraphState, runtime: Context) -> GraphState:
    """One research step; a rejected step goes on in its own conversation."""
    index = state["current_research_index"]
    request = messages.open_request(state, "researcher")
    earlier = state["researcher_states"].get(index)
    with span("agent", "researcher", inputs={"request": request}, step_index=index) as current:
        try:
            turns, prediction = await react(
                runtime.context.program.researcher,
                {"research_request": request, "file": state["file"]},
                earlier["messages"] if earlier else [],
                runtime.context.program.toolboxes["researcher"],
            )
        except UNUSABLE as error:
            return _rejected_unread(state, "researcher", error)
        current.outputs = {"result": prediction.result}
    step = ResearcherState(messages=turns, step_index=index, result=prediction.result)
    results = [*state["research_results"][:index], prediction.result]
    return _respond(
        state,
        "researcher",
        messages.researcher_response(index),
        step_id=index,
        researcher_states={**state["researcher_states"], index: step},
        research_results=results,
    )


async def expert(state: GraphState, runtime: Context) -> GraphState:
    request = messages.open_request(state, "expert")
    earlier = state["expert_state"]
    with span("agent", "expert", inputs={"request": request}) as current:
        try:
            turns, prediction = await react(
                runtime.context.program.expert,
                {"expert_request": request, "file": state["file"]},
                earlier["messages"] if earlier else [],
                runtime.context.program.toolboxes["expert"],
            )
        except UNUSABLE as error:
            return _rejected_unread(state, "expert", error)
        answer, reasoning = prediction.expert_answer or "", prediction.reasoning_trace or ""
        current.outputs = {"expert_answer": answer, "reasoning_trace": reasoning}
    if answer:
        keep_answer(answer)
    expert_state = ExpertState(
        messages=turns,
        question=state["question"],
        research_steps=state["research_steps"],
        research_results=state["research_results"],
        expert_answer=answer,
        expert_reasoning=reasoning,
    )
    content = messages.expert_response(answer, reasoning)
    return _respond(
        state, "expert", content, expert_state=expert_state, expert_answer=answer, expert_reasoning=reasoning
    )


async def critic(state: GraphState, runtime: Context) -> GraphState:
    """One node with three prompts, chosen by the current step; it keeps no history."""
    step = state["current_step"]
    if not step.startswith("critic_"):
        raise ValueError(f"the critic has no prompt for step {step!r}")
    request = messages.newest_request(state, step)
    by_step: dict[str, dict[str, Any]] = {
        "critic_planner": {"plan_to_review": request, "file": state["file"]},
        "critic_researcher": {"research_to_review": request},
        "critic_expert": {"answer_to_review": request},
    }
    inputs = by_step[step]
    predictor: dspy.Predict = getattr(runtime.context.program, step)
    with span("agent", step, inputs={"request": request}) as current:
        prediction = await _asked_twice(lambda: predictor.acall(**inputs), step)
        current.outputs = {"decision": prediction.decision, "feedback": prediction.feedback}
        level = "warning" if prediction.decision == "reject" else "info"
        event("decision", level, decision=prediction.decision, feedback=prediction.feedback)  # type: ignore[arg-type]
    content = messages.critic_response(prediction.decision, prediction.feedback)
    verdict = {f"{step}_decision": prediction.decision, f"{step}_feedback": prediction.feedback}
    return _respond(state, "critic", content, **verdict)


async def finalizer(state: GraphState, runtime: Context) -> GraphState:
    """The answer; after exhausted retries, with `give_up`, the fixed one without any LM call."""
    if state["retry_failed"] and runtime.context.program.on_retry_exhausted == "give_up":
        trace = messages.exhausted_trace(state)
        return _finalized(state, messages.COULD_NOT_ANSWER, trace)
    request = messages.newest_request(state, "finalizer")
    with span("agent", "finalizer", inputs={"request": request}) as current:
        prediction = await _asked_twice(
            lambda: runtime.context.program.finalizer.acall(answer_request=request), "finalizer"
        )
        current.outputs = {"final_answer": prediction.final_answer}
    return _finalized(state, prediction.final_answer, prediction.final_reasoning_trace)


def _finalized(state: GraphState, answer: str, trace: str) -> GraphState:
    keep_answer(answer)
    content = messages.finalizer_response(answer, trace)
    return _respond(state, "finalizer", content, final_answer=answer, final_reasoning_trace=trace)


async def _asked_twice(ask: Callable[[], Awaitable[Any]], agent: str) -> Any:
    """Critic and finalizer have no reviewer to send them back: an unusable reply gets one more try."""
    try:
        return await ask()
    except UNUSABLE as error:
        event("unusable reply", "warning", agent=agent, error=_first_chars(error))
        return await ask()


def _respond(state: GraphState, agent: str, content: str, step_id: int | None = None, **changes: Any) -> GraphState:
    message = messages.compose_agent_message(agent, "orchestrator", "response", content, step_id)
    return messages.send_message(cast(GraphState, {**state, **changes}), message)


def _rejected_unread(state: GraphState, worker: Worker, error: Exception) -> GraphState:
    """Count an unusable reply as a rejection, with the reason as feedback (docs/explanation/decisions.md 7d)."""
    event("unusable reply", "warning", agent=worker, error=_first_chars(error))
    index = state["current_research_index"] if worker == "researcher" else None
    state = _respond(state, worker, messages.unusable_response(worker), index)
    return _rejected(state, worker, f"Your last reply could not be used: {_first_chars(error)}")


def _rejected(state: GraphState, worker: Worker, feedback: str) -> GraphState:
    """As if the critic had said so: the orchestrator counts it and sends the agent back."""
    verdict = {f"critic_{worker}_decision": "reject", f"critic_{worker}_feedback": feedback}
    return cast(GraphState, {**state, "current_step": f"critic_{worker}", **verdict})


def _first_chars(error: Exception) -> str:
    return str(error)[:MAX_FEEDBACK_CHARS]
