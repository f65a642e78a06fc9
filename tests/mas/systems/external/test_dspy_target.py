"""A user's program: the output that is its answer, and the inputs that it takes."""

from collections.abc import Collection

import dspy
import pytest

from mas.runtime.errors import UserError
from mas.systems.external.dspy_target import (
    USUAL_ANSWERS,
    LoadedModule,
    check_inputs,
    choose_answer_field,
    describe_answer_choice,
    is_async,
)


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
