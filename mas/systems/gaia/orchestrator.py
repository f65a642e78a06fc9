"""The state machine: which agent works next on a question, what it is asked, and the messages.

determine_next_step → check_retry_limit → execute_next_step, after every agent.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from mas.runtime.trace import current_trace, event
from mas.systems.gaia.agents import (
    COULD_NOT_ANSWER,
    SPECS,
    WORKERS,
    AgentMessage,
    GraphState,
    MessageType,
    to_finalizer_give_up,
    to_finalizer_retry_failed,
)

ORCHESTRATOR = "orchestrator"
REQUESTS: tuple[MessageType, ...] = ("instruction", "feedback")
_BY_NAME = {spec.name: spec for spec in SPECS}
_WORKER_BY_CRITIC = {spec.critic: spec.name for spec in SPECS if spec.critic}  # critic → worker
# planner, researcher, expert, finalizer
_WORK_ORDER = [spec.name for spec in SPECS if spec.name not in _WORKER_BY_CRITIC]
_STATE, _MESSAGE = TypeAdapter(GraphState), TypeAdapter(AgentMessage)


def orchestrate(state: GraphState, gives_up: bool = False) -> GraphState:
    """Return the state with the next step entered; ValueError: it is not valid."""
    check_state(state)
    return execute_next_step(check_retry_limit(determine_next_step(state)), gives_up)


def check_state(state: GraphState) -> None:
    """Check the type of every field before a transition; ValueError: it is not as `GraphState` says."""
    try:
        _STATE.validate_python(state, strict=True)
    except ValidationError as error:
        if any(each["loc"] == ("current_step",) for each in error.errors()):
            raise _invalid_step(state.get("current_step")) from None
        raise ValueError(f"Invalid state: {_describe_invalid(error)}") from None


def _invalid_step(step: object) -> ValueError:
    return ValueError(f"Invalid current step: {step}")


def _describe_invalid(error: ValidationError) -> str:
    """Return the place and the reason of the first thing that is not valid, without its value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def determine_next_step(state: GraphState) -> GraphState:
    """Follow the newest decision; a rejection adds one to the agent's retries, an approval resets them.

    After an error of an agent the finalizer is next. ValueError: no step follows the current one.
    """
    step, fields = state["current_step"], _read(state)
    if state["error"]:
        return _with(state, next_step="finalizer")
    if step == "input":
        return _with(state, next_step=_WORK_ORDER[0])
    if (worker := _WORKER_BY_CRITIC.get(step)) is None:
        if step not in _WORK_ORDER[:-1]:
            raise _invalid_step(step)
        return _with(state, next_step=_BY_NAME[step].critic or _step_after(state, step))
    count, decision = fields[f"{worker}_retry_count"] + 1, fields[f"{step}_decision"]
    if decision not in ("approve", "reject"):  # neither may count as an approval
        raise ValueError(f"Invalid decision of {step}: {decision!r}; expected approve or reject")
    if decision == "reject":
        event("rejected", agent=worker, retry_count=count)
        return _with(state, next_step=worker, **{f"{worker}_retry_count": count})
    event("approved", agent=worker)
    return _with(state, next_step=_step_after(state, worker), **{f"{worker}_retry_count": 0})


def _step_after(state: GraphState, worker: str) -> str:
    """Return the next agent in order; the researcher works once for each research step."""
    if worker == "researcher" and state["current_research_index"] + 1 < len(state["research_steps"]):
        return worker
    following = _WORK_ORDER[_WORK_ORDER.index(worker) + 1 :]
    return following[1] if following[0] == "researcher" and not state["research_steps"] else following[0]


def check_retry_limit(state: GraphState) -> GraphState:
    """Send the question to the finalizer once an agent has reached its retry limit."""
    fields = _read(state)
    exhausted = [name for name in WORKERS if fields[f"{name}_retry_count"] >= fields[f"{name}_retry_limit"]]
    if not exhausted:
        return state
    failing = exhausted[0]
    current_trace().limit = f"retry_limit:{failing}"
    event("retries exhausted", "warning", agent=failing, retry_count=fields[f"{failing}_retry_count"])
    given_up = {"final_answer": COULD_NOT_ANSWER, "final_reasoning_trace": COULD_NOT_ANSWER}
    return _with(state, retry_failed=True, failing_agent=failing, next_step="finalizer", **given_up)


