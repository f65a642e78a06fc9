"""Traces: one tree of spans a question, whatever runs beside it."""

import asyncio
import threading
from typing import Any

import pytest

from mas.runtime.trace import (
    Span,
    Trace,
    current_thread_id,
    event,
    keep_answer,
    keep_state,
    note_review,
    note_step,
    record_trace,
    span,
    use_span,
)


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(self, level: str, name: str, fields: dict[str, Any]) -> None:
        self.lines.append((level, name, fields))

    @property
    def short(self) -> list[tuple[str, str, Any]]:
        return [(level, name, fields.get("component")) for level, name, fields in self.lines]


def tree(trace: Trace) -> list[tuple[str, str | None]]:
    """Each span's name with that of its parent."""
    return [(each.name, None if each.parent is None else trace.spans[each.parent].name) for each in trace.spans]


def test_a_span_opened_inside_another_is_its_child() -> None:
    trace = Trace("thread")
    with record_trace(trace):
        with span("question", "q"):
            with span("agent", "planner"), span("lm", "model"):
                pass
            with span("agent", "expert"):
                pass
        with span("question", "r"):
            pass
    assert tree(trace) == [("q", None), ("planner", "q"), ("model", "planner"), ("expert", "q"), ("r", None)]
    assert [each.id for each in trace.spans] == [0, 1, 2, 3, 4]


def test_times_are_seconds_since_the_question_began() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("question", "q"), span("tool", "t"):
        while_open = [(each.end_seconds, each.seconds) for each in trace.spans]
    assert while_open == [(None, 0.0), (None, 0.0)]
    outer, inner = trace.spans
    assert inner.end_seconds is not None and outer.end_seconds is not None
    assert 0.0 <= outer.start_seconds <= inner.start_seconds <= inner.end_seconds <= outer.end_seconds <= trace.seconds
    assert outer.seconds == outer.end_seconds - outer.start_seconds


def test_what_went_in_and_came_out_is_kept() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("tool", "calculator", inputs={"expression": "2+2"}, step_index=3) as current:
        current.outputs = {"result": "4"}
    (kept,) = trace.spans
    assert (kept.inputs, kept.outputs, kept.attributes) == ({"expression": "2+2"}, {"result": "4"}, {"step_index": 3})


async def question(trace: Trace, mine: asyncio.Event, others: asyncio.Event) -> str | None:
    """Open spans in step with another question: each goes on only when the other one has got as far."""
    with record_trace(trace), span("question", trace.thread_id):
        mine.set()
        await others.wait()
        with span("agent", f"planner of {trace.thread_id}"):
            await asyncio.gather(*(tool(f"{trace.thread_id} {number}") for number in range(3)))
        keep_state({"of": trace.thread_id})
        return current_thread_id()


async def tool(name: str) -> None:
    with span("tool", name):
        await asyncio.sleep(0)
        event("called")


def test_questions_side_by_side_do_not_mix() -> None:
    traces = [Trace("a"), Trace("b")]

    async def both() -> tuple[str | None, str | None]:
        left, right = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(question(traces[0], left, right), question(traces[1], right, left))

    assert list(asyncio.run(both())) == ["a", "b"]
    for trace in traces:
        name = trace.thread_id
        planner = f"planner of {name}"
        assert tree(trace) == [(name, None), (planner, name), *((f"{name} {number}", planner) for number in range(3))]
        assert [len(each.events) for each in trace.spans] == [0, 0, 1, 1, 1]
        assert trace.state == {"of": name}


def test_work_handed_to_a_thread_belongs_to_the_question() -> None:
    trace = Trace("thread")

    def blocking() -> None:
        with span("tool", "blocking"):
            event("called")

    async def main() -> None:
        with span("agent", "expert"):
            await asyncio.to_thread(blocking)

    with record_trace(trace):
        asyncio.run(main())
    assert tree(trace) == [("expert", None), ("blocking", "expert")]
    assert [each["name"] for each in trace.spans[1].events] == ["called"]


def test_an_exception_is_noted_and_goes_on_its_way() -> None:
    trace = Trace("thread")
    with (
        pytest.raises(KeyError),
        record_trace(trace),
        span("question", "q"),
        span("agent", "fine"),
    ):
        with pytest.raises(ValueError), span("tool", "caught"):
            raise ValueError("of no consequence")
        raise KeyError("gone")
    errors = {each.name: each.error for each in trace.spans}
    assert errors == {"q": "KeyError: 'gone'", "fine": "KeyError: 'gone'", "caught": "ValueError: of no consequence"}
    assert all(each.end_seconds is not None for each in trace.spans)


