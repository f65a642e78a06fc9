"""Steps of a sample in words and as JSON: lines of the log while it runs, spans of its record afterwards.

describe_event({"event": "tool finished", "component": "calculator", "arguments": {…}, "observation": "4"})
# 'calculator(expression="2+2") → 4'
"""

import json
from collections.abc import Mapping

from eval.reports.step_tree import build_steps, find_misled_critic
from eval.runs.record import Record
from mas.runtime.terminal import shorten_line
from mas.runtime.untrusted import remove_marks

_MAX_CHARS = 200
_MAX_ARGUMENT_CHARS = 60
_QUIET = ("orchestrator started", "orchestrator finished", "step", "message", "lm started", "question started")


def describe_event(line: Mapping[str, object]) -> str:
    """Return a line of the log in words; empty for what only repeats others."""
    event, name = str(line.get("event") or ""), str(line.get("component") or "")
    if event in _QUIET or event == "tool started" or not event:
        return ""
    if event == "agent started":
        return shorten_line(f"{name} …", _MAX_CHARS)
    if event == "agent finished":
        return shorten_line(f"{name} finished{_seconds(line)}", _MAX_CHARS)
    if event == "lm finished":
        tokens = f"{line.get('input_tokens', '?')} + {line.get('output_tokens', '?')} tokens"
        return shorten_line(f"{name}: {tokens}{_seconds(line)}", _MAX_CHARS)
    if event == "decision":
        return shorten_line(f"{name}: {line.get('decision', '')}: {line.get('feedback', '')}", _MAX_CHARS)
    if event == "tool finished":
        return shorten_line(f"{_call(line)} → {remove_marks(str(line.get('observation', '')))}", _MAX_CHARS)
    if line.get("error"):
        return shorten_line(f"{name}: {event}: {line['error']}", _MAX_CHARS)
    return shorten_line(f"{name}: {event}", _MAX_CHARS)


def _seconds(line: Mapping[str, object]) -> str:
    seconds = line.get("seconds")
    return f", {seconds:.1f} s" if isinstance(seconds, int | float) else ""


def _call(line: Mapping[str, object]) -> str:
    arguments = line.get("arguments")
    if not isinstance(arguments, Mapping):
        return f"{line.get('component', '')}(…)"
    shown = (
        f"{name}={shorten_line(json.dumps(value, ensure_ascii=False, default=str), _MAX_ARGUMENT_CHARS)}"
        for name, value in arguments.items()
    )
    return f"{line.get('component', '')}({', '.join(shown)})"


def list_steps(record: Record) -> list[dict[str, object]]:
    """Return the steps of a record as `steps.js` draws them."""
    steps = build_steps(record.trajectory)
    misled = find_misled_critic(record, steps)
    return [each.to_dict() | ({"misled": True} if each is misled else {}) for each in steps]
