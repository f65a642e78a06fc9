"""What a read-only tool returned before is not looked up again: over the real agent loop."""

import asyncio
import importlib
import sys
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any

import dspy
import pytest

from eval.runs.call_log import CallLog, SampleResults, ToolCache
from mas.agents.react import Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.runtime.sample_context import (
    KeptResult,
    LimitReachedError,
    SampleContext,
    SampleKey,
    SampleLimits,
    use_context,
)
from mas.runtime.trace import Span, Trace, event, record_trace
from mas.systems.gaia.nodes import Research
from mas.tools.attachments import use_attachments
from mas.tools.browser.settings import BrowserSettings
from mas.tools.calculator import calculator
from mas.tools.files import ocr, tasks
from mas.tools.files.document import Document, Part
from mas.tools.files.settings import FileSettings
from mas.tools.http.settings import WebSettings
from mas.tools.read_file import read_file
from mas.tools.read_only import (
    CachedCall,
    count_calls,
    digest_code,
    is_read_only,
    mark_read_only,
    open_cached_call,
)
from mas.tools.results import Excerpt, ToolError, ToolResult
from mas.tools.sandbox.settings import SandboxSettings
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources, use_tool_context
from mas.tools.unit_converter import unit_converter
from tests.scripted_model import Answer, Call, ScriptedModel, answering, in_turn, tool_results

DONE: Answer = {"result": "done"}


class Kept(dict[str, KeptResult]):
    """`mas.runtime.sample_context.ToolResults` in memory."""

    def find(self, key: str) -> KeptResult | None:
        return self.get(key)

    def keep(self, key: str, result: KeptResult) -> None:
        self.setdefault(key, result)


class Counter:
    """Tools that say how often they were asked."""

    def __init__(self) -> None:
        self.asked = 0

    def look(self) -> Callable[..., Any]:
        @mark_read_only
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
    tools = [counter.look()]
    calls = [Call("look", {"up": "moon"}), Call("look", {"up": "sun"}), Call("look", {"up": "moon"})]
    first, _ = run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=tools)
    assert first == ["moon, seen 1", "sun, seen 2", "moon, seen 1"]
    question = SampleContext(SampleKey("q"), tool_log=log)
    again, spans = run(question, *calls, Call("look", {"twice": False, "up": "sun"}), tools=tools)
    assert again == [*first, "sun, seen 3"], "other arguments are another call"
    assert [span.attributes.get("replayed", False) for span in spans] == [True, True, True, False]
    assert [span.outputs["observation"] for span in spans] == again
    assert (question.usage.tool_calls, counter.asked) == (4, 3), "a replayed call counts"


def test_a_replayed_call_reaches_the_limit_as_well() -> None:
    log, call = Kept(), Call("look", {"up": "moon"})
    run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[Counter().look()])
    with pytest.raises(LimitReachedError, match=r"limits\.tool_calls"):
        run(
            SampleContext(SampleKey("q"), SampleLimits(tool_calls=1), tool_log=log),
            call,
            call,
            tools=[Counter().look()],
        )


def test_a_tools_own_limit_refuses_a_resumed_question_what_it_refused_before() -> None:
    log, made = Kept(), list[int]()

    def count() -> None:
        made.append(0)
        if len(made) > 2:
            raise ToolError("you have looked twice")

    @count_calls(count)
    @mark_read_only
    def look(up: str) -> str:
        """Look something up."""
        count()
        return f"{up}, seen"

    calls = [Call("look", {"up": up}) for up in ("moon", "sun", "mars")]
    told = []
    for _ in range(2):
        made.clear()
        told.append(run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=[look])[0])
    assert told[0] == told[1] == ["moon, seen", "sun, seen", "look failed: you have looked twice"]


def test_calls_side_by_side_are_told_the_same_and_so_is_a_resumed_question(tmp_path: Path) -> None:
    """Else its requests would not be those that are in the call log, and would be paid for again."""
    asked = 0

    @mark_read_only
    async def look(up: str) -> str:
        """Look something up."""
        nonlocal asked
        asked += 1
        mine = asked
        await asyncio.sleep(0)
        return f"{up}, seen {mine}"

    def told(log: Any) -> list[str]:
        model = ScriptedModel(answering(researcher=in_turn([Call("look", {"up": "moon"})] * 2, DONE)))
        predictor = dspy.Predict(Research)
        predictor.lm = model.create_lm(AgentModel())
        with use_context(SampleContext(SampleKey("q"), tool_log=log)):
            given = {"research_request": "find it", "file": None}
            asyncio.run(react(predictor, given, [], Toolbox({"look": dspy.Tool(look)})))
        return [str(result.content[0]) for result in tool_results(model.requests[-1][1])]

    with (
        closing(CallLog(tmp_path / "calls.db")) as calls,
        closing(ToolCache.open_for_run(tmp_path, "mine", str)) as results,
    ):
        for log in (results, SampleResults(calls.for_sample(SampleKey("q")))):
            first, second = told(log)
            assert first == second
            assert told(log) == [first, first]
    assert asked == 4