def test_a_cancelled_span_is_closed_and_says_so() -> None:
    trace = Trace("thread")

    async def main() -> None:
        async with asyncio.timeout(0.01):
            with span("lm", "slow"):
                await asyncio.Event().wait()

    with record_trace(trace), pytest.raises(TimeoutError):
        asyncio.run(main())
    assert trace.spans[0].error is not None and trace.spans[0].error.startswith("CancelledError")
    assert trace.spans[0].end_seconds is not None


def test_after_an_error_new_spans_hang_where_they_should() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("question", "q"):
        with pytest.raises(ValueError), span("agent", "failing"):
            raise ValueError("x")
        with span("agent", "next"):
            pass
    assert tree(trace) == [("q", None), ("failing", "q"), ("next", "q")]


def test_events_stand_on_the_span_that_is_open() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("orchestrator", "orchestrator"):
        event("step", step="planner")
        with span("agent", "critic"):
            event("decision", "warning", decision="reject")
    outer, inner = trace.spans
    assert [{**each, "seconds": 0} for each in outer.events] == [
        {"name": "step", "seconds": 0, "level": "info", "step": "planner"}
    ]
    assert [{**each, "seconds": 0} for each in inner.events] == [
        {"name": "decision", "seconds": 0, "level": "warning", "decision": "reject"}
    ]
    assert outer.start_seconds <= outer.events[0]["seconds"] <= inner.start_seconds


def test_the_listener_hears_everything_in_order() -> None:
    heard = Heard()
    with record_trace(Trace("thread", heard)):
        event("before any span")
        with span("agent", "critic", step_index=1):
            event("decision", "warning", decision="reject")
        with pytest.raises(ValueError), span("tool", "calculator"):
            raise ValueError("1/0")
    assert heard.short == [
        ("info", "before any span", None),
        ("info", "agent started", "critic"),
        ("warning", "decision", "critic"),
        ("info", "agent finished", "critic"),
        ("info", "tool started", "calculator"),
        ("error", "tool failed", "calculator"),
    ]
    _, _, finished = heard.lines[3]
    assert finished["step_index"] == 1 and finished["seconds"] >= 0
    assert heard.lines[5][2]["error"] == "ValueError: 1/0"
    assert heard.lines[2][2]["decision"] == "reject"


def test_outside_a_recording_nothing_is_kept_and_nothing_breaks() -> None:
    trace = Trace("thread")
    with record_trace(trace):
        assert current_thread_id() == "thread"
    with span("tool", "calculator") as current:
        event("called")
        keep_state({"a": 1})
    assert (trace.spans, trace.state, current.events) == ([], {}, [])
    assert current_thread_id() is None


def test_a_recording_inside_another_starts_its_own_tree() -> None:
    outer, inner = Trace("outer"), Trace("inner")
    with record_trace(outer), span("question", "q"):
        with record_trace(inner), span("question", "r"):
            assert current_thread_id() == "inner"
        with span("agent", "planner"):
            pass
    assert tree(inner) == [("r", None)]
    assert tree(outer) == [("q", None), ("planner", "q")]


def test_the_newest_state_is_kept_as_a_copy() -> None:
    trace, state = Trace("thread"), {"step": "planner"}
    with record_trace(trace):
        keep_state({"step": "input", "only_then": True})
        keep_state(state)
        state["step"] = "changed later"
    assert trace.state == {"step": "planner"}


def test_a_new_thread_without_the_context_records_nothing() -> None:
    trace = Trace("thread")

    def elsewhere() -> None:
        with span("tool", "stray"):
            pass

    with record_trace(trace):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert trace.spans == []


def test_the_answer_as_it_would_stand_now_is_remembered() -> None:
    keep_answer("outside a run: nowhere")
    trace = Trace("thread")
    with record_trace(trace):
        assert trace.answer is None
        keep_answer("41")
        keep_answer("42")
    assert trace.answer == "42"


def test_each_line_says_the_step_and_the_agent_that_it_belongs_to() -> None:
    heard = Heard()
    with record_trace(Trace("thread", heard)), span("question", "q"):
        with span("orchestrator", "orchestrator"):
            note_step("researcher", {"researcher": 1})
        with span("agent", "researcher"), span("tool", "calculator", inputs={"expression": "2+2"}):
            event("cached")
    places = [
        (name, fields.get("component"), fields.get("agent"), fields.get("step")) for _, name, fields in heard.lines
    ]
    assert places == [
        ("question started", "q", None, None),
        ("orchestrator started", "orchestrator", None, None),
        ("orchestrator finished", "orchestrator", None, "researcher"),
        ("agent started", "researcher", "researcher", "researcher"),
        ("tool started", "calculator", "researcher", "researcher"),
        ("cached", "calculator", "researcher", "researcher"),
        ("tool finished", "calculator", "researcher", "researcher"),
        ("agent finished", "researcher", "researcher", "researcher"),
        ("question finished", "q", None, "researcher"),
    ]


