"""A module as a program: what it is given, where it runs, with which models, and what becomes of its outputs."""

import asyncio
import enum
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import dspy
import pydantic
import pytest
from dspy.utils.dummies import DummyLM

from mas.agents.chat_adapter import ProgramAdapter
from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.trace import Trace, record_trace
from mas.systems.external.dspy_program import DspyProgram
from mas.systems.external.dspy_spans import PredictorSpans
from mas.systems.external.dspy_target import LoadedModule

FILE = Path("/data/sales.csv")
Answer = Callable[..., object]


class Program(dspy.Module):
    """Module that answers with a function of its arguments."""

    def __init__(self, function: Answer) -> None:
        super().__init__()
        self.function = function
        self.solve = dspy.Predict("question -> answer")

    def forward(self, **arguments: object) -> object:
        return self.function(**arguments)


class AsyncProgram(dspy.Module):
    """The same as a coroutine."""

    def __init__(self, function: Answer, *tools: dspy.Tool) -> None:
        super().__init__()
        self.function = function
        self.tools = list(tools)

    async def aforward(self, **arguments: object) -> object:
        return self.function(**arguments)


class BothForms(AsyncProgram):
    async def aforward(self, **arguments: object) -> object:
        return self.function(**arguments)

    def forward(self, **arguments: object) -> object:
        return self.function(**arguments)


def loaded(
    module: dspy.Module, *, required: tuple[str, ...] = (), takes_any: bool = False, **annotations: object
) -> LoadedModule:
    """The module with these inputs; those with the annotation None have no type."""
    typed = {name: kind for name, kind in annotations.items() if kind is not None}
    return LoadedModule("mine:P", module, tuple(annotations), frozenset(required), takes_any, None, typed)


def run(program: DspyProgram, path: Path | None = None, **inputs: str) -> dict[str, Any]:
    return dict(asyncio.run(program.answer_inputs("How many?", path, "t-1", inputs)))


def outcome(value: object, answer: tuple[str | None, str | None] = (None, None)) -> dict[str, Any]:
    return run(DspyProgram(loaded(Program(lambda **_: value), question=str), answer))


def test_the_state_holds_question_inputs_outputs_and_answer() -> None:
    states: list[dict[str, Any]] = []

    def function(**arguments: object) -> dict[object, object]:
        states.append(dict(trace.state))
        return {"label": "bug", "reasoning": "so", "final_reasoning_trace": None, 7: [1]}

    program = DspyProgram(loaded(Program(function), title=str), (None, "label"))
    with record_trace(Trace("t")) as trace:
        state = run(program, FILE, title="Crash")
    first = {
        "question": "How many?",
        "file": "sales.csv",
        "inputs": {"title": "Crash"},
        "correlation_id": "t-1",
    }
    outputs = {"label": "bug", "reasoning": "so", "final_reasoning_trace": None, "7": [1]}
    assert states == [first]
    assert trace.state == {**first, "outputs": outputs}
    assert trace.answer == "bug"
    assert state == {**first, "outputs": outputs, "final_answer": "bug", "final_reasoning_trace": "so"}


class Color(enum.Enum):
    RED = "red"


class Point(pydantic.BaseModel):
    """Pair of numbers."""

    x: int
    name: str = "ä"


@pytest.mark.parametrize(
    ("value", "outputs", "answer"),
    [
        ("5", {"answer": "5"}, "5"),
        (5, {"answer": 5}, "5"),
        (2.5, {"answer": 2.5}, "2.5"),
        ("a\ud83d", {"answer": "a\ud83d"}, "a?"),
        ({"answer": None}, {"answer": None}, ""),
        ({"answer": Color.RED}, {"answer": Color.RED}, "red"),
        ({"answer": Point(x=1)}, {"answer": Point(x=1)}, '{"x":1,"name":"ä"}'),
        ({"answer": ["ä", FILE]}, {"answer": ["ä", FILE]}, '["ä", "/data/sales.csv"]'),
        ({"answer": ["a\ud83d"]}, {"answer": ["a\ud83d"]}, '["a?"]'),
        (dspy.Prediction(answer={"a": 1}), {"answer": {"a": 1}}, '{"a": 1}'),
    ],
    ids=str,
)  # fmt: skip
def test_an_output_is_scored_as_text_and_kept_as_it_is(value: object, outputs: object, answer: str) -> None:
    state = outcome(value)
    assert (state["outputs"], state["final_answer"], state["final_reasoning_trace"]) == (outputs, answer, "")


