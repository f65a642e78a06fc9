"""The tool-using agent over real predictors and adapters: what happens to each kind of tool call."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from mas.agents.react import NO_MORE_TOOLS, Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.runtime.lm_errors import StepLimitError
from mas.runtime.sample_context import (
    LimitReachedError,
    SampleContext,
    SampleKey,
    SampleLimits,
    use_context,
)
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.nodes import Research
from mas.tools.attachments import use_attachments
from mas.tools.read_file import read_file
from mas.tools.settings import Resources, ToolSettings, get_settings
from tests.patience import PATIENCE_SECONDS
from tests.scripted_model import (
    UNREADABLE,
    Answer,
    Call,
    ScriptedModel,
    all_text,
    answering,
    in_turn,
    said,
    tool_results,
)

DONE: Answer = {"result": "done"}
MEETING_SECONDS = PATIENCE_SECONDS  # how long a tool waits for the other one before the test fails


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def explode(fuse: str = "short") -> str:
    """Never works."""
    raise ValueError(f"the {fuse} fuse burnt down")


def box(*functions: Callable[..., Any], max_steps: int = 10, **settings: Any) -> Toolbox:
    tools = {function.__name__: dspy.Tool(function) for function in functions}
    return Toolbox(tools, max_steps, Resources(ToolSettings(**settings)))


class Outcome:
    def __init__(self, model: ScriptedModel, toolbox: Toolbox) -> None:
        predictor = dspy.Predict(Research)
        predictor.lm = model.create_lm(AgentModel())
        inputs = {"research_request": "find it", "file": None}
        self.model = model
        self.turns, self.prediction = asyncio.run(react(predictor, inputs, [], toolbox))

    @property
    def observations(self) -> list[str]:
        """What the model was shown of its tools' results, in the last request."""
        last = self.model.requests[-1][1]
        if results := tool_results(last):
            return ["".join(getattr(part, "text", "") for part in result.content) for result in results]
        texts = [text.partition("\n\nRespond with ")[0] for role, text in said(last) if role == "user"]
        shown = [re.split(r"(?:\A|\n\n)Result of \w+:\n", text)[1:] for text in texts]
        return [result for results in shown for result in results]


def run(*answers: Answer, toolbox: Toolbox, native_tools: bool = True) -> Outcome:
    return Outcome(ScriptedModel(answering(researcher=in_turn(*answers)), native_tools=native_tools), toolbox)


both_ways = pytest.mark.parametrize("native_tools", [True, False], ids=["native", "text"])


@both_ways
def test_a_call_is_answered_and_the_agent_goes_on(native_tools: bool) -> None:
    outcome = run([Call("add", {"a": 2, "b": 3})], DONE, toolbox=box(add), native_tools=native_tools)
    assert outcome.observations == ["5"]
    assert outcome.prediction.result == "done"
    assert len(outcome.model.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "add", "arguments": {"a": 2, "b": 3}}',
        'I call it.\n```json\n{"tool": "add", "args": {"a": 2, "b": 3}}\n```',
        '[[ ## result ## ]]\n{"name": "add", "arguments": "{\\"a\\": 2, \\"b\\": 3}"}\n\n[[ ## completed ## ]]',
        '<tool_call>\n{{"name": "add", "arguments": {{"a": 2, "b": 3}}}}\n</tool_call>',
        '```json\n{"tool": "add", "args": {"a": 2, "b": 3}}\n```\nIt is [[ ## result ## ]]\n7\n[[ ## completed ## ]]',
        '{"tool": "add", "a": 2, "b": 3}',
        '{"tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}]}',
        "<tool_call><function=add><parameter=a>\n2\n</parameter><parameter=b>3</parameter></function></tool_call>",
        '<invoke name="add"><parameter name="a">2</parameter><parameter name="b">3</parameter></invoke>',
    ],
    ids=["json", "fenced", "as the answer", "hermes", "before a made-up answer", "flat", "openai", "qwen", "anthropic"],
)
@both_ways
def test_a_call_written_into_the_text_is_made(text: str, native_tools: bool) -> None:
    outcome = run(text, DONE, toolbox=box(add), native_tools=native_tools)
    assert (outcome.observations, outcome.prediction.result) == (["5"], "done")


@pytest.mark.parametrize(
    "result", ['add them: {"name": "add", "arguments": {}}', '{"name": "subtract", "arguments": {"a": 2}}', '{"a": 2}']
)
def test_an_answer_that_only_looks_like_a_call_is_an_answer(result: str) -> None:
    outcome = run({"result": result}, toolbox=box(add))
    assert outcome.prediction.result == result


