"""What a call from Python stands for on the command line, and how runs and comparisons are shown."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import dspy
import pytest

from eval.workflows import python_api
from eval.workflows.python_api import list_overrides
from mas.runtime.errors import UserError
from tests.eval.workflows.composing import compose_each_once

ROWS = [{"question": "2 + 2?", "answer": "4"}]


def solve(question: str) -> str:
    return question


def make() -> dspy.Module:
    return dspy.Predict("question -> answer")


Overrides = Callable[..., dict[str, str]]


@pytest.fixture(autouse=True, scope="module")
def each_command_line_composed_once() -> Iterator[None]:
    with compose_each_once(python_api):
        yield


@pytest.fixture
def overrides() -> Iterator[Overrides]:
    with ExitStack() as stack:

        def list_them(
            program: object = solve, samples: object = ROWS, scorer: Any = "exact", model: Any = None, options: Any = ()
        ) -> dict[str, str]:
            found = list_overrides(stack, program, samples, scorer, model, options)
            pairs = [each.partition("=") for each in found]
            assert len({name for name, _, _ in pairs}) == len(pairs), "each once"
            return {name: value.strip('"') for name, _, value in pairs}

        yield list_them


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"program": 5}, "an int is no program; give a dspy.Module, a function of the question"),
        ({"scorer": 5}, "an int is no scorer; give its name, or a function of"),
        ({"samples": 5}, "samples is an int; expected a list of dictionaries, a data frame or a path."),
        ({"samples": {"question": "?"}}, "samples is a dict; expected a list"),
        ({"samples": b"x"}, "samples is a bytes; expected a list"),
        ({"samples": []}, "samples is empty; give at least one."),
        ({"options": "run.epochs=3"}, "options='run.epochs=3' is a text; give a list of options: ['run.epochs=3']."),
        ({"program": make}, "the program has no language model (self): give model="),
    ],
)
def test_a_mistake_is_one_sentence(overrides: Overrides, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        overrides(**changes)
    assert str(caught.value).startswith(sentence)
