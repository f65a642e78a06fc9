"""What a read-only tool returned before is not looked up again: over the real agent loop."""

import asyncio
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import dspy
import pytest

from mas.gaia.signatures import Research
from mas.llm.model import AgentModel
from mas.question import LimitReachedError, Question, QuestionLimits, Sample, at_work
from mas.react import Toolbox, react
from mas.tools.attachments import attached
from mas.tools.calculator import calculator
from mas.tools.errors import ToolError
from mas.tools.read_file import read_file
from mas.tools.read_only import is_read_only, not_to_be_kept, read_only
from mas.tools.settings import ToolSettings
from mas.tools.unit_converter import unit_converter
from mas.tracing.trace import Span, Trace, recording
from tests.scripted_model import Answer, Call, ScriptedModel, answering, in_turn, tool_results

DONE: Answer = {"result": "done"}


class Kept(dict[str, str]):
    """`mas.question.Replies` in memory."""

    def put(self, key: str, reply: str) -> None:
        self[key] = reply


class Counter:
    """Tools that say how often they were asked."""

    def __init__(self) -> None:
        self.asked = 0

    def look(self) -> Callable[..., Any]:
        @read_only
        def look(up: Any, twice: bool = False) -> str:
            """Look something up."""
            self.asked += 1
            if up == "nothing":
                raise ToolError("there is nothing to see")
            return f"{up}, seen {self.asked}"

        return look

    def note(self) -> Callable[..., Any]:
        def note(up: str) -> str:
            """Write something down."""
            self.asked += 1
            return f"{up}, noted {self.asked}"

        return note


def run(
    question: Question, *calls: Call, tools: list[Callable[..., Any]], **settings: Any
) -> tuple[list[str], list[Span]]:
    """The observations of the calls, made one after the other, and their spans."""
    model = ScriptedModel(answering(researcher=in_turn(*([call] for call in calls), DONE)))
    predictor = dspy.Predict(Research)
    predictor.lm = model.lm(AgentModel())
    toolbox = Toolbox({each.__name__: dspy.Tool(each) for each in tools}, settings=ToolSettings(**settings))
    with at_work(question), recording(Trace("thread")) as trace:
        asyncio.run(react(predictor, {"research_request": "find it", "file": None}, [], toolbox))
    results = tool_results(model.requests[-1][1])
    seen = ["".join(getattr(part, "text", "") for part in result.content) for result in results]
    return seen, [span for span in trace.spans if span.kind == "tool"]


def test_the_same_call_of_the_same_question_is_answered_from_what_is_kept() -> None:
    counter, log = Counter(), Kept()
    tools = [counter.look()]
    calls = [Call("look", {"up": "moon"}), Call("look", {"up": "sun"}), Call("look", {"up": "moon"})]
    first, _ = run(Question(Sample("q"), tool_log=log), *calls, tools=tools)
    assert first == ["moon, seen 1", "sun, seen 2", "moon, seen 1"]
    question = Question(Sample("q"), tool_log=log)
    again, spans = run(question, *calls, Call("look", {"twice": False, "up": "sun"}), tools=tools)
    assert again == [*first, "sun, seen 3"], "other arguments are another call"
    assert [span.attributes.get("replayed", False) for span in spans] == [True, True, True, False]
    assert [span.outputs["observation"] for span in spans] == again
    assert (question.tool_calls, counter.asked) == (4, 3), "a replayed call counts"


def test_a_replayed_call_reaches_the_limit_as_well() -> None:
    log, call = Kept(), Call("look", {"up": "moon"})
    run(Question(Sample("q"), tool_log=log), call, tools=[Counter().look()])
    with pytest.raises(LimitReachedError, match=r"limits\.tool_calls"):
        run(Question(Sample("q"), QuestionLimits(tool_calls=1), tool_log=log), call, call, tools=[Counter().look()])


def test_a_failure_is_not_kept() -> None:
    counter, log = Counter(), Kept()
    for _ in range(2):
        observations, spans = run(
            Question(Sample("q"), tool_log=log), Call("look", {"up": "nothing"}), tools=[counter.look()]
        )
        assert observations == ["look failed: there is nothing to see"]
        assert "replayed" not in spans[0].attributes
    assert (counter.asked, log) == (2, {})


