"""From a target to a call: what is loaded, which arguments it gets, and what is said if it cannot be called."""

from pathlib import Path
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.systems.external.target import load_agent
from tests.mas.systems.external.user_code import module

FILE = Path("/data/sales.csv")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(folder: Path, source: str, name: str = "answer") -> tuple[Any, Any]:
    return load_agent(f"{module(folder, source)}:{name}").arguments("How many?", FILE)


SIGNATURES = [
    ("question, file", ("How many?",), {"file": FILE}),
    ("q, path", ("How many?", FILE), {}),
    ("question", ("How many?",), {}),
    ("question, file=None", ("How many?",), {"file": FILE}),
    ("question, verbose=False", ("How many?",), {}),
    ("question, verbose=False, *, file=None", ("How many?",), {"file": FILE}),
    ("*, question, file", (), {"question": "How many?", "file": FILE}),
    ("*, question", (), {"question": "How many?"}),
    ("question, /, file", ("How many?",), {"file": FILE}),
    ("question, file, /", ("How many?", FILE), {}),
    ("question, **options", ("How many?",), {"file": FILE}),
    ("*args, **options", ("How many?",), {"file": FILE}),
    ("*args", ("How many?",), {}),
    ("file, question", None, None),
    ("question, file, key", None, None),
    ("question, *, key", None, None),
    ("*, text", None, None),
]


@pytest.mark.parametrize(("parameters", "positional", "named"), SIGNATURES, ids=[each[0] for each in SIGNATURES])
def test_a_function_gets_what_its_parameters_ask_for(
    tmp_path: Path, parameters: str, positional: Any, named: Any
) -> None:
    source = f"def answer({parameters}): return '5'\nasync def later({parameters}): return '5'"
    if parameters == "file, question":  # the names are the user's; the order counts, and `file` is the question here
        assert call(tmp_path, source) == (("How many?", FILE), {})
        return
    if positional is None:
        with pytest.raises(UserError, match=r"cannot be called with a question.*def answer\(question, file\)"):
            call(tmp_path, source)
        return
    assert call(tmp_path, source) == (positional, named)
    assert call(tmp_path, source, "later") == (positional, named)


def test_objects_methods_and_partials_can_be_called_too(tmp_path: Path) -> None:
    source = (
        "from functools import partial\nclass Agent:\n    def __call__(self, question, file): return '5'\n"
        "    def ask(self, question): return '5'\nagent = Agent()\n"
        "def keyed(key, question, file): return key\nready = partial(keyed, 'k')\n"
    )
    assert call(tmp_path, source, "agent") == (("How many?",), {"file": FILE})
    assert call(tmp_path, source, "agent.ask") == (("How many?",), {})
    assert call(tmp_path, source, "ready") == (("How many?",), {"file": FILE})


def test_a_class_is_called_through_an_instance(tmp_path: Path) -> None:
    source = "class Agent:\n    def __call__(self, question, file): return '5'\n"
    assert call(tmp_path, source, "Agent") == (("How many?",), {"file": FILE})


MISTAKES: dict[str, tuple[str, str, list[str]]] = {
    "no colon": ("", "my_agent.answer", ["cannot be read", "such as my_agent:answer"]),
    "no function": ("", "my_agent", ["cannot be read", "my_agent:answer"]),
    "two colons": ("", "a:b:c", ["cannot be read"]),
    "nothing before the colon": ("", ":answer", ["cannot be read"]),
    "a path": ("", "./my_agent.py:answer", ["cannot be read", "my_agent.py"]),
    "no module": ("", "no_such_agent:answer", ["No module named 'no_such_agent'", "current folder"]),
    "no submodule": ("", "json.no_such:answer", ["No module named 'json.no_such'"]),
    "no attribute": (
        "def reply(question): ...\nimport json",
        "{}:answer",
        ["has no answer", "it has: reply, json."],
    ),
    "not callable": ("answer = 'text'", "{}:answer", ["is a str", "def answer(question, file)"]),
    "syntax": ("def answer(question:\n", "{}:answer", ["cannot be imported", "SyntaxError"]),
    "its own import": ("import no_such_library", "{}:answer", ["cannot be imported", "no_such_library"]),
    "raises": ("1/0", "{}:answer", ["cannot be imported", "ZeroDivisionError: division by zero"]),
    "exits": ("import sys; sys.exit(3)", "{}:answer", ["cannot be imported", "SystemExit: 3"]),
    "no parameters": (
        "def answer(): return '5'",
        "{}:answer",
        ["cannot be called with a question", "def answer(question, file)"],
    ),
    "a class without a call": ("class Agent: ...", "{}:Agent", ["is an Agent", "def answer(question, file)"]),
    "a class with parameters": ("class Agent:\n def __init__(self, key): ...", "{}:Agent", ["a class", "'key'"]),
    "no signature": ("answer = dict", "{}:answer", ["is a dict"]),
    "a module": (
        "import dspy\nanswer = dspy.Predict('question -> answer')",
        "{}:answer",
        ["system=dspy system.target="],
    ),
    "a class of modules": ("import dspy\nclass P(dspy.Module): ...", "{}:P", ["is a dspy.Module", "system=dspy"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, mistake: str) -> None:
    source, target, words = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        load_agent(target.format(module(tmp_path, source)))
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message and message.endswith(".")
