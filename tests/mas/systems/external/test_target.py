"""From the text of a target to an object, and from an object to a function of a question: what is loaded or refused."""

import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from mas.agents.in_memory import name_object
from mas.agents.source_digest import digest_program, list_modules
from mas.runtime.errors import UserError
from mas.systems.external.target import (
    EXPECTED,
    Agent,
    compute_source_digest,
    describe_cause,
    is_dspy_module,
    load_agent,
    load_target,
)
from tests.mas.systems.external.user_code import module


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    assert sys.path == before


def refusal(target: str, load: Callable[[str], object] = load_target) -> str:
    with pytest.raises(UserError) as caught:
        load(target)
    return str(caught.value)


def test_a_target_is_an_attribute_of_a_module_or_an_object_in_memory(tmp_path: Path) -> None:
    name = module(tmp_path, "class Agent:\n    class Inner:\n        value = 7\nvalue = 5\n")
    assert load_target(f"{name}:value") == 5
    assert load_target(f"{name}:Agent.Inner.value") == 7
    thing = object()
    with name_object(thing, "Thing") as target:
        assert load_target(target) is thing


FORMS = [
    (
        "my_agent.py:answer",
        "system.target=my_agent.py:answer names a file; expected package.module:name, the module's name without .py, "
        "importable from the current folder or installed.",
    ),
    (
        "agents/mine:answer",
        "system.target=agents/mine:answer names a file; expected package.module:name, the module's name without .py, "
        "importable from the current folder or installed.",
    ),
    (
        "my.agent.answer",
        "system.target=my.agent.answer has no colon; expected package.module:name: system.target=my.agent:answer.",
    ),
    *(
        (target, f"system.target={target} cannot be read; expected package.module:name, such as my_agent:answer.")
        for target in (
            "agent",
            "1agent:answer",
            "agent:1answer",
            "agent:",
            ":answer",
            "a..b:c",
            "a:b.",
            "a b:c",
            "a:b:c",
        )
    ),
]


@pytest.mark.parametrize(("target", "message"), FORMS)
def test_another_form_of_a_target_is_explained(target: str, message: str) -> None:
    assert refusal(target) == message


def test_a_name_that_is_not_there_lists_what_the_module_defines(tmp_path: Path) -> None:
    functions = "".join(f"def f{number}(): ...\n" for number in range(11))
    name = module(tmp_path, f"from json import dumps\ndef _own(): ...\nvalue = 5\n{functions}")
    listed = ", ".join(f"f{number}" for number in range(10))
    assert refusal(f"{name}:answer.inner") == (
        f"system.target={name}:answer.inner: there is no answer.inner in {name} ({tmp_path / name}.py); it defines: "
        f"{listed}."
    )
    (tmp_path / f"space_{name}").mkdir()
    assert refusal(f"space_{name}:answer") == (
        f"system.target=space_{name}:answer: there is no answer in space_{name} (a package without a file); it "
        "defines: nothing that can be called."
    )