def test_a_failure_is_not_kept() -> None:
    counter, log = Counter(), Kept()
    for _ in range(2):
        observations, spans = run(
            SampleContext(SampleKey("q"), tool_log=log), Call("look", {"up": "nothing"}), tools=[counter.look()]
        )
        assert observations == ["look failed: there is nothing to see"]
        assert "replayed" not in spans[0].attributes
    assert (counter.asked, log) == (2, {})


def test_other_tools_are_asked_every_time_and_so_are_all_without_a_log() -> None:
    counter, log = Counter(), Kept()
    for _ in range(2):
        run(SampleContext(SampleKey("q"), tool_log=log), Call("note", {"up": "x"}), tools=[counter.note()])
        run(SampleContext(SampleKey("q")), Call("look", {"up": "x"}), tools=[counter.look()])
    assert (counter.asked, log) == (4, {})


def test_a_tool_that_does_not_exist_is_told_as_ever() -> None:
    (observation,), _ = run(SampleContext(SampleKey("q"), tool_log=Kept()), Call("gone"), tools=[Counter().look()])
    assert "there is no tool of that name" in observation


def test_the_whole_is_kept_and_cut_anew() -> None:
    log, call = Kept(), Call("look", {"up": "m" * 50})
    (short,), _ = run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[Counter().look()], max_output_chars=10)
    (whole,), _ = run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[Counter().look()])
    assert short.startswith("m" * 10 + "\n[cut: the first 10 of")
    assert whole == "m" * 50 + ", seen 1"


@pytest.mark.parametrize("odd", ["\ud83d\0", {"a": 1, "b": [None, 1.5]}, {}, [[]]])
def test_whatever_a_model_makes_up_as_an_argument_is_found_again(odd: Any) -> None:
    counter, log = Counter(), Kept()
    tools = [counter.look()]
    first, _ = run(SampleContext(SampleKey("q"), tool_log=log), Call("look", {"up": odd}), tools=tools)
    again, _ = run(SampleContext(SampleKey("q"), tool_log=log), Call("look", {"up": odd}), tools=tools)
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
    with use_attachments([tmp_path / "towns.csv"]):
        first, _ = run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=tools)
        again, spans = run(SampleContext(SampleKey("q"), tool_log=log), *calls, tools=tools)
    assert again == first and "Rome" in first[2]
    assert all(span.attributes["replayed"] for span in spans)


class Kiosk:
    """A tool that sometimes has only a makeshift to give."""

    def __init__(self) -> None:
        self.asked = 0

    def tools(self) -> list[Callable[..., Any]]:
        """One that runs in a thread, one on the loop."""

        @mark_read_only
        def look(up: str) -> str:
            """Look something up."""
            return self._found(up)

        @mark_read_only
        async def look_async(up: str) -> str:
            """Look something up."""
            await asyncio.sleep(0)
            return self._found(up)

        return [look, look_async]

    def _found(self, up: str) -> ToolResult:
        self.asked += 1
        return ToolResult(f"{up}, seen {self.asked}", is_temporary=up == "makeshift")


@pytest.mark.parametrize("name", ["look", "look_async"])
def test_what_a_tool_calls_a_makeshift_is_shown_but_not_kept(name: str) -> None:
    kiosk, log = Kiosk(), Kept()
    call = Call(name, {"up": "makeshift"})
    for number in (1, 2):
        observations, spans = run(SampleContext(SampleKey("q"), tool_log=log), call, tools=kiosk.tools())
        assert observations == [f"makeshift, seen {number}"]
        assert "replayed" not in spans[0].attributes
    assert log == {}


@pytest.mark.parametrize("name", ["look", "look_async"])
def test_a_makeshift_is_one_call_s_own_affair_also_of_those_beside_it(name: str) -> None:
    kiosk, log = Kiosk(), Kept()
    calls = [Call(name, {"up": up}) for up in ("sun", "makeshift", "moon")]
    model = ScriptedModel(answering(researcher=in_turn(calls, DONE)))
    predictor = dspy.Predict(Research)
    predictor.lm = model.create_lm(AgentModel())
    toolbox = Toolbox({each.__name__: dspy.Tool(each) for each in kiosk.tools()})
    with use_context(SampleContext(SampleKey("q"), tool_log=log)):
        asyncio.run(react(predictor, {"research_request": "find it", "file": None}, [], toolbox))
    assert sorted(each.returned.partition(",")[0] for each in log.values()) == ["moon", "sun"]


