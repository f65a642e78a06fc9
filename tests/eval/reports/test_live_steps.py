"""Spans as lines, on a terminal and off it."""

import asyncio
import contextlib
import io

from rich.console import Console

from eval.reports.live_steps import LiveSteps, print_answer
from eval.runs.record import Record, Usage
from mas.runtime.trace import Trace, event, record_trace, span
from mas.runtime.untrusted import enclose_data


def shown(*, terminal: bool = False, redact: str = "\0") -> tuple[LiveSteps, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=40)
    return LiveSteps(console, redact=lambda text: text.replace(redact, "***")), out


def test_a_span_is_shown_as_it_opens_and_as_it_ends() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)), span("agent", "researcher", step_index=1) as agent:
        assert out.getvalue() == "researcher, research step 2\n"
        with span("tool", "look_up", inputs={"word": "töne", "page": 2}) as tool:
            tool.outputs = {"observation": "\nfirst line\nsecond line"}
        agent.outputs = {"result": "two\nlines", "list": ["a", "b"], "empty": []}
    assert out.getvalue().splitlines()[1:] == [
        '  look_up(word="töne", page=2) → first line',
        "  result: two lines",
        "  list:",
        "    1. a",
        "    2. b",
        "  empty: none",
    ]


def test_what_came_from_outside_is_shown_without_the_line_that_is_for_the_agent() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)), span("tool", "look_up") as tool:
        tool.outputs = {"observation": "".join(enclose_data("look_up", "first line"))}
        tool.attributes["untrusted"] = True
    assert out.getvalue() == "  look_up() → first line\n"


def test_failures_and_warnings_are_shown_without_secrets() -> None:
    steps, out = shown(redact="sk-secret")
    with record_trace(Trace("t", observer=steps.observe)):
        try:
            with span("agent", "expert"):
                event("unusable reply", "warning", agent="expert", error="cut off")
                event("decision", "warning", decision="reject")
                with span("tool", "calculator", inputs={"expression": "sk-secret"}):
                    raise ValueError("sk-secret is no number")
        except ValueError:
            pass
    assert out.getvalue().splitlines() == [
        "expert",
        '  calculator(expression="***") → failed: ValueError: *** is no number',
        "  unusable reply: agent expert, error cut off",
        "  failed: ValueError: *** is no number",
    ]


def test_what_models_and_tools_say_cannot_steer_the_terminal() -> None:
    steps, out = shown(terminal=True)
    with steps, record_trace(Trace("t", observer=steps.observe)), span("tool", "read", inputs={"a": "[red]"}) as tool:
        tool.outputs = {"observation": "\x1b]0;title\x07 [bold]x[/bold] \udcff \x9b31m"}
    assert '[red]") → ' in out.getvalue() and "[bold]x[/bold]" in out.getvalue()
    assert "\x1b]0;" not in out.getvalue() and "\x9b" not in out.getvalue()


def test_spans_that_end_after_the_question_was_interrupted_are_not_shown() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)):
        with steps, span("agent", "planner"):
            pass
        with span("agent", "too late"):
            pass
    assert out.getvalue() == "planner\n"


def test_a_cancelled_step_was_stopped() -> None:
    steps, out = shown()
    trace = Trace("t", observer=steps.observe)
    with contextlib.suppress(asyncio.CancelledError), record_trace(trace), span("agent", "planner"):
        raise asyncio.CancelledError
    assert out.getvalue() == "planner\n  stopped\n"


def test_long_arguments_and_results_are_cut() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)), span("tool", "read", inputs={"a": "x" * 999}) as tool:
        tool.outputs = {"observation": "y" * 999}
    (line,) = out.getvalue().splitlines()
    assert line.count("x") == 98 and line.count("y") == 199 and line.endswith("…")


def test_the_answer_keeps_its_lines_and_the_cost_follows() -> None:
    out = io.StringIO()
    usage = Usage(lm_calls=1_234, tool_calls=2, input_tokens=5, output_tokens=6, cost_usd=0.5)
    record = Record("r", "q", 1, 1, "t", "Q", None, None, None, "a [b]", "one\ntwo", usage=usage, wall_seconds=1.25)
    print_answer(record, Console(file=out, width=40), lambda text: text)
    assert out.getvalue() == (
        "\nanswer: a [b]\nreasoning: one\ntwo\ncalls: 1,234 to language models, 2 to tools\n"
        "tokens: 5 in, 6 out\ntime: 1.2 s\ncost: $0.5000\n"
    )


def test_an_answer_of_none_is_said() -> None:
    out = io.StringIO()
    print_answer(Record("r", "q", 1, 1, "t", "Q", None, None, None), Console(file=out, width=40), lambda text: text)
    assert out.getvalue().startswith("\nanswer: (none)\n")


def test_on_a_terminal_the_line_of_the_step_ends_and_the_cursor_is_back() -> None:
    steps, out = shown(terminal=True)
    hidden, back = "\x1b[?25l", "\x1b[?25h"
    with steps, record_trace(Trace("t", observer=steps.observe)):
        assert hidden in out.getvalue() and back not in out.getvalue()
        with span("agent", "researcher"):
            pass
    assert out.getvalue().rindex(back) > out.getvalue().rindex(hidden)
    steps, out = shown()
    with steps:
        pass
    assert out.getvalue() == ""
