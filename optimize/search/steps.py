"""Which of an answer's model calls an optimiser is shown: (agent, inputs, outputs), as DSPy's trace has them.

Of an agent with tools only the call that ends its request counts: the calls before are in that one's history. A reply
that could not be read is a step, too, whose outputs are `unreadable_reply`, so that the prompt which led to it is
reflected on.

    steps_of(program, trace, record.trajectory)[0]     # ("plan", {"problem": "…"}, Prediction(steps=[…]))
"""

import math
from collections.abc import Sequence
from typing import Any

import dspy

from mas.system import Program

UNREADABLE = "unreadable_reply"
Step = tuple[str, dict[str, Any], dspy.Prediction]
_UNREAD = ("AdapterParseError", "EmptyReplyError", "TruncatedReplyError")  # of a span's error, by its type's name
_TOLD = "unusable reply"  # event of an agent that gets another try


def extract_steps(
    program: Program, trace: Sequence[tuple[Any, dict[str, Any], Any]], spans: Sequence[dict[str, Any]]
) -> list[Step]:
    """
    Args:
        program: whose predictors the trace holds; those of others are left out.
        trace: `dspy.settings.trace` of the answer.
        spans: of the same answer, as its record keeps them.
    """
    predictors = dict(program.named_predictors())
    names = {id(predictor): name for name, predictor in predictors.items()}
    read = [
        (names[id(predictor)], _shown(inputs), outputs)
        for predictor, inputs, outputs in trace
        if id(predictor) in names and not _calls_tools(outputs)
    ]
    return read + [
        (span["name"], _request(predictors[span["name"]], span), dspy.Prediction(**{UNREADABLE: reply}))
        for span in spans
        if span["kind"] == "agent" and span["name"] in predictors
        for reply in _unread(span, spans)
    ]


def keep_last_steps(steps: Sequence[tuple[Any, dict[str, Any], Any]]) -> list[tuple[Any, dict[str, Any], Any]]:
    """The last readable step of each predictor: what was rejected before is no example to follow."""
    readable = [step for step in steps if UNREADABLE not in step[2]]
    last = {id(step[0]): step for step in readable}
    return [step for step in readable if last[id(step[0])] is step]


def _calls_tools(outputs: Any) -> bool:
    calls = outputs.get("tool_calls")
    return bool(calls is not None and calls.tool_calls)


def _shown(inputs: dict[str, Any]) -> dict[str, Any]:
    """Without the tools themselves, which every request of the agent has."""
    return {name: value for name, value in inputs.items() if name != "tools"}


def _request(predictor: Any, span: dict[str, Any]) -> dict[str, Any]:
    return {next(iter(predictor.signature.input_fields)): span["inputs"].get("request", "")}


def _unread(agent: dict[str, Any], spans: Sequence[dict[str, Any]]) -> list[str]:
    """The replies to this agent that nobody could read."""
    moments = [event["seconds"] for event in agent["events"] if event["name"] == _TOLD]
    if (agent["error"] or "").startswith(_UNREAD):
        moments.append(math.inf)
    calls = [span for span in spans if span["kind"] == "lm" and span["parent"] == agent["id"]]
    before = [[call for call in calls if call["start_seconds"] <= moment] for moment in moments]
    return [_text(found[-1]) for found in before if found]


def _text(call: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in call["outputs"].get("parts", ()))