def test_a_tool_call_is_logged_with_its_arguments_at_both_ends() -> None:
    heard = Heard()
    with record_trace(Trace("thread", heard)), span("tool", "calculator", inputs={"expression": "2+2"}) as current:
        current.outputs = {"result": "4"}
    (_, began, first), (_, ended, last) = heard.lines
    assert (began, first["arguments"]) == ("tool started", {"expression": "2+2"})
    assert (ended, last["arguments"], last["result"]) == ("tool finished", {"expression": "2+2"}, "4")


def test_a_failure_is_logged_with_type_and_retry_counts_and_its_stack_once() -> None:
    heard = Heard()
    with pytest.raises(KeyError), record_trace(Trace("thread", heard)), span("question", "q"):
        note_step("expert", {"planner": 0, "expert": 2})
        with span("agent", "expert"), span("tool", "calculator"):
            raise KeyError("x")
    failed = [(name, fields) for level, name, fields in heard.lines if level == "error"]
    assert [name for name, _ in failed] == ["tool failed", "agent failed", "question failed"]
    assert {(fields["error"], fields["error_type"]) for _, fields in failed} == {("KeyError: 'x'", "KeyError")}
    assert all(fields["retry_counts"] == {"planner": 0, "expert": 2} for _, fields in failed)
    (stack,) = [fields["stack"] for _, fields in failed if "stack" in fields]
    assert stack.splitlines()[0].startswith("tests.mas.runtime.test_trace:") and stack.endswith("KeyError: 'x'")


def test_each_failure_has_its_own_stack_however_alike_they_are() -> None:
    heard = Heard()
    with record_trace(Trace("thread", heard)):
        for _ in range(20):
            with pytest.raises(KeyError), span("tool", "calculator"):
                raise KeyError("x")
    assert sum("stack" in fields for _, _, fields in heard.lines) == 20


def test_reviews_are_kept_in_order_by_agent() -> None:
    trace = Trace("thread")
    note_review("planner", approved=True)  # outside of a trace: of no sample
    with record_trace(trace):
        for approved in (False, True):
            note_review("planner", approved)
        note_review("expert", approved=True)
    assert trace.reviews == {"planner": [False, True], "expert": [True]}


def test_a_span_is_within_those_around_it() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("question", "q"), span("agent", "expert") as agent, span("tool", "t") as tool:
        pass
    question = trace.spans[0]
    kinds = ("question", "agent", "tool", "lm")
    assert [[trace.is_within(each, kind) for kind in kinds] for each in (question, agent, tool)] == [  # type: ignore[arg-type]
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
    ]
    assert [trace.find_agent(each) for each in (question, agent, tool, None)] == [None, "expert", "expert", None]


def test_an_observer_sees_each_span_as_it_opens_and_as_it_ends() -> None:
    seen = list[tuple[str, bool]]()
    trace = Trace("thread", observer=lambda each: seen.append((each.name, each.end_seconds is None)))
    with record_trace(trace), span("question", "q"), pytest.raises(ValueError, match="no"), span("tool", "t"):
        raise ValueError("no")
    assert seen == [("q", True), ("t", True), ("t", False), ("q", False)]


def test_what_is_opened_below_an_ended_span_is_its_child_and_what_comes_later_is_not() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("question", "q"):
        with span("agent", "expert") as ended:
            pass
        with use_span(ended), span("lm", "model"):
            pass
        with span("agent", "writer"):
            pass
    assert tree(trace) == [("q", None), ("expert", "q"), ("model", "expert"), ("writer", "q")]


def test_seconds_count_from_the_beginning_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("mas.runtime.trace.time.monotonic", lambda: clock[0])
    trace = Trace("thread")
    with record_trace(trace):
        clock[0] = 103.0
        with span("tool", "t") as current:
            clock[0] = 104.5
            event("half", note=1)
            clock[0] = 110.0
    assert trace.seconds == 10.0
    assert (current.start_seconds, current.end_seconds, current.seconds) == (3.0, 10.0, 7.0)
    assert current.events == [{"name": "half", "seconds": 4.5, "level": "info", "note": 1}]
    assert Span(0, None, "tool", "t", 3.0).seconds == 0.0


def test_the_stack_of_an_exception_is_told_by_the_innermost_span_alone() -> None:
    heard = Heard()
    trace = Trace("thread", heard)

    def fail() -> None:
        with span("question", "q"), span("tool", "t"):
            raise ValueError("no")

    with record_trace(trace), pytest.raises(ValueError, match="no"):
        fail()
    failed = [(fields["component"], "stack" in fields) for _, name, fields in heard.lines if name.endswith("failed")]
    assert failed == [("t", True), ("q", False)]
