"""A user's program: the output that is its answer, and the inputs that it takes."""

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.dummies import DummyLM

from mas.agents.in_memory import name_object
from mas.agents.source_digest import list_modules
from mas.runtime.errors import UserError
from mas.systems.external.dspy_target import (
    EXPECTED,
    USUAL_ANSWERS,
    LoadedModule,
    check_inputs,
    choose_answer_field,
    describe_answer_choice,
    is_async,
    load_module,
)
from tests.mas.systems.external.user_code import module as write_module


@pytest.mark.parametrize(
    ("outputs", "answer_field", "target_column", "chosen"),
    [
        (["label"], None, None, "label"),
        (["reasoning", "label"], None, None, "label"),
        (["reasoning"], None, None, "reasoning"),
        (["label", "urgency"], None, None, None),
        (["label", "urgency"], None, "urgency", "urgency"),
        (["label", "urgency"], "label", "urgency", "label"),
        (["label", "urgency"], "lable", "urgency", None),
        (["answer", "urgency"], None, "urgency", "urgency"),
        (["urgency", "final_answer", "answer"], None, "label", USUAL_ANSWERS[0]),
    ],
)
def test_the_answer_is_the_output_that_is_clear(
    outputs: list[str], answer_field: str | None, target_column: str | None, chosen: str | None
) -> None:
    assert choose_answer_field(outputs, answer_field, target_column) == chosen


def test_a_program_asks_for_the_name_of_its_answer() -> None:
    assert describe_answer_choice("a:P", ["label", "urgency"], None) == (
        "a:P returns several fields; name the one with the answer with system.answer_field=NAME: label, urgency."
    )
    assert describe_answer_choice("a:P", ["label"], "lable") == (
        "system.answer_field=lable is no output of a:P; choose one of its outputs: label."
    )
    assert describe_answer_choice("a:P", [], "x").endswith("choose one of its outputs: nothing.")


def loaded(*inputs: str, required: Collection[str] = (), takes_any: bool = False) -> LoadedModule:
    return LoadedModule("a:P", dspy.Module(), inputs, frozenset(required), takes_any, None, {})


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (loaded("question", required=["question"]), None),
        (loaded("question", "file", required=["question", "file"]), None),
        (loaded("question", "n"), None),
        (loaded(takes_any=True), None),
        (loaded("title", "n", required=["title"]), ["title"]),
        (loaded("title", "file", required=["title", "file"]), ["title"]),
        (loaded(takes_any=True), ["title", "body"]),
        (loaded("title"), []),
    ],
)
def test_inputs_that_fit_are_accepted(module: LoadedModule, given: list[str] | None) -> None:
    check_inputs(module, given)


UNNAMED = (
    "system.target=a:P takes {}, and the data give question, file: name the columns of its input fields with "
    "data.inputs=[{}], or 'data.inputs={{field: column}}'."
)


