"""A trajectory as the steps that the page shows."""

from typing import Any

import pytest

from eval.reports.step_tree import (
    MAX_PROMPT_CHARS,
    MAX_STEPS,
    MAX_TEXT_CHARS,
    Calls,
    Step,
    build_calls,
    build_steps,
    cut_text,
    describe_failure,
    find_misled_critic,
    format_cost,
    format_count,
    list_warnings,
)
from mas.runtime.untrusted import enclose_data
from tests.eval.stored_run import answered


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


def test_every_number_of_a_call_is_added_up_and_what_was_sent_again_or_answered_before_is_told() -> None:
    step = only(
        span(1, "agent", "planner"),
        lm(2, 1, attempt=2, input_tokens=3, output_tokens=1, cost_usd=0.5, waited_seconds=0.25),
        lm(3, 1, replayed=True, input_tokens=4, output_tokens=2, cost_usd=0.25, waited_seconds=0.5),
        lm(4, 1, cached=True),
        lm(5, 1, retry=True, attempt=3),
    )
    assert step.calls == Calls(
        n=4, again=2, replayed=2, input_tokens=7, output_tokens=3, cost_usd=1.25, cost_is_known=True,
        waited_seconds=0.75,
    )  # fmt: skip
    assert (
        step.facts == "0.5 s · 4 model calls (2 sent again, 2 answered before) · 7 + 3 tokens · $1.2500 · waited 0.8 s"
    )
    assert step.call_ids == [2, 3, 4, 5]
    assert only(span(1, "agent", "planner"), lm(2, 1)).facts == "0.5 s · 1 model call · 0 + 0 tokens · $0.2500"
    assert only(span(1, "agent", "planner")).facts == "0.5 s"


def test_a_step_is_written_without_what_is_empty() -> None:
    event = {"name": "cut", "level": "warning", "seconds": 1.0, "chars": 3}
    step = only(
        span(1, "agent", "critic", inputs={"a": "x", "b": ["y"]}, outputs={"decision": "approve", "note": "ok"},
             events=[event], error="CancelledError: "),
        lm(2, 1, cost_usd=None),
        span(3, "tool", "t", 1, inputs={}, attributes={"replayed": True, "cached": True}),
    )  # fmt: skip
    assert step.to_dict() == {
        "kind": "agent", "title": "critic", "facts": "0.5 s · 1 model call · 0 + 0 tokens · cost n/a",
        "asked": "x; 1. y", "said": [("note", "ok")], "decision": "approve", "warnings": ["cut: chars 3"],
        "error": "stopped", "calls": [2], "span": 1,
        "inner": [{"kind": "tool", "title": "t()", "facts": "0.5 s · answered before in this run", "span": 3}],
    }  # fmt: skip
    assert Step("agent", "", None).to_dict() == {"kind": "agent", "facts": "cut off", "span": None}


def test_what_is_around_the_steps_says_no_time_and_the_questions_error_stands_above() -> None:
    event = {"name": "odd", "level": "warning", "seconds": 1.0}
    info = {"name": "fine", "level": "info", "seconds": 1.0}
    steps = build_steps(
        [
            span(0, "question", "q1", None, error="ValueError: no", events=[event]),
            span(1, "orchestrator", "o", error="ValueError: no", events=[info]),
        ]
    )
    assert [(each.title, each.error, each.warnings, each.facts) for each in steps] == [
        ("q1", "", ["odd:"], ""),
        ("o", "failed: ValueError: no", [], ""),
    ]
    assert build_steps([span(0, "question", "q1", None, error="ValueError: no")]) == []


def test_a_span_belongs_to_the_nearest_step_above_it() -> None:
    steps = build_steps(
        [
            QUESTION,
            span(1, "orchestrator", "o"),
            span(2, "agent", "outer", 1),
            span(3, "orchestrator", "inside", 2),
            lm(4, 3),
            span(5, "tool", "t", 3, inputs={}),
            span(6, "agent", "alone", 77),
            span(7, "agent", "of a frame that is shown", 8),
            span(8, "orchestrator", "late", None, error="x"),
        ]
    )
    assert [each.title for each in steps] == ["outer", "alone", "of a frame that is shown", "late"]
    assert ([each.title for each in steps[0].inner], steps[0].call_ids) == (["t()"], [4])
    framed = build_steps([span(1, "orchestrator", "o", None, error="x"), span(2, "agent", "in it", 1)])
    assert [each.title for each in framed] == ["o", "in it"], "a frame has no steps of its own"


def test_spans_without_an_id_are_told_apart() -> None:
    steps = build_steps([{"kind": "agent", "name": "a"}, {"kind": "agent", "name": "b"}])
    assert [(each.title, each.span, each.seconds) for each in steps] == [("a", -1, None), ("b", -2, None)]
    calls = build_calls([{"kind": "lm", "name": "m"}, {"kind": "agent"}, {"kind": "lm", "name": "n"}])
    assert {id: each["title"] for id, each in calls.items()} == {
        "-1": "m · cut off · 0 + 0 tokens · cost n/a", "-3": "n · cut off · 0 + 0 tokens · cost n/a"
    }  # fmt: skip


