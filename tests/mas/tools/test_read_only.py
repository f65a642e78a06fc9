"""What a read-only tool returned before is not looked up again: over the real agent loop."""

import asyncio
import shutil
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import dspy
import pytest

from mas.agents.react import Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.runtime.trace import Span, Trace, record_trace
from mas.systems.gaia.nodes import Research
from mas.tools.attachments import use_attachments
from mas.tools.calculator import calculator
from mas.tools.read_file import read_file
from mas.tools.read_only import is_read_only, mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import Resources, ToolSettings, TranscriptionSettings, WebSettings
from mas.tools.unit_converter import unit_converter
from tests.scripted_model import Answer, Call, ScriptedModel, answering, in_turn, tool_results

DONE: Answer = {"result": "done"}


class Kept(dict[str, str]):
    """`mas.runtime.sample_context.ReplyLog` in memory."""

    def put(self, key: str, reply: str) -> None:
        self[key] = reply


class Counter:
    """Tools that say how often they were asked: one that runs in a thread, one on the loop."""

    def __init__(self) -> None:
        self.asked = 0

    def tools(self) -> list[Callable[..., Any]]:
        @mark_read_only
        def look(up: str, twice: bool = False) -> ToolResult:
            """Look something up."""
            return self._find(up)

        @mark_read_only
        async def look_async(up: str) -> ToolResult:
            """Look something up."""
            return self._find(up)

        return [look, look_async]

    def _find(self, up: str) -> ToolResult:
        self.asked += 1
        if up == "nothing":
            raise ToolError("there is nothing to see")
        return ToolResult(f"{up}, seen {self.asked}")


def run(
    question: SampleContext, *calls: Call, tools: list[Callable[..., Any]], **settings: Any
) -> tuple[list[str], list[Span]]:
    """The observations of the calls, made one after the other, and their spans."""
    model = ScriptedModel(answering(researcher=in_turn(*([call] for call in calls), DONE)))
    predictor = dspy.Predict(Research)
    predictor.lm = model.create_lm(AgentModel())
    toolbox = Toolbox({each.__name__: dspy.Tool(each) for each in tools}, resources=Resources(ToolSettings(**settings)))
    with use_context(question), record_trace(Trace("thread")) as trace:
        asyncio.run(react(predictor, {"research_request": "find it", "file": None}, [], toolbox))
    results = tool_results(model.requests[-1][1])
    seen = ["".join(getattr(part, "text", "") for part in result.content) for result in results]
    return seen, [span for span in trace.spans if span.kind == "tool"]


def test_the_same_call_of_the_same_question_is_answered_from_what_is_kept() -> None:
    counter, log = Counter(), Kept()
    tools = counter.tools()
    calls = [Call("look", {"up": "moon"}), Call("look", {"up": "sun"}), Call("look", {"up": "moon"})]
    first, _ = run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=tools)
    assert first == ["moon, seen 1", "sun, seen 2", "moon, seen 1"]
    question = SampleContext(SampleKey("q"), tool_log=log)
    again, spans = run(question, *calls, Call("look", {"twice": False, "up": "sun"}), tools=tools)
    assert again == [*first, "sun, seen 3"], "other arguments are another call"
    assert [span.attributes.get("replayed", False) for span in spans] == [True, True, True, False]
    assert [span.outputs["observation"] for span in spans] == again
    assert (question.usage.tool_calls, counter.asked) == (4, 3), "a replayed call counts"


def test_a_failure_is_not_kept() -> None:
    counter, log = Counter(), Kept()
    for _ in range(2):
        question = SampleContext(SampleKey("q"), tool_log=log)
        observations, spans = run(question, Call("look", {"up": "nothing"}), tools=counter.tools())
        assert observations == ["look failed: there is nothing to see"]
        assert "replayed" not in spans[0].attributes
    assert (counter.asked, log) == (2, {})


def test_what_is_read_without_a_program_or_key_is_read_again_with_it_and_the_contact_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter, log, sounds = Counter(), Kept(), TranscriptionSettings("whisper-1")

    def look(contact: str = "") -> str:
        question = SampleContext(SampleKey("q"), tool_log=log)
        settings = {"transcription": sounds, "web": WebSettings(contact=contact)}
        return run(question, Call("look", {"up": "moon"}), tools=counter.tools(), **settings)[0][0]

    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert [look(), look("me@example.org")] == ["moon, seen 1"] * 2
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert [look(), look()] == ["moon, seen 2"] * 2
    monkeypatch.setenv("OPENAI_API_KEY", "of nobody")
    assert look() == "moon, seen 3"


def test_the_tools_that_only_look_are_marked_and_stay_so_behind_a_decorator(tmp_path: Path) -> None:
    @wraps(calculator)
    def decorated(expression: str) -> str:
        return calculator(expression)

    assert all(map(is_read_only, (calculator, unit_converter, read_file, decorated)))
    assert not is_read_only(print)
    (tmp_path / "towns.csv").write_text("town\nRome\n")
    calls = [
        Call("calculator", {"expression": "2+2"}),
        Call("unit_converter", {"quantity": "1 km", "to_unit": "m"}),
        Call("read_file", {"file": "towns.csv"}),
    ]
    log, tools = Kept(), [calculator, unit_converter, read_file]
    with use_attachments([tmp_path / "towns.csv"]):
        first, _ = run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=tools)
        again, spans = run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=tools)
    assert again == first and "Rome" in first[2]
    assert all(span.attributes["replayed"] for span in spans)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/towns.csv").write_text("town\nOslo\n")
    with use_attachments([tmp_path / "other/towns.csv"]):
        other, _ = run(SampleContext(SampleKey("r"), tool_log=log), calls[2], tools=tools)
    assert "Oslo" in other[0], "another question's file of the same name"