def execute_next_step(state: GraphState, gives_up: bool = False) -> GraphState:
    """Enter the next step and send its agent the message that goes with it."""
    step = state["next_step"]
    state = {**state, "current_step": step}
    if step not in _BY_NAME:
        raise _invalid_step(step)
    if step == "researcher" and state["critic_researcher_decision"] != "reject":
        state = {**state, "current_research_index": state["current_research_index"] + 1}
    retry_counts = {str(worker): _read(state)[f"{worker}_retry_count"] for worker in WORKERS}
    trace = current_trace()
    trace.step, trace.retry_counts = step, retry_counts
    event("step", step=step, research_index=state["current_research_index"], retry_counts=retry_counts)
    request = _BY_NAME[step].request
    if state["retry_failed"] or state["error"]:
        request = to_finalizer_give_up if gives_up else to_finalizer_retry_failed
    again = step in WORKERS and _read(state)[f"critic_{step}_decision"] == "reject"
    step_id = state["current_research_index"] if step in ("researcher", "critic_researcher") else None
    return send_message(state, ORCHESTRATOR, step, "feedback" if again else "instruction", request(state), step_id)


def route_from_orchestrator(state: GraphState) -> str:
    """Return the node that runs the current step; the critics share one."""
    step = state["current_step"]
    if step not in _BY_NAME:
        raise _invalid_step(step)
    return "critic" if step in _WORKER_BY_CRITIC else step


def send_message(
    state: GraphState, sender: str, receiver: str, type: MessageType, content: str, step_id: int | None = None
) -> GraphState:
    """Return the state with one more message; `step_id`: its research step, from 0."""
    sent = {"sender": sender, "receiver": receiver, "type": type, "content": content, "step_id": step_id}
    try:
        message = _MESSAGE.validate_python({"timestamp": datetime.now(UTC).isoformat(), **sent}, strict=True)
    except ValidationError as error:
        raise ValueError(f"Invalid message: {_describe_invalid(error)}") from None
    event("message", sender=sender, receiver=receiver, type=type, content=content, step_id=step_id)
    return {**state, "agent_messages": [*state["agent_messages"], message]}


def get_agent_conversation(
    state: GraphState, agent: str, types: Collection[MessageType] | None = None, step_id: int | None = None
) -> list[AgentMessage]:
    """Return the messages between orchestrator and `agent`, oldest first; None: all types or steps."""
    return [
        message
        for message in state["agent_messages"]
        if (message["sender"], message["receiver"]) in ((ORCHESTRATOR, agent), (agent, ORCHESTRATOR))
        and (types is None or message["type"] in types)
        and (step_id is None or message["step_id"] == step_id)
    ]


def newest_request(state: GraphState, agent: str) -> str:
    """Return the orchestrator's newest request to `agent`: critics and finalizer see no other."""
    return get_agent_conversation(state, agent, REQUESTS)[-1]["content"]


def open_request(state: GraphState, agent: str, step_id: int | None = None) -> str:
    """Return the requests that planner, researcher or expert has not yet answered in a usable way.

    That is the orchestrator's newest message. After an unusable reply, which leaves no turn in the agent's history, the
    message before it is open too.
    """
    open_contents: list[str] = []
    for message in reversed(get_agent_conversation(state, agent, step_id=step_id)):
        if message["type"] in REQUESTS:
            open_contents.insert(0, message["content"])
        elif message["content"] != unusable_response(agent):
            break
    return "\n\n".join(open_contents)


def unusable_response(agent: str) -> str:
    return f"{agent.capitalize()} gave no usable reply."


def _read(state: GraphState) -> dict[str, Any]:
    return cast(dict[str, Any], state)


def _with(state: GraphState, **changes: object) -> GraphState:
    return cast(GraphState, {**state, **changes})