def test_of_very_many_steps_calls_are_added_and_frames_not_counted() -> None:
    agents = [span(n, "agent", f"a{n}") for n in range(1, MAX_STEPS + 1)]
    assert [each.kind for each in build_steps([QUESTION, *agents])] == ["agent"] * MAX_STEPS
    more = [span(300, "tool", "t"), span(301, "orchestrator", "o", error="x"), lm(302, 300), lm(303, 1)]
    steps = build_steps([QUESTION, *agents, *more])
    assert (len(steps), steps[-1].title, steps[-1].kind) == (MAX_STEPS + 1, "… 1 step more in records.jsonl", "more")
    assert (steps[0].call_ids, steps[-1].facts, steps[-1].seconds) == ([303], "", None)


def test_a_call_has_its_whole_prompt_and_reply() -> None:
    call = {
        **lm(5, 0, input_tokens=3, output_tokens=2, cost_usd=0.5, retry=True, waited_seconds=1.0),
        "inputs": {
            "system": "Be brief.",
            "messages": [{"parts": [{"text": "a"}, {"text": "b"}]}, {"role": "user", "parts": "x"}],
        },
        "outputs": {"parts": [{"text": 5}]},
        "error": "ValueError: not\nso",
    }
    assert build_calls([QUESTION, call]) == {
        "5": {
            "title": "model · 0.5 s · 3 + 2 tokens · $0.5000 · waited 1.0 s",
            "messages": [("system", "Be brief."), ("", "a\nb"), ("user", "")],
            "reply": "5",
            "error": "failed: ValueError: not so",
        }
    }
    assert build_calls([lm(1, None)])["1"] == {"title": "model · 0.5 s · 0 + 0 tokens · $0.2500", "messages": [],
        "reply": "", "error": ""}  # fmt: skip


def test_a_prompt_is_cut_where_it_is_longer_than_allowed() -> None:
    def system(n: int) -> Any:
        return build_calls([{**lm(1, None), "inputs": {"system": "s" * n}}])["1"]["messages"]

    assert system(MAX_PROMPT_CHARS) == [("system", "s" * MAX_PROMPT_CHARS)]
    (cut,) = system(MAX_PROMPT_CHARS + 1_000)
    assert cut[1] == "s" * MAX_PROMPT_CHARS + "… 1,000 characters more in records.jsonl"


def test_an_argument_stands_in_the_call_unless_it_is_long_or_has_lines() -> None:
    def shown(value: object) -> tuple[str, Any]:
        tool = only(span(1, "tool", "t", inputs={"a": value, "b": 1}, outputs={"x": {"é": 1}, "y": ["p", "q"]}))
        return tool.title, tool.said[:-2]

    assert shown("x" * 98) == (f't(a="{"x" * 98}", b=1)', []), "a hundred characters with its quotes"
    assert shown("x" * 99) == ("t(a=…, b=1)", [("a", "x" * 99)])
    assert shown("p\nq") == ("t(a=…, b=1)", [("a", "p\nq")])
    assert shown("é") == ('t(a="é", b=1)', [])
    tool = only(span(1, "tool", "t", inputs={}, outputs={"x": {"é": 1}, "y": ["p", "q"], "z": "s" * 2_001}))
    assert tool.said == [
        ("", '{"é": 1}'),
        ("", "1. p\n2. q"),
        ("", "s" * 2_000 + "… 1 characters more in records.jsonl"),
    ]


def test_what_an_agent_was_asked_is_one_short_line() -> None:
    step = only(span(1, "agent", "a", inputs={"x": "p" * 200, "y": "q" * 200}))
    assert step.asked == f"{'p' * 200}; {'q' * 97}…"
    call = only({**lm(1, 0), "inputs": {"messages": [{"parts": [{"text": "old"}]}, {"parts": [{"text": "n" * 301}]}]}})
    assert call.asked == "n" * 299 + "…"
    assert (call.call_ids, call.calls.n, call.said) == ([1], 1, [("", "")])
    assert only(lm(1, 0)).asked == ""


def test_warnings_are_told_with_their_fields_and_infos_and_decisions_are_not() -> None:
    events: list[dict[str, object]] = [
        {"name": "a", "level": "info", "seconds": 1.0},
        {"name": "decision", "level": "warning", "seconds": 1.0},
        {"name": "b", "level": "warning", "seconds": 1.0, "x": 1, "y": "z"},
        {"name": "c", "level": "error", "seconds": 1.0},
    ]
    assert list(list_warnings(events)) == ["b: x 1, y z", "c: "]
    step = only(span(1, "agent", "a"), {**lm(2, 1), "error": "Down: x", "events": events})
    assert step.warnings == ["call to model failed: Down: x", "b: x 1, y z", "c:"]
    assert describe_failure("CancelledError: x") == "stopped" and describe_failure("OSError: x") == "failed: OSError: x"
    assert [format_count(n, "step") for n in (0, 1, 1_000)] == ["0 steps", "1 step", "1,000 steps"]
    assert [format_cost(cost) for cost in (None, 0.5)] == ["cost n/a", "$0.5000"]


@pytest.mark.parametrize(
    ("score", "decisions", "misled"),
    [
        (0.0, ["reject", "approve"], 1),
        (0.0, ["approve", "reject"], None),
        (1.0, ["approve"], None),
        (0.0, [], None),
        (0.0, ["approve", ""], 0),
    ],
)
def test_the_critic_that_decided_last_is_misled_if_it_approved_what_was_not_right(
    score: float, decisions: list[str], misled: int | None
) -> None:
    spans = [span(n, "agent", f"critic_{n}", outputs={"decision": each}) for n, each in enumerate(decisions, start=1)]
    record = answered("q1", "16", score=score, trajectory=spans)
    steps = build_steps(spans)
    assert find_misled_critic(record, steps) is (None if misled is None else steps[misled])
