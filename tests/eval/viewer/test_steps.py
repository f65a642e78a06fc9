"""Lines of a log in words."""

from typing import Any

import pytest

from eval.viewer.steps import describe_event, list_steps
from mas.runtime.untrusted import enclose_data
from tests.eval.stored_run import answered

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


def test_lines_and_arguments_of_exactly_the_limit_are_whole() -> None:
    assert describe_event({"event": "agent started", "component": "x" * 198}) == "x" * 198 + " …"
    assert describe_event({"event": "agent started", "component": "x" * 199}) == "x" * 199 + "…"

    def called(chars: int) -> str:
        line = {"event": "tool finished", "component": "t", "arguments": {"a": "é" * chars}, "observation": "4"}
        return describe_event(line)

    assert called(58) == f't(a="{"é" * 58}") → 4' and called(59) == f't(a="{"é" * 58}…) → 4'


@pytest.mark.parametrize("event", ["orchestrator started", "orchestrator finished", "message", "lm started"])
def test_what_only_repeats_other_lines_is_not_said(event: str) -> None:
    assert describe_event({"event": event, "component": "x"}) == ""


def test_values_that_are_no_json_and_marks_for_agents_are_shown_as_texts() -> None:
    marked = "".join(enclose_data("read", "four"))
    line = {"event": "tool finished", "component": "t", "arguments": {"a": object}, "observation": marked}
    assert describe_event(line) == "t(a=\"<class 'object'>\") → four"
    assert describe_event({"event": "tool finished", "arguments": None}) == "(…) →"
    assert describe_event({"event": "decision", "component": "c"}) == "c: :"


def test_the_steps_of_a_record_mark_the_critic_that_was_misled() -> None:
    def critic(id: int, decision: str) -> dict[str, Any]:
        return {"id": id, "parent": None, "kind": "agent", "name": f"c{id}", "outputs": {"decision": decision}}

    wrong = answered("q1", "16", trajectory=[critic(0, "reject"), critic(1, "approve")])
    assert [(each["title"], each.get("misled", False)) for each in list_steps(wrong)] == [("c0", False), ("c1", True)]
    right = answered("q1", "17", trajectory=[critic(0, "approve")])
    assert [each.get("misled", False) for each in list_steps(right)] == [False]