@both_ways
def test_a_tool_for_attachments_is_offered_only_with_an_attachment(native_tools: bool, tmp_path: Path) -> None:
    def offered(*files: Path) -> list[str]:
        with use_attachments(files):
            model = run(DONE, toolbox=box(add, read_file), native_tools=native_tools).model
        return [name for name in ("add", "read_file") if f"- {name}(" in all_text(model.requests[0][1])] or [
            tool.name for tool in model.requests[0][1].tools
        ]

    assert offered() == ["add"]
    assert offered(tmp_path / "towns.csv") == ["add", "read_file"]


def test_tools_as_text_are_listed_with_their_arguments() -> None:
    def look(place: str, pages: list[int], filters: dict[str, str] | None = None, kind: Literal["a", "b"] = "a") -> str:
        """Look around.

        place: where to look.
        """
        return place

    model = run(DONE, toolbox=box(look), native_tools=False).model
    listed = all_text(model.requests[0][1]).partition("Your tools are:\n\n")[2]
    assert listed.startswith(
        '- look(place: str, pages: list[int], filters?: dict, kind?: "a" | "b")\n'
        "Look around.\n\nplace: where to look.\n"
    )


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async tools", "blocking tools"])
def test_a_tool_sees_the_settings_of_its_toolbox(asynchronous: bool) -> None:
    seen: list[float] = []

    def look() -> str:
        """Look around."""
        seen.append(get_settings(ToolSettings).web.seconds)
        return "looked"

    async def look_async() -> str:
        look()
        return "looked"

    settings = ToolSettings()
    settings.web.seconds = 3
    tool = dspy.Tool(look_async if asynchronous else look, name="look")
    outcome = run([Call("look"), Call("look")], DONE, toolbox=Toolbox({"look": tool}, 10, Resources(settings)))
    assert outcome.observations == ["looked", "looked"]
    assert seen == [3, 3]
    assert get_settings(ToolSettings) == ToolSettings(), "nothing of it is left behind"


def test_native_and_text_tools_lead_to_the_same_conversation() -> None:
    script = [Call("add", {"a": 2, "b": 3}), Call("explode"), Call("nothing")], [Call("add", {"a": 1, "b": 1})], DONE
    native, text = (run(*script, toolbox=box(add, explode), native_tools=native) for native in (True, False))
    assert native.observations == text.observations
    assert native.prediction.result == text.prediction.result

    def without_ids(outcome: Outcome) -> list[Any]:
        return [[(call.name, call.args) for call in turn["tool_calls"].tool_calls] for turn in outcome.turns]

    assert without_ids(native) == without_ids(text)
    assert len(native.model.requests) == len(text.model.requests) == 3


def test_text_tools_put_nothing_native_on_the_wire() -> None:
    outcome = run([Call("add", {"a": 2, "b": 3})], DONE, toolbox=box(add), native_tools=False)
    for _, request in outcome.model.requests:
        assert request.tools == ()
        assert {role for role, _ in said(request)} <= {"user", "assistant"}


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async tools", "blocking tools"])
def test_the_calls_of_one_reply_run_side_by_side(asynchronous: bool) -> None:
    """Each tool returns only once the other one has started."""
    started = {"left": threading.Event(), "right": threading.Event()}

    def meet_blocking(side: str, other: str) -> str:
        started[side].set()
        return "met" if started[other].wait(MEETING_SECONDS) else "nobody came"

    async def meet_async(side: str, other: str) -> str:
        return await asyncio.to_thread(meet_blocking, side, other)

    tool = dspy.Tool(meet_async if asynchronous else meet_blocking, name="meet")
    calls = [Call("meet", {"side": "left", "other": "right"}), Call("meet", {"side": "right", "other": "left"})]
    assert run(calls, DONE, toolbox=Toolbox({"meet": tool})).observations == ["met", "met"]


@both_ways
def test_each_result_is_that_of_its_call_whichever_comes_first(native_tools: bool) -> None:
    is_second_over = threading.Event()

    def look(name: str) -> str:
        if name == "first":
            is_second_over.wait(MEETING_SECONDS)
            time.sleep(0.05)
        else:
            is_second_over.set()
        return f"{name} seen"

    calls = [Call("look", {"name": "first"}), Call("look", {"name": "second"})]
    outcome = run(calls, DONE, toolbox=box(look), native_tools=native_tools)
    assert outcome.observations == ["first seen", "second seen"]


