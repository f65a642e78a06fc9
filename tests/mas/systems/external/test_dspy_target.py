"""The output of a user's program that is its answer."""

import pytest

from mas.systems.external.dspy_target import USUAL_ANSWERS, choose_answer_field


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