def test_the_first_of_the_usual_reasons_is_the_trace() -> None:
    outputs = {"answer": "5", "reasoning": ["last"], "reasoning_trace": "middle", "final_reasoning_trace": "top"}
    for name, text in (("final_reasoning_trace", "top"), ("reasoning_trace", "middle"), ("reasoning", '["last"]')):
        assert outcome(dict(outputs), ("answer", None))["final_reasoning_trace"] == text
        del outputs[name]


@pytest.mark.parametrize(
    ("value", "answer", "message"),
    [
        (None, (None, None), "mine:P returned None; expected a dspy.Prediction, a dict or a text"),
        (["5"], (None, None), "mine:P returned a list; expected a dspy.Prediction, a dict or a text"),
        (
            {"a": 1, "b": 2},
            (None, "c"),
            "mine:P returns several fields; name the one with the answer with system.answer_field=NAME: a, b.",
        ),
        (
            {"a": 1, "b": 2},
            ("c", "a"),
            "system.answer_field=c is no output of mine:P; choose one of its outputs: a, b.",
        ),
    ],
    ids=str,
)
def test_what_holds_no_answer_is_described(value: object, answer: Any, message: str) -> None:
    with pytest.raises(AgentReplyError) as caught:
        outcome(value, answer)
    assert str(caught.value) == message


def arguments(module_inputs: dict[str, Any], path: Path | None = None, **inputs: str) -> dict[str, Any]:
    """What the module is called with."""
    seen: list[dict[str, object]] = []

    def function(**given: object) -> str:
        seen.append(given)
        return "5"

    run(DspyProgram(loaded(Program(function), **module_inputs), (None, None)), path, **inputs)
    return seen[0]


def test_the_question_is_the_input_of_data_without_inputs() -> None:
    assert arguments({"question": str}) == {"question": "How many?"}
    assert arguments({"question": None, "title": None}) == {"question": "How many?"}
    assert arguments({"title": str}, title="Crash") == {"title": "Crash"}
    assert arguments({"question": str, "title": str}, title="Crash") == {"title": "Crash"}


def test_other_inputs_arrive_only_at_a_module_that_takes_any() -> None:
    assert arguments({"title": str}, title="Crash", other="5") == {"title": "Crash"}
    assert arguments({"title": str, "takes_any": True}, title="Crash", other="5") == {"title": "Crash", "other": "5"}


def test_the_file_arrives_where_it_is_taken_and_not_given_as_an_input() -> None:
    given = {"question": "How many?"}
    assert arguments({"question": str}, FILE) == given
    assert arguments({"question": str, "file": None}, FILE) == {**given, "file": FILE}
    assert arguments({"question": str, "file": None}) == {**given, "file": None}
    assert arguments({"question": str, "takes_any": True}, FILE) == {**given, "file": FILE}
    assert arguments({"question": str, "takes_any": True}) == given
    assert arguments({"file": str}, FILE, file="its column") == {"file": "its column"}


TYPES: list[tuple[object, bool, str, dict[str, object]]] = [
    (int, True, "3", {"x": 3}),
    (int, False, "3", {"x": 3}),
    (int, False, "", {}),
    (str, True, "", {"x": ""}),
    (str, False, "", {"x": ""}),
    (None, False, "", {"x": ""}),
    (object, False, "", {"x": ""}),
    (Any, False, "5", {"x": "5"}),
    (int | None, True, "", {"x": None}),
    (int | None, False, "", {}),
    (int | None, True, "4", {"x": 4}),
    (list[str], True, '["a"]', {"x": ["a"]}),
    (bool, True, "false", {"x": False}),
    (Literal["a", "b"], True, "a", {"x": "a"}),
]


@pytest.mark.parametrize(("kind", "is_required", "text", "expected"), TYPES, ids=str)
def test_a_cell_becomes_its_inputs_type_or_is_left_out(
    kind: object, is_required: bool, text: str, expected: dict[str, object]
) -> None:
    assert arguments({"x": kind, "required": ("x",) if is_required else ()}, x=text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (int, "three", "the input x of mine:P is no int: 'three'"),
        (int, "", "the input x of mine:P is no int: ''"),
        (int, "a" * 80, f"the input x of mine:P is no int: '{'a' * 80}'"),
        (int, "a" * 81, f"the input x of mine:P is no int: '{'a' * 80}'"),
        (list[int], '["a"]', "the input x of mine:P is no list: '[\"a\"]'"),
        (int | None, "three", "the input x of mine:P is no int | None: 'three'"),
    ],
    ids=["a word", "nothing", "as long as may be", "longer", "a list", "either"],
)
def test_a_cell_of_another_type_is_refused(kind: object, text: str, message: str) -> None:
    with pytest.raises(AgentReplyError) as caught:
        arguments({"x": kind, "required": ("x",)}, x=text)
    assert str(caught.value) == message