def test_a_module_that_is_missing_or_fails_is_told_from_one_that_it_imports(tmp_path: Path) -> None:
    for target, missing in (("no_such_agent:answer", "no_such_agent"), ("no_such.deep.one:answer", "no_such.deep.one")):
        assert refusal(target) == (
            f"system.target: there is no module {missing}, neither in the current folder {tmp_path} nor installed; "
            "start the command in its folder, or correct the name."
        )
    for source, cause in (
        ("import agent_no", "ModuleNotFoundError: No module named 'agent_no'"),
        ("raise ValueError('two\\n lines')", "ValueError: two lines"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("from json import no_such", r"ImportError: cannot import name 'no_such' from 'json' \(.*\)"),
        ("raise ModuleNotFoundError('gone')", "ModuleNotFoundError: gone"),
    ):
        name = module(tmp_path, source)
        message = rf"system\.target: the module {name} cannot be imported \({cause}\); correct it, then start again\."
        assert re.fullmatch(message, refusal(f"{name}:answer"))


@pytest.mark.parametrize("is_package", [True, False])
def test_a_users_module_of_the_harness_s_own_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_package: bool
) -> None:
    monkeypatch.setitem(sys.modules, "optimize", importlib.import_module("optimize"))  # and it stays the harness's own
    own = tmp_path / ("optimize" if is_package else "optimize.py")
    if is_package:
        own.mkdir()
        (own / "agent.py").write_text("def answer(question): ...")
    else:
        own.write_text("def answer(question): ...")
    message = (
        "system.target: the module {} needs your "
        + f"{own.name} in {tmp_path}, which has the name of the harness's own "
        "package optimize; give yours another name."
    )
    assert refusal("optimize.agent:answer") == message.format("optimize.agent")
    name = module(tmp_path, "import optimize.no_such_part")
    assert refusal(f"{name}:answer") == message.format(name)
    other = module(tmp_path, "from optimize import no_such_name")
    assert refusal(f"{other}:answer") == message.format(other)


def test_a_users_module_that_came_in_place_of_the_harness_s_own_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = module(tmp_path, "answer = 5")
    theirs = ModuleType("mas_harness")
    theirs.__file__ = str(tmp_path / "mas_harness.py")
    monkeypatch.setitem(sys.modules, "mas_harness", theirs)
    monkeypatch.setitem(sys.modules, "mas_harness.inner", ModuleType("mas_harness.inner"))
    monkeypatch.setitem(sys.modules, "mas_harness_other", ModuleType("mas_harness_other"))
    assert refusal(f"{name}:answer") == (
        f"system.target: the module {name} needs your mas_harness.py in {tmp_path}, which has the name of the "
        "harness's own package mas_harness; give yours another name."
    )
    assert [each for each in sys.modules if each.startswith("mas_harness")] == ["mas_harness_other"]
    assert load_target(f"{name}:answer") == 5
    theirs.__path__ = [str(Path(load_target.__code__.co_filename).parents[3] / "mas_harness")]
    monkeypatch.setitem(sys.modules, "mas_harness", theirs)
    assert load_target(f"{name}:answer") == 5


def test_the_digest_of_a_target_is_that_of_its_source_and_its_files(tmp_path: Path) -> None:
    beside = module(tmp_path, "answer = 5")
    name = module(tmp_path, f"import {beside}\ninner = 5")
    load_target(f"{name}:inner")
    assert list(list_modules(name)) == sorted([beside, name])
    state = tmp_path / "state.json"
    state.write_text("{}")
    assert compute_source_digest(f"{name}:inner") == digest_program(name)
    assert compute_source_digest(f"{name}:inner", str(state), None) == digest_program(name, str(state))
    assert digest_program(name, str(state)) != digest_program(name)
    target = "in-memory:Thing-3f2a91c0"
    assert compute_source_digest(target, str(state)) == hashlib.sha256(target.encode()).hexdigest()


def test_modules_that_a_target_loads_by_computed_names_belong_to_its_digest(tmp_path: Path) -> None:
    plugin = module(tmp_path, "value = 5")
    name = module(tmp_path, f"import importlib\nvalue = importlib.import_module('{plugin[:2]}' + '{plugin[2:]}').value")
    assert load_target(f"{name}:value") == 5
    assert list(list_modules(name)) == sorted([plugin, name])


@pytest.mark.parametrize(
    ("question", "file", "positional", "named"),
    [
        ("position", "position", ("?", Path("a.csv")), {}),
        ("position", "name", ("?",), {"file": Path("a.csv")}),
        ("name", "not", (), {"question": "?"}),
        ("name", "name", (), {"question": "?", "file": Path("a.csv")}),
    ],
)
def test_an_agent_is_called_as_it_takes_its_inputs(question: Any, file: Any, positional: Any, named: Any) -> None:
    assert Agent("a:b", None, question, file).arguments("?", Path("a.csv")) == (positional, named)


