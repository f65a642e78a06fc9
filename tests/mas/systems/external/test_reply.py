"""What an agent may return."""

from typing import Any

import dspy
import pytest

from mas.runtime.errors import AgentReplyError
from mas.systems.external.program import Reply, read_reply

ANSWERS: list[tuple[Any, Reply]] = [
    ("5", Reply("5")),
    ("", Reply("")),
    (5, Reply("5")),
    (2.5, Reply("2.5")),
    ({"answer": 0}, Reply("0")),
    ({"answer": "5", "reasoning_trace": "2 + 3"}, Reply("5", "2 + 3")),
    ({"final_answer": "5", "answer": "6", "reasoning": "so"}, Reply("5", "so")),
    ({"answer": "5", "reasoning": None, "pages": [3]}, Reply("5", "", {"pages": [3]})),
    ({"answer": "a\ud83d"}, Reply("a?")),
    (dspy.Prediction(answer="5", reasoning="so", pages=[3]), Reply("5", "so", {"pages": [3]})),
    (dspy.Prediction(final_answer="5", final_reasoning_trace="so"), Reply("5", "so")),
]


@pytest.mark.parametrize(("value", "reply"), ANSWERS, ids=[str(value) for value, _ in ANSWERS])
def test_an_answer_is_found_under_its_names(value: Any, reply: Reply) -> None:
    assert read_reply(value, "mine") == reply


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "mine returned None; expected a text, or a dict with an answer"),
        (["5"], "mine returned a list"),
        ({}, "mine gave no answer; expected the key 'answer', and found: none"),
        ({"Answer": "5", "x": 1}, "found: Answer, x"),
        ({"answer": None}, "mine gave no answer"),
        ({"answer": ["5"]}, "mine gave a list as its answer"),
        (dspy.Prediction(result="5"), "found: result"),
    ],
    ids=str,
)
def test_anything_else_is_no_answer(value: Any, words: str) -> None:
    with pytest.raises(AgentReplyError) as caught:
        read_reply(value, "mine")
    assert words in str(caught.value)
