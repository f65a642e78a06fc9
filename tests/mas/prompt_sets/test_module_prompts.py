"""Prompts of anyone's module: from it to a prompt set, into another one, and back into plain DSPy, byte for byte."""

import json
from pathlib import Path
from typing import Any, Literal

import dspy
import pydantic
import pytest

import mas_harness
from mas.prompt_sets.prompt_set import (
    PromptSet,
    apply_prompts,
    derive_prompt_set,
    read_prompt_set,
    write_prompt_set,
    write_state,
)
from mas.runtime.errors import UserError

TUNED = "Sort the ticket.\n\n  - Read the title first.\n\tTabs, “quotes” and naïve words stay."


class Ticket(pydantic.BaseModel):
    title: str
    tags: list[str] = []


class Classify(dspy.Signature):
    """Sort a ticket into a category."""

    ticket: Ticket = dspy.InputField(desc="as the customer wrote it")
    hints: list[str] = dspy.InputField(prefix="Look at:")
    label: Literal["billing", "shipping"] = dspy.OutputField(desc="one of the two")
    certainty: float = dspy.OutputField()


class Support(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classify = dspy.ChainOfThought(Classify)
        self.answers = {"long/short": dspy.Predict("label, question -> reply")}


INPUTS = {"ticket": Ticket(title="Late", tags=["a"]), "hints": ["the “title”", "b"]}
DEMO = dspy.Example(augmented=True, **INPUTS, reasoning="It is late.", label="shipping", certainty=0.5, other=object())
LABELLED = dspy.Example(**INPUTS, label="billing", answer="of another predictor")  # as LabeledFewShot makes it
NAMES = ["classify.predict", "answers['long/short']"]


def compiled() -> Support:
    program = Support()
    program.classify.predict.demos = [DEMO, LABELLED]
    program.classify.predict.signature = program.classify.predict.signature.with_instructions(TUNED)
    return program


def messages(program: Support) -> list[Any]:
    """Everything that the predictors would send."""
    inputs: tuple[dict[str, Any], ...] = (INPUTS, {"label": "billing", "question": "Why?"})
    found = zip(program.named_predictors(), inputs, strict=True)
    return [dspy.ChatAdapter().format(each.signature, each.demos, given) for (_, each), given in found]


def test_a_derived_set_changes_nothing_that_is_sent(tmp_path: Path) -> None:
    derived = derive_prompt_set(compiled(), "dspy", "mine:Support")
    assert list(derived.texts) == NAMES
    write_prompt_set(tmp_path / "prompts" / "mine", derived)
    assert read_prompt_set("mine", NAMES, "dspy", tmp_path).demos == derived.demos
    assert messages(apply_prompts(Support(), "mine", tmp_path)) == messages(compiled())
    assert messages(mas_harness.apply_prompts(Support(), tmp_path / "prompts" / "mine")) == messages(compiled())


def test_a_written_state_is_loaded_by_plain_dspy(tmp_path: Path) -> None:
    program = Support()
    derived = derive_prompt_set(compiled(), "dspy", "mine:Support")
    write_prompt_set(tmp_path / "prompts" / "mine", derived)
    write_state(apply_prompts(program, "mine", tmp_path), tmp_path / "new" / "out.json")
    plain = Support()
    plain.load(tmp_path / "new" / "out.json")
    assert messages(plain) == messages(compiled())
    assert [len(each.demos) for _, each in plain.named_predictors()] == [2, 0]


def test_a_set_replaces_what_the_program_had(tmp_path: Path) -> None:
    write_prompt_set(tmp_path / "prompts" / "mine", derive_prompt_set(Support(), "dspy", "mine:Support"))
    assert messages(apply_prompts(compiled(), "mine", tmp_path)) == messages(Support())


class Bare(dspy.Module):
    def forward(self, question: str) -> str:
        return question


class Silent(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = dspy.Predict(dspy.Signature("question -> answer", "x").with_instructions(" "))


@pytest.mark.parametrize(
    ("module", "sentence"),
    [(Bare, "a:B has no predictors, so there are no prompts to tune"), (Silent, "step has no instructions; give its")],
)
def test_a_module_without_prompts_is_refused(module: type[dspy.Module], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        derive_prompt_set(module(), "dspy", "a:B")


def test_a_set_for_another_program_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    shelf = tmp_path / "prompts"
    texts = dict.fromkeys(NAMES, "Another text.")
    write_prompt_set(shelf / "other", PromptSet("other", "dspy", {"solve": "Solve."}, shelf))
    write_prompt_set(shelf / "fields", PromptSet("f", "dspy", texts, shelf, demos={NAMES[1]: [{"colour": "red"}]}))
    program, before = compiled(), messages(compiled())
    for name, sentence in {
        "other": r"for the predictors solve, but this program has answers\['long/short'\], classify.predict; choose",
        "fields": r"Example 1 of 'answers\['long/short'\]' .* has the unknown field colour \(known are label, question",
        "nowhere": r"There is no prompt set 'nowhere'; give the name .*available: fields, other",
    }.items():
        with pytest.raises(UserError, match=sentence):
            apply_prompts(program, name, tmp_path)
    assert messages(program) == before


def test_no_file_is_overwritten_by_a_state(tmp_path: Path) -> None:
    place = tmp_path / "out.json"
    place.write_text(json.dumps({"mine": 1}))
    for path, sentence in {place: "is there already", tmp_path / "out.pkl": "does not end with .json"}.items():
        with pytest.raises(UserError, match=sentence):
            write_state(Support(), path)
    assert json.loads(place.read_text()) == {"mine": 1}