@pytest.mark.parametrize(
    ("module", "given", "message"),
    [
        (loaded("title"), None, UNNAMED.format("title", "title")),
        (loaded(), None, UNNAMED.format("nothing", "")),
        (
            loaded("question", "body", required=["question", "body"]),
            None,
            UNNAMED.format("question, body", "question,body"),
        ),
        (
            loaded("title", "body", "text", required=["title", "body", "text"]),
            ["title"],
            "system.target=a:P takes title, body, text, and data.inputs gives title: there is no column for the input "
            "field body, text; add it, as 'data.inputs={body: column}' where the names differ.",
        ),
        (
            loaded("title", required=["title"]),
            ["title", "id", "day"],
            "system.target=a:P takes title, and data.inputs gives title, id, day: the program has no input field id, "
            "day; leave it out, or map it with 'data.inputs={field: column}'.",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_named(module: LoadedModule, given: list[str] | None, message: str) -> None:
    with pytest.raises(UserError) as caught:
        check_inputs(module, given)
    assert str(caught.value) == message


class Both(dspy.Module):
    def forward(self) -> None: ...
    async def aforward(self) -> None: ...


class Replaced(Both):
    def forward(self) -> None: ...


class Inherited(Both): ...


class Neither(dspy.Module): ...


@pytest.mark.parametrize(("kind", "expected"), [(Both, True), (Replaced, False), (Inherited, True), (Neither, False)])
def test_the_most_derived_of_both_forms_is_the_program(kind: type[dspy.Module], expected: bool) -> None:
    assert is_async(kind()) is expected


class Program(dspy.Module):
    """Module with two predictors."""

    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("question -> notes")
        self.steps = [dspy.ChainOfThought("notes -> answer")]

    def forward(self, title: str, n: int, /, day: "int" = 1, *rest: str, hint=None, other: float) -> None: ...  # type: ignore[no-untyped-def]


class TakesAny(Program):
    async def aforward(self, title: str, **others: object) -> None: ...


class Unresolved(Program):
    def forward(self, title: "NoSuchType", n: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821


class NoForward(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("question -> notes")


class NoPredictors(dspy.Module):
    def forward(self, title: str) -> None: ...


class Typed(dspy.Signature):
    """Answer."""

    title: str = dspy.InputField()
    n: int = dspy.InputField()
    hint: str | None = dspy.InputField()
    day: int = dspy.InputField(default=1)
    label: str = dspy.OutputField()
    urgency: int = dspy.OutputField()


TITLE = {"title": str, "n": int, "hint": str | None, "day": int}
OF_TYPED = (("title", "n", "hint", "day"), {"title", "n"}, False)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Program(), (("day", "hint", "other"), {"other"}, False, None, {"day": int, "other": float})),
        (Program, (("day", "hint", "other"), {"other"}, False, None, {"day": int, "other": float})),
        (lambda: Program(), (("day", "hint", "other"), {"other"}, False, None, {"day": int, "other": float})),
        (TakesAny(), (("title",), {"title"}, True, None, {"title": str})),
        (Unresolved(), (("title", "n"), {"title", "n"}, False, None, {})),
        (dspy.Predict(Typed), (*OF_TYPED, ("label", "urgency"), TITLE)),
        (dspy.ChainOfThought(Typed), (*OF_TYPED, ("reasoning", "label", "urgency"), TITLE)),
    ],
)
def test_what_a_module_takes_and_returns_is_read_from_its_form(found: object, expected: tuple[Any, ...]) -> None:
    with name_object(found, "Program") as target:
        read = load_module(target)
        assert (read.inputs, read.required, read.takes_any, read.outputs, dict(read.annotations)) == expected
        assert read.target == target
        assert read.module is found or not isinstance(found, dspy.Module)
        assert read.predictors == dict(read.module.named_predictors())


class Needing(Program):
    def __init__(self, size: int, *rest: int, name: str, kind: str = "", **others: int) -> None:
        super().__init__()


class Failing(Program):
    def __init__(self) -> None:
        raise ValueError("two\n lines")


def needing(size: int, kind: str = "") -> None: ...


def failing() -> None:
    raise SystemExit(2)


async def later() -> None: ...


class Other:
    def __call__(self) -> None: ...


NO_FORWARD = " is a dspy.Module without a forward method; give it one."
NO_PREDICTORS = (
    " is a dspy.Module without predictors, such as dspy.Predict: nothing in it asks a model; assign them to self in "
    "its __init__, or run a function that answers with system=callable."
)
INSTANCE = f", which is no dspy.Module; {EXPECTED}, or run it with system=callable."


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (5, f" is an int; {EXPECTED}."),
        (Other(), f" is an instance of Other{INSTANCE}"),
        (NoForward(), NO_FORWARD),
        (NoPredictors(), NO_PREDICTORS),
        (NoPredictors, NO_PREDICTORS),
        (
            Needing,
            " is a class whose constructor needs size, name; add a function without parameters to in-memory, such as "
            "def make(): return {}(…), and give system.target=in-memory:make.",
        ),
        (
            needing,
            f" is a function that needs size; {EXPECTED}, or run a function that answers with system=callable.",
        ),
        (Failing, f", a class, cannot be called (ValueError: two lines); {EXPECTED}."),
        (failing, f", a function, cannot be called (SystemExit: 2); {EXPECTED}."),
        (Other, f" is a class, and makes an Other; {EXPECTED}, or run it with system=callable."),
        (later, f" is a function that returns a coroutine; {EXPECTED}, or run it with system=callable."),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_no_module_that_can_be_run_is_refused(found: object, message: str) -> None:
    with name_object(found, "Program") as target, pytest.raises(UserError) as caught:
        load_module(target)
    assert str(caught.value) == f"system.target={target}{message.format(target.partition(':')[2])}"


def test_what_a_function_loads_while_it_makes_a_module_belongs_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    beside = write_module(tmp_path, "")
    source = f"import dspy, importlib\ndef make():\n    importlib.import_module('{beside[:2]}' + '{beside[2:]}')\n"
    name = write_module(tmp_path, f"{source}    return dspy.Predict('question -> answer')\n")
    load_module(f"{name}:make")
    assert list(list_modules(name)) == sorted([beside, name])


@pytest.fixture
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


Change = Callable[[dict[str, Any]], object]


def save(made: dspy.Module, change: Change = lambda content: None) -> str:
    """Name of the file with the module's state after a change of it."""
    made.save("state.json")
    content = json.loads(Path("state.json").read_text())
    change(content)
    Path("state.json").write_text(json.dumps(content))
    return "state.json"


def taught(made: dspy.Module) -> dspy.Module:
    for name, predictor in made.named_predictors():
        predictor.signature = predictor.signature.with_instructions(f"Do {name}.")
        predictor.lm = DummyLM([{"answer": "5"}])
    return made


@pytest.mark.usefixtures("in_its_folder")
@pytest.mark.parametrize("make", [Program, lambda: dspy.Predict("question -> answer")])
def test_a_saved_state_is_loaded_into_a_copy_without_its_models(make: Callable[[], dspy.Module]) -> None:
    original = make()
    before = {name: each.signature.instructions for name, each in original.named_predictors()}
    state = save(taught(make()))
    with name_object(original, "Program") as target:
        read = load_module(target, state)
    assert {name: (each.signature.instructions, each.lm) for name, each in read.predictors.items()} == {
        name: (f"Do {name}.", None) for name in before
    }
    assert {name: each.signature.instructions for name, each in original.named_predictors()} == before


def rename(content: dict[str, Any]) -> None:
    content["other"] = content.pop("draft")


ANOTHER = "was saved by another program: "
FORM = "expected the JSON that program.save('program.json') writes"
STATES: dict[str, tuple[Change, str]] = {
    "other predictors": (
        rename,
        f"{ANOTHER}it has other, steps[0].predict, and TARGET has draft, steps[0].predict; give the state of this "
        "program.",
    ),
    "no predictors": (
        lambda content: content.clear(),
        f"{ANOTHER}it has no predictors, and TARGET has draft, steps[0].predict; give the state of this program.",
    ),
    "one predictor too few": (
        lambda content: content.pop("draft"),
        f"{ANOTHER}it has steps[0].predict, and TARGET has draft, steps[0].predict; give the state of this program.",
    ),
    "no states": (lambda content: content.update(draft=5), f"holds no saved program; {FORM}."),
    "a signature of a predictor alone": (
        lambda content: content.update(signature={}),
        f"{ANOTHER}it has draft, signature, steps[0].predict, and TARGET has draft, steps[0].predict; give the state "
        "of this program.",
    ),
    "no signature": (
        lambda content: content["draft"].pop("signature"),
        "has no signature for draft; save it again with program.save(…).",
    ),
    "no fields": (
        lambda content: content["draft"]["signature"].pop("fields"),
        "has no signature for draft; save it again with program.save(…).",
    ),
    "other fields": (
        lambda content: content["draft"]["signature"]["fields"].__setitem__(0, {"prefix": "Query:"}),
        f"{ANOTHER}draft has the fields Query: Notes: there, and Question: Notes: in TARGET; give the state of this "
        "program.",
    ),
    "fields without a form": (
        lambda content: content["draft"]["signature"]["fields"].__setitem__(0, "Question:"),
        f"{ANOTHER}draft has the fields  Notes: there, and Question: Notes: in TARGET; give the state of this program.",
    ),
    "a field too few": (
        lambda content: content["draft"]["signature"]["fields"].pop(),
        f"{ANOTHER}draft has the fields Question: there, and Question: Notes: in TARGET; give the state of this "
        "program.",
    ),
}


@pytest.mark.usefixtures("in_its_folder")
@pytest.mark.parametrize("mistake", STATES)
def test_a_state_of_another_program_is_refused(mistake: str) -> None:
    change, message = STATES[mistake]
    state = save(Program(), change)
    with name_object(Program(), "Program") as target, pytest.raises(UserError) as caught:
        load_module(target, state)
    assert str(caught.value) == f"system.state=state.json {message.replace('TARGET', target)}"


@pytest.mark.usefixtures("in_its_folder")
def test_what_dspy_cannot_load_is_told_with_its_cause() -> None:
    state = save(Program(), lambda content: content["draft"]["signature"].pop("instructions"))
    with name_object(Program(), "Program") as target, pytest.raises(UserError) as caught:
        load_module(target, state)
    assert re.fullmatch(
        rf"system\.state=state\.json cannot be loaded into {target} \(\w+: .+\); save it again with "
        r"program\.save\('program\.json'\)\.",
        str(caught.value),
    )


PICKLED = f"is a pickled program, which can run any code when it is read, so it is refused; {FORM}."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.pkl", b"{}", PICKLED),
        ("state.pickle", b"{}", PICKLED),
        ("folder", None, PICKLED),
        ("gone.json", None, f"does not exist under FOLDER; {FORM}."),
        ("state.json", b"\x80", f"is not JSON (UnicodeDecodeError); {FORM}, not a pickle."),
        ("state.json", b"{", f"is not JSON (JSONDecodeError); {FORM}, not a pickle."),
        ("state.json", b"[" * 100_000, f"is not JSON (RecursionError); {FORM}, not a pickle."),
        ("state.json", b"[]", f"holds no saved program; {FORM}."),
    ],
    ids=["pkl", "pickle", "folder", "gone", "bytes", "half", "deep", "list"],
)
def test_a_file_that_holds_no_state_is_refused(
    in_its_folder: Path, name: str, content: bytes | None, message: str
) -> None:
    (in_its_folder / "folder").mkdir()
    if content is not None:
        (in_its_folder / name).write_bytes(content)
    with name_object(Program(), "Program") as target, pytest.raises(UserError) as caught:
        load_module(target, name)
    assert str(caught.value) == f"system.state={name} {message.replace('FOLDER', str(in_its_folder))}"
