"""Lines of a log in words."""

from typing import Any

import pytest

from eval.viewer.steps import describe_event

LINES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"event": ""}, ""),
    ({"event": "step", "component": "a", "error": "x"}, ""),
    ({"event": "question started"}, ""),
    ({"event": "tool started", "component": "calculator"}, ""),
    ({"event": "agent started", "component": "planner"}, "planner …"),
    ({"event": "agent finished", "component": "planner", "seconds": 1.25}, "planner finished, 1.2 s"),
    ({"event": "agent finished", "component": "planner", "seconds": "long"}, "planner finished"),
    ({"event": "lm finished", "component": "m", "input_tokens": 5, "output_tokens": 2, "seconds": 2},
     "m: 5 + 2 tokens, 2.0 s"),
    ({"event": "lm finished", "component": "m"}, "m: ? + ? tokens"),
    ({"event": "decision", "component": "critic", "decision": "retry", "feedback": "why"}, "critic: retry: why"),
    ({"event": "tool finished", "component": "calculator", "arguments": {"expression": "2+2"}, "observation": "4"},
     'calculator(expression="2+2") → 4'),
    ({"event": "tool finished", "component": "read", "arguments": {"a": 1, "b": [None]}, "observation": ""},
     "read(a=1, b=[null]) → "),
    ({"event": "tool finished", "component": "read", "arguments": "none", "observation": "x"}, "read(…) → x"),
    ({"event": "call failed", "component": "m", "error": "HTTP 500"}, "m: call failed: HTTP 500"),
    ({"event": "call waits", "component": "m"}, "m: call waits"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "words"), LINES, ids=[str(n) for n in range(len(LINES))])
def test_a_line_is_said_in_words(line: dict[str, Any], words: str) -> None:
    assert describe_event(line).strip() == words.strip()


def test_what_is_long_is_cut_and_what_is_odd_is_one_line() -> None:
    long = describe_event(
        {"event": "tool finished", "component": "t", "arguments": {"a": "x" * 500}, "observation": "4"}
    )
    assert len(long) < 80 and long.endswith("→ 4")
    assert len(describe_event({"event": "agent started", "component": "x" * 500})) <= 200
    assert "\n" not in describe_event({"event": "a\nb\x1b[31m", "component": "c"})
