"""The state machine: where a question goes next (docs/explanation/decisions.md 2).

determine_next_step → check_retry_limit → execute_next_step, after every agent.
"""

from collections.abc import Callable
from typing import Any, cast

from mas.runtime.trace import event, limit_reached
from mas.systems.gaia import messages
from mas.systems.gaia.state import WORKERS, AgentMessage, GraphState, Step, Worker


def orchestrate(state: GraphState) -> GraphState:
    return execute_next_step(check_retry_limit(determine_next_step(state)))


def determine_next_step(state: GraphState) -> GraphState:
    """Follow the newest decision; a rejection adds one to that agent's retry counter, an approval resets it."""
    step = state["current_step"]
    if step == "input":
        return {**state, "next_step": "planner"}
    if step in WORKERS:
        return {**state, "next_step": cast(Step, f"critic_{step}")}
    worker = cast(Worker, step.removeprefix("critic_"))
    if worker not in WORKERS:
        raise ValueError(f"no step follows {step!r}")
    if _read(state, f"{step}_decision") == "reject":
        return _with(state, next_step=worker, **{f"{worker}_retry_count": _read(state, f"{worker}_retry_count") + 1})
    return _with(state, next_step=_after_approval(state, worker), **{f"{worker}_retry_count": 0})


def _after_approval(state: GraphState, worker: Worker) -> Step:
    if worker == "expert":
        return "finalizer"
    if worker == "planner":
        return "researcher" if state["research_steps"] else "expert"
    return "expert" if state["current_research_index"] + 1 >= len(state["research_steps"]) else "researcher"


def check_retry_limit(state: GraphState) -> GraphState:
    """At an agent's limit the finalizer runs, and the state names the agent."""
    failing = next((w for w in WORKERS if _read(state, f"{w}_retry_count") >= _read(state, f"{w}_retry_limit")), None)
    if failing is None:
        return state
    limit_reached(f"retry_limit:{failing}")
    event("retries exhausted", "warning", agent=failing, retry_count=_read(state, f"{failing}_retry_count"))
    return _with(
        state,
        retry_failed=True,
        failing_agent=failing,
        next_step="finalizer",
        final_answer=messages.COULD_NOT_ANSWER,
        final_reasoning_trace=messages.COULD_NOT_ANSWER,
    )


def execute_next_step(state: GraphState) -> GraphState:
    """Enter the next step and send its agent the message that goes with it."""
    step = state["next_step"]
    state = {**state, "current_step": step}
    if step == "researcher" and state["critic_researcher_decision"] != "reject":
        state = {**state, "current_research_index": state["current_research_index"] + 1}
    event("step", step=step, research_index=state["current_research_index"])
    return messages.send_message(state, _message(state, step))


_CONTENT: dict[str, Callable[[GraphState], str]] = {
    "planner": messages.to_planner,
    "critic_planner": messages.to_critic_planner,
    "researcher": messages.to_researcher,
    "critic_researcher": messages.to_critic_researcher,
    "expert": messages.to_expert,
    "critic_expert": messages.to_critic_expert,
    "finalizer": messages.to_finalizer,
}


def _message(state: GraphState, step: Step) -> AgentMessage:
    content = messages.to_finalizer_retry_failed if state["retry_failed"] else _CONTENT[step]
    again = step in WORKERS and _read(state, f"critic_{step}_decision") == "reject"
    step_id = state["current_research_index"] if step in ("researcher", "critic_researcher") else None
    return messages.compose_agent_message(
        "orchestrator", step, "feedback" if again else "instruction", content(state), step_id
    )


def route_from_orchestrator(state: GraphState) -> str:
    """The node that runs the current step: the three critic steps share one."""
    step = state["current_step"]
    return "critic" if step.startswith("critic_") else step


def _read(state: GraphState, field: str) -> Any:
    """A field whose name is put together from an agent's."""
    return cast(dict[str, Any], state)[field]


def _with(state: GraphState, **changes: object) -> GraphState:
    return cast(GraphState, {**state, **changes})
