"""The model calls of an answer that an optimizer learns from: (predictor's name, inputs, outputs).

Of an agent with tools only the call that ends its work counts: its history holds the calls before. A reply that could
not be parsed is a step whose output is `unreadable_reply`, so that the prompt that led to it is improved as well.

    extract_steps(program, trace, record.trajectory)[0]     # ("plan", {"problem": "…"}, Prediction(steps=[…]))
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from mas.system import Program

Inputs = Mapping[str, object]
Span = dict[str, Any]  # as a record's trajectory holds it
Step = tuple[str, Inputs, dspy.Prediction]
TraceEntry = tuple[dspy.Predict, Inputs, dspy.Prediction]  # as `dspy.settings.trace` holds it

UNREADABLE = "unreadable_reply"
_PARSE_ERRORS = ("AdapterParseError", "EmptyReplyError", "TruncatedReplyError")  # names that begin a span's error
_RETRIED_REPLY = "unusable reply"  # event of an agent that gets another attempt


def extract_steps(program: Program, trace: Sequence[TraceEntry], spans: Sequence[Span]) -> list[Step]:
    """Return the steps of one answer.

    Args:
        program: entries of other programs' predictors are left out.
        trace: `dspy.settings.trace` of the answer.
        spans: the trajectory of the answer's record.
    """
    predictors = dict(program.named_predictors())
    names = {id(predictor): name for name, predictor in predictors.items()}
    parsed: list[Step] = [
        (names[id(predictor)], _without_tools(inputs), outputs)
        for predictor, inputs, outputs in trace
        if id(predictor) in names and not _calls_tools(outputs)
    ]
    return parsed + [
        (span["name"], _request(predictors[span["name"]], span), dspy.Prediction(**{UNREADABLE: reply}))
        for span in spans
        if span["kind"] == "agent" and span["name"] in predictors
        for reply in _unreadable_replies(span, spans)
    ]


def keep_last_steps(steps: Sequence[Step]) -> list[Step]:
    """Keep the last readable step of each agent: an earlier one was rejected, and is no example to follow."""
    readable = [step for step in steps if UNREADABLE not in step[2]]
    last = {step[0]: step for step in readable}
    return [step for step in readable if last[step[0]] is step]


def _calls_tools(outputs: dspy.Prediction) -> bool:
    calls = outputs.get("tool_calls")
    return bool(calls is not None and calls.tool_calls)


def _without_tools(inputs: Inputs) -> Inputs:
    return {name: value for name, value in inputs.items() if name != "tools"}


def _request(predictor: dspy.Predict, span: Span) -> Inputs:
    return {next(iter(predictor.signature.input_fields)): span["inputs"].get("request", "")}


def _unreadable_replies(agent: Span, spans: Sequence[Span]) -> list[str]:
    moments = [event["seconds"] for event in agent["events"] if event["name"] == _RETRIED_REPLY]
    if (agent["error"] or "").startswith(_PARSE_ERRORS):
        moments.append(math.inf)
    calls = [span for span in spans if span["kind"] == "lm" and span["parent"] == agent["id"]]
    before = [[call for call in calls if call["start_seconds"] <= moment] for moment in moments]
    return [_text(found[-1]) for found in before if found]


def _text(call: Span) -> str:
    return "".join(part.get("text", "") for part in call["outputs"].get("parts", ()))