def test_what_was_noted_during_a_call_is_noted_again_when_it_is_replayed() -> None:
    log, call = Kept(), Call("look", {"up": "x"})

    @mark_read_only
    def look(up: str) -> str:
        """Look something up."""
        event("blocked page", level="warning", url="https://example.org/")
        return "seen"

    _, (first,) = run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[look])
    _, (again,) = run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[look])
    assert again.attributes["replayed"]
    without_time = [
        [{k: v for k, v in each.items() if k != "seconds"} for each in span.events] for span in (first, again)
    ]
    assert without_time[0] == without_time[1] == [
        {"name": "blocked page", "level": "warning", "url": "https://example.org/"}
    ]  # fmt: skip


def test_what_another_run_was_given_says_so_and_when() -> None:
    class Others(Kept):
        def find(self, key: str) -> KeptResult | None:
            return KeptResult("seen", other_run_at="2026-11-01T08:00:00+00:00")

    observations, (span,) = run(
        SampleContext(SampleKey("q"), tool_log=Others()), Call("look", {"up": "x"}), tools=[Counter().look()]
    )
    assert observations == ["seen"]
    assert span.attributes == {
        "cached": True, "kept_at": "2026-11-01T08:00:00+00:00", "result_kind": "computed"
    }  # fmt: skip


def test_a_picture_that_could_not_be_read_for_want_of_a_program_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Document("picture", [Part([])], [ocr.MISSING], is_incomplete=True)
    answer = tasks.Answer({"summary": missing.summary}, missing.pack())
    monkeypatch.setattr("mas.tools.read_file.read_document", lambda path, member: answer)
    (tmp_path / "sign.png").write_bytes(b"")
    log = Kept()
    with use_attachments([tmp_path / "sign.png"]):
        (shown,), _ = run(
            SampleContext(SampleKey("q"), tool_log=log), Call("read_file", {"file": "sign.png"}), tools=[read_file]
        )
    assert ocr.MISSING in shown and not log


PLAIN = """
from mas.tools.read_only import mark_read_only

@mark_read_only
def look(up: str) -> str:
    return up + {ending!r}
"""
IN_PARTS = "from mas.tools.read_only import mark_read_only\nfrom {name}.parts import look\n\nmark_read_only(look)\n"
PART = "def look(up: str) -> str:\n    return up + {ending!r}\n"
DECORATOR = """
from functools import wraps
from {name}_steady import look as steady

@wraps(steady)
def look(up: str) -> str:
    return steady(up) + {ending!r}
"""


def module(folder: Path, name: str, ending: str) -> None:
    (folder / f"{name}.py").write_text(PLAIN.format(ending=ending))


def decorator(folder: Path, name: str, ending: str) -> None:
    (folder / f"{name}.py").write_text(DECORATOR.format(name=name, ending=ending))
    module(folder, f"{name}_steady", "")


def decorated(folder: Path, name: str, ending: str) -> None:
    (folder / f"{name}.py").write_text(DECORATOR.format(name=name, ending=""))
    module(folder, f"{name}_steady", ending)


def package(folder: Path, name: str, ending: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "__init__.py").write_text(IN_PARTS.format(name=name))
    (folder / name / "parts.py").write_text(PART.format(ending=ending))
    (folder / name / ".#parts.py").unlink(missing_ok=True)
    (folder / name / ".#parts.py").symlink_to("nowhere")  # as an editor leaves it