def search(city: str) -> str:
    return city


async def search_later(city: str) -> str:
    return city


@pytest.mark.parametrize(
    ("module", "on_loop"),
    [
        (Program, False),
        (AsyncProgram, True),
        (lambda function: AsyncProgram(function, dspy.Tool(search)), True),
        (BothForms, True),
        (lambda function: BothForms(function, dspy.Tool(search_later)), True),
        (lambda function: BothForms(function, dspy.Tool(search_later), dspy.Tool(search)), False),
    ],
    ids=["forward", "aforward", "aforward alone", "both", "both, async tool", "both, tool that blocks"],
)
def test_a_module_that_blocks_has_a_thread(module: Callable[[Answer], dspy.Module], on_loop: bool) -> None:
    made = module(lambda **_: str(threading.current_thread() is threading.main_thread()))
    assert run(DspyProgram(loaded(made, question=str), (None, None)))["final_answer"] == str(on_loop)


def leave(**_: object) -> None:
    sys.exit(3)


def give_up(**_: object) -> None:
    raise TimeoutError("socket")


@pytest.mark.parametrize("kind", [Program, AsyncProgram])
def test_an_end_without_an_answer_is_told_by_the_modules_name(kind: Callable[[Answer], dspy.Module]) -> None:
    with pytest.raises(AgentReplyError) as ended:
        run(DspyProgram(loaded(kind(leave), question=str), (None, None)))
    assert str(ended.value) == "mine:P ended with SystemExit (3) instead of an answer"
    with pytest.raises(AgentUnavailableError) as waited:
        run(DspyProgram(loaded(kind(give_up), question=str), (None, None)))
    assert str(waited.value) == "mine:P gave up waiting (TimeoutError: socket)"


def test_each_predictor_without_a_model_gets_its_own_and_the_original_none() -> None:
    original = Program(lambda **_: "5")
    own = DummyLM([{"answer": "1"}])
    original.own = dspy.Predict("a -> b")
    original.own.lm = own
    models: dict[str, DummyLM] = {}

    def create(name: str) -> dspy.BaseLM:
        return models.setdefault(name, DummyLM([{"answer": name}]))

    program = DspyProgram(loaded(original, question=str), (None, None), create)
    predictors = dict(program.named_predictors())
    assert predictors["solve"].lm is models["solve"]
    assert predictors["own"].lm not in models.values()
    assert models.keys() == {"", "solve"}
    assert program.lm is models[""]
    assert [name for name, _ in program.named_parameters()] == ["solve", "own"]
    assert original.solve.lm is None
    assert program.module is not original
    assert (program.name, program.plain_demos) == ("mine:P", True)
    without = DspyProgram(loaded(original, question=str), (None, None))
    assert (without.lm, dict(without.named_predictors())["solve"].lm) == (None, None)


def test_the_module_runs_with_the_programs_model_an_adapter_and_spans() -> None:
    seen: list[tuple[Any, ...]] = []

    def function(**_: object) -> str:
        seen.append((dspy.settings.lm, dspy.settings.adapter, list(dspy.settings.callbacks)))
        return "5"

    model, outside, other = DummyLM([{"answer": "1"}]), DummyLM([{"answer": "2"}]), PredictorSpans(dspy.Module())
    adapter = dspy.JSONAdapter()
    mine = loaded(Program(function), question=str)
    with dspy.context(lm=outside, adapter=None, callbacks=[other]):
        run(DspyProgram(mine, (None, None), lambda name: model))
    with dspy.context(lm=outside, adapter=adapter, callbacks=[]):
        run(DspyProgram(mine, (None, None)))
    (lm, made, callbacks), (second_lm, second_made, second_callbacks) = seen
    assert lm is model
    assert type(made) is ProgramAdapter
    assert callbacks[0] is other
    assert [type(each) for each in callbacks] == [PredictorSpans, PredictorSpans]
    assert (second_lm is outside, second_made is adapter) == (True, True)
    assert [type(each) for each in second_callbacks] == [PredictorSpans]


def test_calls_of_the_copys_predictors_have_their_names_in_the_trace() -> None:
    class Asking(Program):
        def forward(self, **arguments: object) -> object:
            return self.solve(**arguments)

    program = DspyProgram(
        loaded(Asking(lambda **_: None), question=str), (None, None), lambda name: DummyLM([{"answer": "42"}])
    )
    with record_trace(Trace("t")) as trace:
        assert run(program)["final_answer"] == "42"
    assert [(each.name, each.inputs, each.outputs) for each in trace.spans if each.kind == "agent"] == [
        ("solve", {"question": "How many?"}, {"answer": "42"})
    ]
