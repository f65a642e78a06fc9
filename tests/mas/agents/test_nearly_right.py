"""Replies as small models write them: what can be read in one way only is, the rest is asked for again."""

from enum import Enum
from typing import Any, Literal

import dspy
import pytest

from mas.agents.chat_adapter import cut_end
from mas.agents.nearly_right import read_fields, read_value


class Grade(Enum):
    GOOD = "good"
    BAD = "bad"


Decision = Literal["approve", "reject"]


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        *((text, Decision, "approve") for text in ("Approve.", "APPROVE", "**approve**", "`approve`", "Approve: fine")),
        ("Reject - a step is missing", Decision, "reject"),
        *((text, bool, True) for text in ("True.", "**True**", "true (it is there)", "Yes, it is")),
        *((text, bool, False) for text in ("`false`", "FALSE.", "No - it is absent")),
        ("Good.", Grade, Grade.GOOD),
        *((text, list[str], ["a", "b"]) for text in ("- a\n- b", "* a\n* b", "• a\n• b", "1. a\n2. b", "1) a\n2) b")),
        *((text, list[str], ["a", "b"]) for text in ("[1] a\n[2] b", "- a\n\n- b")),
        ("- a\n  and more\n- b", list[str], ["a\nand more", "b"]),
        ("- 1\n- 2", list[int], [1, 2]),
        *((text, int, 1042) for text in ("1,042", "**1042**", "= 1042", "1,042.", "$1,042")),
        *((text, float, 0.5) for text in ("0.5.", "~0.5", "**0.5**")),
        ("**42**", int | None, 42),
        ("12,345,678,901,234,567,890", int, 12345678901234567890),
    ],
)
def test_a_value_in_another_form_is_what_it_can_only_mean(text: str, kind: Any, meant: object) -> None:
    assert read_value(text, kind) == meant


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(
            (text, Decision)
            for text in (
                "approved",
                "approve or reject",
                "I would approve",
                "Approve: but not yet",
                "approve with changes",
                "approve, reject",
                "Approve. On reflection, reject.",
                "Approve. The plan should be rejected",
                "Approve. It can't be right",
            )
        ),
        *((text, bool) for text in ("not true", "trueish", "")),
        *((text, int) for text in ("42 thousand", "4.5", "forty-two", "1,04", "1 to 3")),
        *((text, float) for text in ("50%", "1/2", "0,5")),
        *(
            (text, list[str])
            for text in ("a, b", "The list:\n- a\n- b", "Sorry, I cannot help.\n\nPlease rephrase.", "")
        ),
    ],
)
def test_what_could_mean_two_things_is_an_error(text: str, kind: Any) -> None:
    with pytest.raises(ValueError):
        read_value(text, kind)


@pytest.mark.parametrize(
    "text",
    [
        "[[## final_answer ##]]\n42\n[[## count ##]]\n3",
        "[[ ## Final_Answer ## ]]\n42\n\n[[ ## Count ## ]]\n3",
        "## Final Answer\n42\n\n## Count\n3",
        "**Final answer:** 42\n**Count:** 3",
        "final_answer: 42\ncount: 3",
        "[ ## final_answer ## ]\n42\n[ ## count ## ]\n**3**",
        "[[ final_answer ## ]] 42\n[[ count ## ]] 3",
        "```[[ ## final_answer ## ]] 42\n[[ ## count ## ]] 3\n```",
        "```markdown\n[[ ## final_answer ## ]]\n42\n[[ ## count ## ]]\n3\n```",
        "[[ ## final_answer ## ]] = '42'\n[[ ## count ## ]] = 3",
        '{"Final_Answer": "42", "Count": "3."}',
        'Here it is:\n{"response": {"final_answer": "42", "count": 3}}',
    ],
)
def test_a_field_is_found_below_a_header_that_is_nearly_right(text: str) -> None:
    assert read_fields(dspy.Signature("question -> final_answer: str, count: int"), text) == {
        "final_answer": "42",
        "count": 3,
    }


@pytest.mark.parametrize("value", [":-)", "==3", "=SUM(A1)", ": x"])
def test_a_sign_that_begins_a_value_stays(value: str) -> None:
    found = read_fields(dspy.Signature("question -> count: int, answer: str"), f"**Count:** 3\nanswer: {value}")
    assert found == {"count": 3, "answer": value}


def test_a_fence_of_a_value_stays() -> None:
    code = "```python\nx\n```"
    found = read_fields(dspy.Signature("question -> count: int, code: str"), f"**Count:** 3\n**Code:**\n{code}")
    assert found == {"count": 3, "code": code}


def test_an_empty_field_is_asked_for_again() -> None:
    assert read_fields(dspy.Signature("question -> reasoning, answer"), "[[ reasoning ]]\nYes\n[[ answer ]]\n") is None


@pytest.mark.parametrize("text", ["42", "The final answer is 42, the count 3.", "**Final answer:** 42", '{"count": 3}'])
def test_a_reply_without_all_fields_is_not_guessed(text: str) -> None:
    assert read_fields(dspy.Signature("question -> final_answer: str, count: int"), text) is None


@pytest.mark.parametrize(
    "end",
    [
        "[[ ## completed ## ]]",
        "\n[[## completed ##]]\nUser: more?",
        "\n[[ completed ## ]] No",
        "\n[[ ## completed ]]",
        "\n[[completed]]",
        "<|im_end|>",
        "</s>",
        "<|eot_id|>\n",
        "<end_of_turn>",
    ],
)
def test_an_end_marker_is_no_part_of_the_answer(end: str) -> None:
    assert cut_end(f"42{end}").strip() == "42"
