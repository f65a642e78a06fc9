"""A trajectory as the steps that the page shows."""

from typing import Any

from eval.reports.step_tree import MAX_STEPS, MAX_TEXT_CHARS, Step, build_steps, cut_text
from mas.runtime.untrusted import enclose_data


def span(id: int, kind: str, name: str, parent: int | None = 0, **fields: Any) -> dict[str, Any]:
    return {"id": id, "parent": parent, "kind": kind, "name": name, "start_seconds": 1.0, "end_seconds": 1.5, **fields}


def lm(id: int, parent: int | None, **attributes: Any) -> dict[str, Any]:
    return span(id, "lm", "model", parent, attributes={"attempt": 1, "cost_usd": 0.25, **attributes})


QUESTION = span(0, "question", "q1", None)


def only(*spans: dict[str, Any]) -> Step:
    (step,) = build_steps([QUESTION, *spans])
    return step


def test_calls_to_models_are_added_up_in_the_agent_that_made_them() -> None:
    step = only(
        span(1, "agent", "planner", inputs={"request": "Plan\nthis"}, outputs={"steps": ["a", "b"], "none": []}),
        lm(2, 1, input_tokens=900, output_tokens=10, waited_seconds=2.0),
        lm(3, 1, input_tokens=200, output_tokens=5, retry=True),
    )
    assert step.facts == "0.5 s · 2 model calls (1 sent again) · 1,100 + 15 tokens · $0.5000 · waited 2.0 s"
    assert (step.title, step.asked) == ("planner", "Plan this")
    assert step.said == [("steps", "1. a\n2. b")]


def test_a_call_of_unknown_cost_makes_the_sum_unknown() -> None:
    assert only(span(1, "agent", "planner"), lm(2, 1), lm(3, 1, cost_usd=None)).facts.endswith("cost n/a")


def test_tools_stand_in_the_agent_that_used_them() -> None:
    marked = "".join(enclose_data("read", "four"))
    step = only(
        span(1, "agent", "researcher", attributes={"step_index": 1}),
        lm(2, 1),
        span(
            3,
            "tool",
            "read",
            1,
            inputs={"file": "a.csv"},
            outputs={"observation": marked},
            attributes={"cached": True, "untrusted": True},
        ),
    )
    assert step.title == "researcher, research step 2"
    (tool,) = step.inner
    assert (tool.title, tool.said) == ('read(file="a.csv")', [("", "four")])
    assert tool.facts == "0.5 s · from the shared cache"


def test_long_arguments_and_code_stand_apart_from_the_call() -> None:
    code = "a = 1\nprint(a)"
    tool = only(span(1, "tool", "python", inputs={"code": code, "n": 2}, outputs={"observation": "1"}))
    assert tool.title == "python(code=…, n=2)"
    assert tool.said == [("code", code), ("", "1")]


def test_a_rejection_is_the_critics_decision_and_told_once() -> None:
    event = {"name": "decision", "level": "warning", "seconds": 1.0, "decision": "reject"}
    step = only(span(1, "agent", "critic", outputs={"decision": "reject", "feedback": "No."}, events=[event]))
    assert (step.decision, step.rejected, step.said, step.warnings) == ("reject", True, [("feedback", "No.")], [])


def test_failures_and_warnings_are_told_in_one_line_each() -> None:
    event = {"name": "unusable reply", "level": "warning", "seconds": 1.0, "error": "cut\n\noff"}
    step = only(
        span(1, "agent", "expert", events=[event], error="ValueError: not\nso"),
        span(2, "lm", "model", 1, error="Down: x"),
    )
    assert step.warnings == ["unusable reply: error cut off", "call to model failed: Down: x"]
    assert step.error == "failed: ValueError: not so"


def test_what_stands_around_the_steps_is_shown_only_if_something_went_wrong() -> None:
    event = {"name": "retries exhausted", "level": "warning", "seconds": 1.0, "agent": "expert"}
    steps = build_steps(
        [
            QUESTION,
            span(1, "orchestrator", "o"),
            span(2, "orchestrator", "orchestrator", events=[event]),
            span(3, "agent", "e"),
        ]
    )
    assert [(step.title, step.warnings) for step in steps] == [
        ("orchestrator", ["retries exhausted: agent expert"]),
        ("e", []),
    ]


def test_a_call_to_a_model_without_an_agent_is_a_step() -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "text": "2+2?"}]}]
    reply = {"parts": [{"type": "text", "text": "four"}, {"type": "tool_call", "name": "add", "input": {"a": 2}}]}
    step = only({**lm(1, 0), "inputs": {"messages": messages}, "outputs": reply})
    assert (step.title, step.asked) == ("model", "2+2?")
    assert step.said[0][1].startswith("four\n")
    assert '"name": "add"' in step.said[0][1]


def test_a_step_that_never_ended_was_cut_off() -> None:
    assert only(span(1, "agent", "planner", end_seconds=None)).facts == "cut off"


def test_of_very_many_steps_the_first_are_shown() -> None:
    steps = build_steps([QUESTION, *(span(n, "tool", f"t{n}", inputs={}) for n in range(1, MAX_STEPS + 4))])
    assert len(steps) == MAX_STEPS + 1
    assert steps[-1].title == "… 3 steps more in records.jsonl"


def test_spans_of_which_little_is_known_are_no_error() -> None:
    assert [step.title for step in build_steps([{"id": 0, "kind": "lm"}, {"id": 1, "kind": "agent"}])] == ["", ""]


def test_a_wait_is_told_from_a_twentieth_of_a_second_on() -> None:
    def facts(seconds: float) -> str:
        return only(span(1, "agent", "planner"), lm(2, 1, waited_seconds=seconds)).facts

    assert facts(0.05).endswith(" · waited 0.1 s") and "waited" not in facts(0.049)


def test_a_text_is_cut_where_it_is_longer_than_allowed() -> None:
    assert cut_text("a" * MAX_TEXT_CHARS) == "a" * MAX_TEXT_CHARS
    assert cut_text("a" * (MAX_TEXT_CHARS + 1)) == "a" * MAX_TEXT_CHARS + "… 1 characters more in records.jsonl"


def test_only_a_list_of_texts_is_numbered() -> None:
    step = only(span(1, "agent", "planner", outputs={"both_kinds": ["a", 1], "texts": ["é"], "zero": 0, "empty": ""}))
    assert step.said == [("both kinds", '["a", 1]'), ("texts", "1. é"), ("zero", "0")]