SIGNATURES: list[tuple[str, str, str]] = [
    ("q", "position", "not"),
    ("q, /", "position", "not"),
    ("q, other", "position", "position"),
    ("q, other=None", "position", "not"),
    ("q, file=None", "position", "name"),
    ("q, verbose=1, file=None", "position", "name"),
    ("q, other, file", "position", "name"),
    ("file", "position", "not"),
    ("q=''", "position", "not"),
    ("*many", "position", "not"),
    ("*many, file", "position", "name"),
    ("**named", "name", "name"),
    ("q, **named", "position", "name"),
    ("*, question", "name", "not"),
    ("*, question, file=None", "name", "name"),
    ("q, file, /", "position", "position"),
    ("q, file=None, /", "position", "not"),
    ("q, *file", "position", "not"),
    ("q, **file", "position", "name"),
]


@pytest.mark.parametrize(("parameters", "question", "file"), SIGNATURES)
def test_the_parameters_say_how_question_and_file_are_passed(
    tmp_path: Path, parameters: str, question: str, file: str
) -> None:
    if parameters == "q, other, file":  # the file has its name; nothing is left for the second
        name = module(tmp_path, "def answer(q, other, file): ...")
        assert refusal(f"{name}:answer", load_agent) == (
            f"system.target={name}:answer takes (q, other, file), which a question and its file do not fit (missing a "
            f"required argument: 'other'); {EXPECTED}."
        )
        return
    name = module(tmp_path, f"def answer({parameters}): ...")
    agent = load_agent(f"{name}:answer")
    assert agent == Agent(f"{name}:answer", sys.modules[name].answer, question, file)  # type: ignore[arg-type]


def test_a_target_that_takes_no_question_is_refused(tmp_path: Path) -> None:
    source = (
        "import dspy\ndef none(): ...\nvalue = 5\nclass Plain: ...\nclass Failing:\n    def __init__(self): 1 / 0\n"
        "class Leaving:\n    def __init__(self): raise SystemExit(2)\nclass Part(dspy.Module): ...\npart = Part()\n"
        "def make(): ...\nmake.__signature__ = 'no signature'\n"
    )
    name = module(tmp_path, source)
    start = f"system.target={name}:"
    assert {each: refusal(f"{name}:{each}", load_agent).removeprefix(start) for each in MESSAGES} == MESSAGES


MESSAGES = {
    "none": f"none takes no question; {EXPECTED}, or system=dspy for a function that makes a dspy.Module.",
    "value": f"value is an int; {EXPECTED}.",
    "Plain": f"Plain is a Plain; {EXPECTED}.",
    "Failing": f"Failing, a class, cannot be called (ZeroDivisionError: division by zero); {EXPECTED}, or a class "
    "without parameters that has such a __call__.",
    "Leaving": f"Leaving, a class, cannot be called (SystemExit: 2); {EXPECTED}, or a class without parameters that "
    "has such a __call__.",
    "make": f"make does not say which parameters it has; {EXPECTED}.",
}


def test_a_module_of_dspy_is_sent_to_its_own_system(tmp_path: Path) -> None:
    name = module(tmp_path, "import dspy\nclass Part(dspy.Module): ...\npart = Part()\n")
    for each in ("Part", "part"):
        assert refusal(f"{name}:{each}", load_agent) == (
            f"system.target={name}:{each} is a dspy.Module; run it with system=dspy system.target={name}:{each}."
        )


def test_only_modules_of_dspy_and_their_classes_are_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [dspy.Module, dspy.Predict, dspy.Predict("a -> b"), dict, {}, None]
    assert [is_dspy_module(each) for each in values] == [True, True, True, False, False, False]
    monkeypatch.delitem(sys.modules, "dspy")
    assert not any(map(is_dspy_module, values))


def test_an_exception_is_described_in_one_line() -> None:
    assert describe_cause(ValueError("two\n  lines")) == "ValueError: two lines"
    assert describe_cause(KeyError()) == "KeyError:"
