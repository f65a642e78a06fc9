"""Spans of a module: what is recorded of its predictors, tools and own models, and below which span."""

import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import dspy
import pytest
from dspy.utils.dummies import DummyLM

from mas.llm.agent_lm import AgentLM
from mas.runtime.trace import Trace, current_thread_id, record_trace, span
from mas.systems.external.dspy_spans import MAX_OBSERVATION_CHARS, PredictorSpans

Row = tuple[str, str, int | None, dict[str, Any], dict[str, Any], str | None, bool]


class Program(dspy.Module):
    """Module with a predictor of its own, one in a list, and one in a part that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("question, file -> notes")
        self.steps = [dspy.Predict("notes -> answer")]
        self.part = dspy.ChainOfThought("notes -> answer")
        self.part._compiled = True


def rows(trace: Trace) -> list[Row]:
    return [
        (each.kind, each.name, each.parent, each.inputs, each.outputs, each.error, each.end_seconds is not None)
        for each in trace.spans
    ]


def record(work: Callable[[PredictorSpans, Program], object]) -> list[Row]:
    """What the work leaves in a trace; the work is in a context of its own."""

    def run() -> list[Row]:
        module = Program()
        with record_trace(Trace("t")) as trace:
            assert current_thread_id() == "t"
            work(PredictorSpans(module), module)
        return rows(trace)

    return contextvars.copy_context().run(run)


def test_a_predictor_is_recorded_under_its_name_with_its_fields_alone() -> None:
    def work(spans: PredictorSpans, module: Program) -> None:
        given = {"question": "?", "file": None, "config": {}}
        spans.on_module_start("1", module, {"kwargs": given})  # a module is no predictor
        spans.on_module_start("2", module.draft, {"kwargs": given})
        spans.on_module_end("2", dspy.Prediction(notes="six"), None)
        spans.on_module_end("1", dspy.Prediction(answer="42"), None)
        spans.on_module_start("3", module.steps[0], {"kwargs": None})
        spans.on_module_end("3", "no prediction")
        spans.on_module_start("4", module.part.predict, {})
        spans.on_module_end("4", None, ValueError("bad reply"))
        spans.on_module_end("4", dspy.Prediction(answer="42"), None)  # has ended
        spans.on_module_start("5", dspy.Predict("a -> b"), {"kwargs": {"a": 1}})
        spans.on_module_end("5", dspy.Prediction(b="2"), None)

    assert record(work) == [
        ("agent", "draft", None, {"question": "?", "file": None}, {"notes": "six"}, None, True),
        ("agent", "steps[0]", None, {}, {}, None, True),
        ("agent", "part.predict", None, {}, {}, "ValueError: bad reply", True),
        ("agent", "unnamed predictor", None, {"a": 1}, {"b": "2"}, None, True),
    ]


def test_a_predictor_on_its_own_has_dspys_name() -> None:
    def run() -> list[str]:
        alone = dspy.Predict("a -> b")
        with record_trace(Trace("t")) as trace:
            PredictorSpans(alone).on_module_start("1", alone, {})
        return [each.name for each in trace.spans]

    assert contextvars.copy_context().run(run) == ["self"]


def test_a_model_of_the_programs_own_is_recorded_below_its_predictor() -> None:
    long = "x" * (MAX_OBSERVATION_CHARS + 1)

    def work(spans: PredictorSpans, module: Program) -> None:
        own = DummyLM([{"answer": "42"}])
        messages = [{"role": "user", "content": "?"}]
        spans.on_module_start("1", module.draft, {"kwargs": {"question": "?"}})
        spans.on_lm_start("2", own, {"prompt": None, "messages": messages, "kwargs": {"n": 1}})
        spans.on_lm_end("2", ["six"], None)
        spans.on_lm_start("3", own, {"prompt": "?", "messages": None})
        spans.on_lm_end("3", None, ValueError("no key"))
        spans.on_lm_end("3", ["six"], None)  # has ended
        spans.on_module_end("1", dspy.Prediction(notes="six"), None)
        spans.on_lm_start("4", own, {})
        spans.on_lm_end("4", long, None)
        spans.on_lm_start("5", "no model", {})
        spans.on_lm_start("6", object.__new__(AgentLM), {"prompt": "?"})  # records its own calls
        spans.on_lm_end("6", ["six"], None)

    assert record(work) == [
        ("agent", "draft", None, {"question": "?"}, {"notes": "six"}, None, True),
        ("lm", "dummy", 0, {"messages": [{"role": "user", "content": "?"}]}, {"text": "['six']"}, None, True),
        ("lm", "dummy", 0, {"prompt": "?"}, {}, "ValueError: no key", True),
        ("lm", "dummy", None, {}, {"text": long[:-1]}, None, True),
    ]


@pytest.fixture
def tool() -> Iterator[dspy.Tool]:
    yield dspy.Tool(lambda city: city, name="search")


def test_a_tool_is_recorded_below_the_last_predictor_of_the_module_that_calls_it(tool: dspy.Tool) -> None:
    long = "x" * (MAX_OBSERVATION_CHARS + 1)

    def work(spans: PredictorSpans, module: Program) -> None:
        other = dspy.Module()
        with dspy.context(caller_modules=[other, module]):
            spans.on_tool_start("1", tool, {"kwargs": {"city": "Rome"}})  # before any predictor
            spans.on_tool_end("1", 5, None)
            for number, predictor in enumerate((module.draft, module.steps[0])):
                spans.on_module_start(f"2{number}", predictor, {})
                spans.on_module_end(f"2{number}", dspy.Prediction(), ValueError("bad") if number else None)
            spans.on_tool_start("3", tool, {"kwargs": {"city": "Oslo"}})
            spans.on_tool_end("3", long, None)
        with dspy.context(caller_modules=[module, other]), span("step", "outer"):
            spans.on_tool_start("4", tool, {"kwargs": "no mapping"})
            spans.on_tool_end("4", "lost", LookupError("no such city"))
            spans.on_tool_end("4", "found", None)  # has ended
        with dspy.context(caller_modules=[]):
            spans.on_module_start("5", module.draft, {})
            spans.on_module_end("5", None, None)  # nobody called it: it is nobody's last predictor
            spans.on_tool_start("6", tool, {})
            spans.on_tool_end("6", None, None)
        with dspy.context(caller_modules=[module]):
            spans.on_tool_start("7", tool, {})
            spans.on_tool_end("7", None, None)

    none = {"observation": "None"}
    assert record(work) == [
        ("tool", "search", None, {"city": "Rome"}, {"observation": "5"}, None, True),
        ("agent", "draft", None, {}, {}, None, True),
        ("agent", "steps[0]", None, {}, {}, "ValueError: bad", True),
        ("tool", "search", 2, {"city": "Oslo"}, {"observation": long[:-1]}, None, True),
        ("step", "outer", None, {}, {}, None, True),
        ("tool", "search", 4, {}, {}, "LookupError: no such city", True),
        ("agent", "draft", None, {}, {}, None, True),
        ("tool", "search", None, {}, none, None, True),
        ("tool", "search", 2, {}, none, None, True),
    ]


def test_what_is_no_work_of_a_tool_is_not_recorded(tool: dspy.Tool) -> None:
    def work(spans: PredictorSpans, module: Program) -> None:
        react = dspy.ReAct("question -> answer", tools=[tool])
        spans.on_tool_start("1", react.tools["finish"], {"kwargs": {}})
        spans.on_tool_end("1", "Completed.", None)
        spans.on_tool_start("2", "no tool", {"kwargs": {}})
        spans.on_tool_end("2", "text", None)
        tool.name = None
        spans.on_tool_start("3", tool, {"kwargs": {"city": "Rome"}})
        spans.on_tool_end("3", "", None)

    assert record(work) == [("tool", "tool", None, {"city": "Rome"}, {"observation": ""}, None, True)]
