"""Records as the runner leaves them, with a trajectory made by the real `mas.runtime.trace`."""

from typing import Any

from eval.runs.record import Record, Usage
from mas.runtime.trace import Trace, event, record_trace, span

CALL = {"type": "tool_call", "id": "c1", "name": "calculator", "input": {"e": "17*23"}}
SENT = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "parts": [{"type": "text", "text": "What is 17 * 23?"}]},
        {"role": "assistant", "parts": [CALL]},
        {"role": "tool", "parts": [{"type": "tool_result", "id": "c1", "content": [{"type": "text", "text": "391"}]}]},
    ],
    "tools": [{"type": "function", "name": "calculator", "description": "Sums.", "parameters": {"type": "object"}}],
    "config": {"temperature": 0.0},
}  # fmt: skip
REPLY = {"role": "assistant", "parts": [{"type": "text", "text": "391"}]}


def call(model: str = "openai/gpt-4o-mini", **attributes: Any) -> None:
    """One call to a model: 100 tokens in, 40 of them cached, 10 out."""
    tokens = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 10, "cost_usd": 0.002}
    with span("lm", model, inputs=SENT) as current:
        current.outputs = REPLY
        current.attributes |= {"finish_reason": "stop", "attempt": 1, **tokens, **attributes}


def agent(name: str, calls: int = 1, tool: str | None = None, decision: str | None = None) -> None:
    with span("agent", name, inputs={"request": "Work it out."}) as current:
        for number in range(calls):
            call(**({"retry": True, "attempt": number + 1} if number else {}))
        if tool:
            with span("tool", tool, inputs={"expression": "17*23"}) as used:
                used.outputs = {"observation": "391"}
        if decision:
            event("decision", decision=decision, feedback="because")
        current.outputs = {"result": "391"}


def a_record(sample_id: str = "q1", rounds: int = 1, **changes: Any) -> Record:
    """Right, with `3 + 8 * rounds` spans; `changes` are fields of `Record`."""
    trace = Trace(f"thread-{sample_id}")
    with record_trace(trace), span("question", sample_id):
        agent("planner", calls=2)
        for _ in range(rounds):
            with span("orchestrator", "orchestrator", after="planner"):
                event("step", step="expert")
            agent("expert", tool="calculator")
            agent("critic_expert", decision="reject", calls=2)
            agent("critic_expert", decision="approve", calls=0)
    calls = 2 + 3 * rounds
    usage = Usage(lm_calls=calls, tool_calls=rounds, input_tokens=100 * calls, cached_input_tokens=40 * calls,
                  output_tokens=10 * calls, cost_usd=0.002 * calls)  # fmt: skip
    given: dict[str, Any] = {
        "run_id": "run-1", "sample_id": sample_id, "epoch": 1, "attempt": 1, "thread_id": f"thread-{sample_id}",
        "question": "What is 17 * 23?", "file": None, "level": "1", "target": "391", "answer": "391",
        "reasoning_trace": "By the calculator.", "score": 1.0, "explanation": "equal numbers",
        "parts": {"format_loss": 0.0}, "usage": usage, "started_at": "2026-11-20T10:00:00.250000+00:00",
        "wall_seconds": trace.seconds, "trajectory": [vars(each) for each in trace.spans],
    }  # fmt: skip
    return Record(**{**given, **changes})