@pytest.mark.parametrize("write", [module, package, decorator, decorated])
def test_a_tool_whose_code_was_edited_is_asked_again(
    write: Callable[[Path, str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, name = Kept(), f"tool_of_{tmp_path.name}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def seen(ending: str) -> tuple[str, bool]:
        write(tmp_path, name, ending)
        for each in [each for each in sys.modules if each.startswith(name)]:
            monkeypatch.delitem(sys.modules, each)
        importlib.invalidate_caches()
        digest_code.cache_clear()  # as in a new process
        tool = importlib.import_module(name).look
        (observation,), (span,) = run(
            SampleContext(SampleKey("q"), tool_log=log), Call("look", {"up": "moon"}), tools=[tool]
        )
        return observation, "replayed" in span.attributes

    assert [seen(", seen"), seen(", seen"), seen(", unseen"), seen(", seen")] == [
        ("moon, seen", False), ("moon, seen", True), ("moon, unseen", False), ("moon, seen", True)
    ]  # fmt: skip


def test_without_a_log_nothing_is_found_or_kept_or_counted() -> None:
    counted: list[int] = []
    call, result = CachedCall(count=lambda: counted.append(1)), ToolResult("seen")
    assert call.find() is None and call.keep(result, [{"name": "x"}]) is result
    assert call.find() is None and counted == []


def test_what_is_kept_is_the_text_with_its_events_and_facts_and_comes_back_as_the_same_result() -> None:
    log, counted = Kept(), list[int]()
    call = CachedCall(log, "key", lambda: counted.append(1))
    assert call.find() is None and counted == [], "what is not found is counted by the tool itself"
    result = ToolResult("a page", kind="web_page", excerpts=[Excerpt("u", "t", 2, 6)], truncated=True)
    events = [{"name": "blocked page"}]
    kept = call.keep(result, events)
    assert (kept, kept.describe()) == (result, result.describe()) and kept is not result
    assert log == {"key": KeptResult("a page", tuple(events), result.describe())}
    assert call.find() == log["key"] and counted == [1]
    second = CachedCall(log, "key").keep(ToolResult("another page"))
    assert (second, second.describe()) == (result, result.describe()), "the first of two stays"
    assert CachedCall(log, "key").find() == log["key"]
    makeshift = ToolResult("makeshift", is_temporary=True)
    assert CachedCall(log, "other").keep(makeshift) is makeshift and list(log) == ["key"]


def test_a_log_that_keeps_nothing_leaves_the_result_as_it_is() -> None:
    class Full(Kept):
        def keep(self, key: str, result: KeptResult) -> None:
            pass

    result = ToolResult("seen")
    assert CachedCall(Full(), "key").keep(result) is result


def find_key(
    tool: dspy.Tool | None, arguments: dict[str, object] | None = None, settings: ToolSettings | None = None
) -> str | None:
    """Return the key under which a call is kept; None if it is not kept."""
    log = Kept()
    question = SampleContext(SampleKey("q"), tool_log=log)
    with use_tool_context(Resources(settings or ToolSettings())):
        asyncio.run(open_cached_call(question, tool, {} if arguments is None else arguments)).keep(ToolResult("x"))
    return next(iter(log), None)


def test_a_call_is_found_by_its_tool_and_arguments_in_any_order() -> None:
    look, note = dspy.Tool(Counter().look()), dspy.Tool(Counter().note())
    key = find_key(look, {"up": "x", "twice": True})
    assert key is not None and len(key) == 64
    assert find_key(look, {"twice": True, "up": "x"}) == key
    others: list[dict[str, object]] = [{"up": "x", "twice": False}, {"up": "y", "twice": True}, {"up": "x"}, {}]
    renamed = find_key(dspy.Tool(Counter().look(), name="other"), {"up": "x", "twice": True})
    assert len({key, renamed, *(find_key(look, each) for each in others)}) == 6
    assert find_key(note, {"up": "x"}) is None and find_key(None) is None
    assert asyncio.run(open_cached_call(None, look, {})).find() is None
    assert asyncio.run(open_cached_call(SampleContext(SampleKey("q")), look, {})).find() is None


def test_settings_of_pace_and_length_leave_the_key_and_those_of_what_is_found_change_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    tool = dspy.Tool(Counter().look())
    key = find_key(tool)
    without_effect: list[ToolSettings] = [
        ToolSettings(fail_fast=not ToolSettings().fail_fast),
        ToolSettings(max_output_chars=7),
        ToolSettings(browser=BrowserSettings(max_sessions=1)),
        ToolSettings(sandbox=SandboxSettings(memory_mb=256)),
        ToolSettings(web=WebSettings(attempts=1)),
        ToolSettings(web=WebSettings(max_retry_after_seconds=1)),
        ToolSettings(web=WebSettings(contact="a@example.org")),
        ToolSettings(web=WebSettings(search_requests_per_minute=1)),
        ToolSettings(web=WebSettings(wikipedia_requests_per_minute=1)),
        ToolSettings(web=WebSettings(youtube_requests_per_minute=1)),
        ToolSettings(web=WebSettings(pages_per_minute_and_host=1)),
        ToolSettings(web=WebSettings(max_searches_per_question=1)),
    ]
    assert {find_key(tool, settings=each) for each in without_effect} == {key}
    with_effect = [
        ToolSettings(files=FileSettings("deu")),
        ToolSettings(web=WebSettings(seconds=1)),
        ToolSettings(web=WebSettings(max_bytes=1)),
        ToolSettings(web=WebSettings(search_results=1)),
        ToolSettings(web=WebSettings(wikipedia_language="de")),
        ToolSettings(web=WebSettings(fall_back_to_wikipedia=False)),
    ]
    assert len({key, *(find_key(tool, settings=each) for each in with_effect)}) == 7
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-canary-0123")
    with_a_key = find_key(tool)
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-canary-4567")
    assert with_a_key != key and find_key(tool) == with_a_key, "that there is a key matters, not which"