FAILING_CALLS = {
    "unknown tool": (Call("subtract", {"a": 1}), ["subtract failed", "no tool of that name", "add, explode"]),
    "raising tool": (Call("explode", {"fuse": "long"}), ["explode failed", "the long fuse burnt down"]),
    "missing argument": (Call("add", {"a": 1}), ["add failed", "'b'"]),
    "unknown argument": (Call("add", {"a": 1, "b": 2, "c": 3}), ["add failed", "c"]),
    "wrong type": (Call("add", {"a": "one", "b": 2}), ["add failed", "a"]),
    "argument named like ours": (Call("add", {"self": 1, "func": 2}), ["add failed"]),
}


@both_ways
@pytest.mark.parametrize("case", FAILING_CALLS)
def test_a_failed_call_becomes_an_observation_that_names_tool_and_cause(case: str, native_tools: bool) -> None:
    call, parts = FAILING_CALLS[case]
    trace = Trace("thread")
    with record_trace(trace):
        outcome = run([call], DONE, toolbox=box(add, explode), native_tools=native_tools)
    (observation,) = outcome.observations
    assert [part for part in parts if part not in observation] == []
    assert outcome.prediction.result == "done"
    (span,) = [span for span in trace.spans if span.kind == "tool"]
    assert span.name == call.name and span.error


def test_with_fail_fast_a_failure_keeps_its_cause() -> None:
    def look_up() -> str:
        """Look up."""
        try:
            return str({}["key"])
        except KeyError as error:
            raise ValueError("not found") from error

    with pytest.raises(ValueError, match="not found") as raised:
        run([Call("look_up")], DONE, toolbox=box(look_up, fail_fast=True))
    assert isinstance(raised.value.__cause__, KeyError)


def test_with_fail_fast_the_first_failure_ends_it() -> None:
    with pytest.raises(ValueError, match="the short fuse burnt down"):
        run([Call("explode")], DONE, toolbox=box(explode, fail_fast=True))
    with pytest.raises(LookupError, match="no tool of that name"):
        run([Call("subtract")], DONE, toolbox=box(explode, fail_fast=True))


@both_ways
def test_at_the_last_step_the_agent_is_told_and_may_still_answer(native_tools: bool) -> None:
    call = [Call("add", {"a": 1, "b": 1})]
    outcome = run(call, call, DONE, toolbox=box(add, max_steps=2), native_tools=native_tools)
    assert outcome.observations == ["2", "2" + NO_MORE_TOOLS]
    assert "next tool call" not in said(outcome.model.requests[-1][1])[-1][1]
    assert outcome.prediction.result == "done"


@both_ways
def test_an_agent_that_goes_on_after_its_last_step_is_stopped(native_tools: bool) -> None:
    model = ScriptedModel(answering(researcher=[Call("add", {"a": 1, "b": 1})]), native_tools=native_tools)
    with pytest.raises(StepLimitError, match="no answer after 3 steps"):
        Outcome(model, box(add, max_steps=3))
    assert len(model.requests) == 4


def test_calls_without_an_id_get_one_each_through_the_whole_conversation() -> None:
    calls = [Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4})]
    outcome = run(calls, calls, DONE, toolbox=box(add), native_tools=False)
    ids = [call.id for turn in outcome.turns for call in turn["tool_calls"].tool_calls]
    assert len(ids) == 4 and len(set(ids)) == 4 and all(ids)


@both_ways
def test_lone_surrogates_from_a_tool_are_replaced(native_tools: bool) -> None:
    def broken() -> str:
        return "a\ud83db"

    def breaks() -> str:
        raise ValueError("c\ud83dd")

    outcome = run([Call("broken"), Call("breaks")], DONE, toolbox=box(broken, breaks), native_tools=native_tools)
    assert outcome.observations == ["a?b", "breaks failed: c?d"]
    all_text(outcome.model.requests[-1][1]).encode()


@both_ways
def test_neither_call_nor_answer_is_a_reply_that_cannot_be_used(native_tools: bool) -> None:
    with pytest.raises(AdapterParseError, match="called no tool and gave no result"):
        run({"result": ""}, toolbox=box(add), native_tools=native_tools)
    with pytest.raises(AdapterParseError):
        run(UNREADABLE, toolbox=box(add), native_tools=native_tools)


@both_ways
def test_an_agent_without_tools_just_answers(native_tools: bool) -> None:
    outcome = run(DONE, toolbox=Toolbox(), native_tools=native_tools)
    assert outcome.prediction.result == "done"
    assert "tool" not in all_text(outcome.model.requests[0][1])