def test_other_tools_are_asked_every_time_and_so_are_all_without_a_log() -> None:
    counter, log = Counter(), Kept()
    for _ in range(2):
        run(Question(Sample("q"), tool_log=log), Call("note", {"up": "x"}), tools=[counter.note()])
        run(Question(Sample("q")), Call("look", {"up": "x"}), tools=[counter.look()])
    assert (counter.asked, log) == (4, {})


def test_a_tool_that_does_not_exist_is_told_as_ever() -> None:
    (observation,), _ = run(Question(Sample("q"), tool_log=Kept()), Call("gone"), tools=[Counter().look()])
    assert "there is no tool of that name" in observation


def test_the_whole_is_kept_and_cut_anew() -> None:
    log, call = Kept(), Call("look", {"up": "m" * 50})
    (short,), _ = run(Question(Sample("q"), tool_log=log), call, tools=[Counter().look()], max_output_chars=10)
    (whole,), _ = run(Question(Sample("q"), tool_log=log), call, tools=[Counter().look()])
    assert short.startswith("m" * 10 + "\n[cut: the first 10 of")
    assert whole == "m" * 50 + ", seen 1"


@pytest.mark.parametrize("odd", ["\ud83d\0", {"a": 1, "b": [None, 1.5]}, {}, [[]]])
def test_whatever_a_model_makes_up_as_an_argument_is_found_again(odd: Any) -> None:
    counter, log = Counter(), Kept()
    tools = [counter.look()]
    first, _ = run(Question(Sample("q"), tool_log=log), Call("look", {"up": odd}), tools=tools)
    again, _ = run(Question(Sample("q"), tool_log=log), Call("look", {"up": odd}), tools=tools)
    assert (first, counter.asked) == (again, 1)


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
    with attached([tmp_path / "towns.csv"]):
        first, _ = run(Question(Sample("q"), tool_log=log), *calls, tools=tools)
    (tmp_path / "towns.csv").unlink()
    again, spans = run(Question(Sample("q"), tool_log=log), *calls, tools=tools)
    assert again == first and "Rome" in first[2]
    assert all(span.attributes["replayed"] for span in spans)


class Kiosk:
    """A tool that sometimes has only a makeshift to give."""

    def __init__(self) -> None:
        self.asked = 0

    def tools(self) -> list[Callable[..., Any]]:
        """One that runs in a thread, one on the loop."""

        @read_only
        def look(up: str) -> str:
            """Look something up."""
            return self._found(up)

        @read_only
        async def look_async(up: str) -> str:
            """Look something up."""
            await asyncio.sleep(0)
            return self._found(up)

        return [look, look_async]

    def _found(self, up: str) -> str:
        self.asked += 1
        if up == "makeshift":
            not_to_be_kept()
        return f"{up}, seen {self.asked}"


@pytest.mark.parametrize("name", ["look", "look_async"])
def test_what_a_tool_calls_a_makeshift_is_shown_but_not_kept(name: str) -> None:
    kiosk, log = Kiosk(), Kept()
    call = Call(name, {"up": "makeshift"})
    for number in (1, 2):
        observations, spans = run(Question(Sample("q"), tool_log=log), call, tools=kiosk.tools())
        assert observations == [f"makeshift, seen {number}"]
        assert "replayed" not in spans[0].attributes
    assert log == {}


@pytest.mark.parametrize("name", ["look", "look_async"])
def test_a_makeshift_is_one_call_s_own_affair_also_of_those_beside_it(name: str) -> None:
    kiosk, log = Kiosk(), Kept()
    calls = [Call(name, {"up": up}) for up in ("sun", "makeshift", "moon")]
    model = ScriptedModel(answering(researcher=in_turn(calls, DONE)))
    predictor = dspy.Predict(Research)
    predictor.lm = model.lm(AgentModel())
    toolbox = Toolbox({each.__name__: dspy.Tool(each) for each in kiosk.tools()})
    with at_work(Question(Sample("q"), tool_log=log)):
        asyncio.run(react(predictor, {"research_request": "find it", "file": None}, [], toolbox))
    assert sorted(text.partition(",")[0] for text in log.values()) == ["moon", "sun"]


def test_outside_a_call_it_means_nothing() -> None:
    not_to_be_kept()
