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


def test_arguments_and_results_of_exactly_the_limit_are_whole() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)):
        for chars in (0, 1):
            with span("tool", "read", inputs={"a": "x" * (98 + chars)}) as tool:
                tool.outputs = {"observation": "y" * (200 + chars)}
    assert out.getvalue().splitlines() == [
        f'  read(a="{"x" * 98}") → {"y" * 200}',
        f'  read(a="{"x" * 98}…) → {"y" * 199}…',
    ]


def test_a_tool_that_returned_nothing_says_so_and_only_its_first_line_with_text_is_shown() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)):
        with span("tool", "quiet", inputs={}) as tool:
            tool.outputs = {"observation": "\n  \n"}
        with span("tool", "two", inputs={"path": object}) as tool:
            tool.outputs = {"a": " \n", "b": "first\nsecond"}
    assert out.getvalue().splitlines() == ["  quiet() → (nothing)", "  two(path=\"<class 'object'>\") → first"]


def test_the_decision_of_a_critic_is_the_first_and_has_its_colour() -> None:
    for decision, colour in (("reject", "31"), ("approve", "32")):
        steps, out = shown(terminal=True)
        with record_trace(Trace("t", observer=steps.observe)), span("agent", "critic") as critic:
            critic.outputs = {"feedback_text": "No.", "decision": decision, "empty": "", "list": ["a"]}
        lines = out.getvalue().splitlines()
        assert lines == [
            "\x1b[1;36mcritic\x1b[0m", f"\x1b[1;{colour}m  {decision}\x1b[0m", "  feedback text: No.", "  list:",
            "    1. a",
        ]  # fmt: skip


def test_failures_and_warnings_have_their_colours_on_a_terminal() -> None:
    steps, out = shown(terminal=True)
    with contextlib.suppress(ValueError), record_trace(Trace("t", observer=steps.observe)), span("agent", "expert"):
        event("odd", "warning", n=1)
        with span("tool", "add", inputs={}):
            raise ValueError("no")
    assert out.getvalue().splitlines() == [
        "\x1b[1;36mexpert\x1b[0m", "\x1b[31m  add() → failed: ValueError: no\x1b[0m", "\x1b[33m  odd: n 1\x1b[0m",
        "\x1b[31m  failed: ValueError: no\x1b[0m",
    ]  # fmt: skip


def test_the_line_of_the_step_names_the_tool_and_then_the_agent_again() -> None:
    steps, _ = shown(terminal=True)
    status = steps._status  # what it shows is drawn by a thread
    assert status is not None

    def told() -> str:
        return str(status.status)

    with record_trace(Trace("t", observer=steps.observe)), span("agent", "expert"):
        assert told() == "expert …"
        with span("other", "between"):
            assert told() == "expert …"
        with span("tool", "add", inputs={}):
            assert told() == "add …"
        assert told() == "expert …"


def test_only_agents_are_headed_and_show_what_they_said() -> None:
    steps, out = shown()
    with record_trace(Trace("t", observer=steps.observe)), span("other", "o", step_index=1) as other:
        other.outputs = {"a": "b"}
        event("odd", "warning", n=1)
    assert out.getvalue() == "  odd: n 1\n"
    with record_trace(Trace("t", observer=steps.observe)), span("agent", "a"), span("agent", "b", step_index=0):
        pass
    assert out.getvalue().splitlines()[1:] == ["a", "b, research step 1"]


def test_an_answer_is_one_line_however_narrow_the_terminal_is_and_without_secrets() -> None:
    out = io.StringIO()
    record = Record("r", "q", 1, 1, "t", "Q", None, None, None, "key " * 20, "so\x1b[31m " * 9, wall_seconds=1_234.5)
    print_answer(record, Console(file=out, width=20), lambda text: text.replace("key", "***"))
    assert out.getvalue().splitlines() == [
        "", f"answer: {'*** ' * 20}", f"reasoning: {'so [31m ' * 9}", "calls: 0 to language models, 0 to tools",
        "tokens: 0 in, 0 out", "time: 1,234.5 s", "cost: n/a",
    ]  # fmt: skip


def test_a_failure_has_no_answer_but_its_cost() -> None:
    out = io.StringIO()
    record = Record("r", "q", 1, 1, "t", "Q", None, None, None, "a", "b", error="it broke")
    print_answer(record, Console(file=out, width=80), lambda text: text)
    assert out.getvalue().splitlines()[:2] == ["", "calls: 0 to language models, 0 to tools"]