def test_a_tool_call_too_many_ends_the_question_and_none_of_its_turn_runs() -> None:
    ran: list[str] = []

    def note(word: str) -> str:
        """Note a word."""
        ran.append(word)
        return word

    question = SampleContext(SampleKey("q"), SampleLimits(tool_calls=2))
    first, second = [Call("note", {"word": "a"})], [Call("note", {"word": "b"}), Call("note", {"word": "c"})]
    with use_context(question), pytest.raises(LimitReachedError, match=r"limits\.tool_calls"):
        run(first, second, DONE, toolbox=box(note))
    assert (ran, question.usage.tool_calls) == (["a"], 2)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_limit_reached_inside_a_tool_is_no_observation(asynchronous: bool) -> None:
    def ask_a_model() -> str:
        """Ask."""
        raise LimitReachedError("lm_calls", "the question has used its 3 calls")

    async def ask_a_model_in_turn() -> str:
        """Ask."""
        return ask_a_model()

    tool = ask_a_model_in_turn if asynchronous else ask_a_model
    with pytest.raises(LimitReachedError):
        run([Call(tool.__name__)], DONE, toolbox=box(tool))


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_call_that_ends_the_question_cancels_the_other_calls_of_its_turn(fail_fast: bool) -> None:
    meeting, cancelled = asyncio.Event(), []

    async def wait() -> str:
        """Wait."""
        meeting.set()
        try:
            await asyncio.sleep(MEETING_SECONDS)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # the others are awaited, not only cancelled
            cancelled.append("wait")
            raise
        return "over"

    async def end() -> str:
        """End."""
        await meeting.wait()
        raise ValueError("broken") if fail_fast else LimitReachedError("lm_calls", "the question has used its 3 calls")

    async def ask() -> list[str]:
        predictor = dspy.Predict(Research)
        predictor.lm = ScriptedModel(answering(researcher=in_turn([Call("wait"), Call("end")]))).create_lm(AgentModel())
        inputs = {"research_request": "find it", "file": None}
        with pytest.raises(ValueError if fail_fast else LimitReachedError):
            await react(predictor, inputs, [], box(wait, end, fail_fast=fail_fast))
        return list(cancelled)

    assert asyncio.run(ask()) == ["wait"]


@pytest.mark.parametrize(
    "text",
    ["[[ ## result ## ]]: 42\n[[ ## completed ## ]]:", "[[ ## result ## ]] = 42", '```json\n{"result": 42}\n```'],
)
@both_ways
def test_an_answer_is_read_as_small_models_write_it(text: str, native_tools: bool) -> None:
    assert run(text, toolbox=box(add), native_tools=native_tools).prediction.result == "42"


@both_ways
def test_a_reply_that_copies_the_form_is_no_answer(native_tools: bool) -> None:
    copied = "[[ ## result ## ]]\n...\n\n[[ ## completed ## ]]"
    outcome = run(copied, DONE, toolbox=box(add), native_tools=native_tools)
    assert outcome.prediction.result == "done"


@both_ways
def test_an_agent_that_makes_the_same_call_again_and_again_must_answer(native_tools: bool) -> None:
    call: Answer = [Call("explode")]
    outcome = run(
        call, [Call("add", {"a": 1, "b": 1})], call, call, DONE, toolbox=box(add, explode), native_tools=native_tools
    )
    assert [NO_MORE_TOOLS in each for each in outcome.observations] == [False, False, False, True]
    with pytest.raises(StepLimitError, match="no answer after 3 steps"):
        run(call, toolbox=box(explode), native_tools=native_tools)


def test_equal_calls_with_other_results_go_on() -> None:
    """As when a page is scrolled."""
    seen: list[str] = []

    def scroll() -> str:
        """Show what comes next."""
        seen.append("line")
        return f"line {len(seen)}"

    outcome = run(*[[Call("scroll")]] * 5, DONE, toolbox=box(scroll))
    assert outcome.observations == [f"line {number}" for number in range(1, 6)]


@both_ways
def test_an_argument_may_have_a_list_of_types(native_tools: bool) -> None:
    toolbox = box(add)
    number = {"type": ["integer", "null"]}
    toolbox.tools["add"] = dspy.Tool(
        lambda **given: given["a"] + given["b"], "add", "Add.", args={"a": number, "b": {"type": ["integer", "number"]}}
    )
    outcome = run([Call("add", {"a": "2", "b": 3})], DONE, toolbox=toolbox, native_tools=native_tools)
    assert outcome.observations == ["5"]
    assert native_tools or "add(a: int, b: int | float)" in all_text(outcome.model.requests[0][1])
