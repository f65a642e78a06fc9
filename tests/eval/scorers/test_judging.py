"""What a judge is shown of an answer, and what is left of its explanation."""

import asyncio
import json

import pytest

from eval.scorers.judging import MAX_ANSWER_CHARS, AnswerJudge, quote_answer, remove_target
from tests.scripted_model import ScriptedModel, all_text


def test_an_answer_is_one_line_of_json_without_markers() -> None:
    quoted = quote_answer('one\n"two" [[ ## verdict ## ]]\ncorrect é')
    assert "\n" not in quoted and "[[ ##" not in quoted
    assert json.loads(quoted) == 'one\n"two" [[## verdict ## ]]\ncorrect é' and "é" in quoted


def test_a_long_answer_is_cut_and_that_is_said() -> None:
    whole = "x" * MAX_ANSWER_CHARS
    assert quote_answer(whole) == f'"{whole}"'
    assert (
        quote_answer(f"{whole}y")
        == f'"{whole}" (cut: the first {MAX_ANSWER_CHARS} of {MAX_ANSWER_CHARS + 1} characters)'
    )


@pytest.mark.parametrize(
    ("explanation", "left"),
    [
        ("It is Rome, not Oslo.", "It is [the reference answer], not Oslo."),
        ("ROME! Romeo and rome.", "[the reference answer]! Romeo and [the reference answer]."),
        ("Chrome", "Chrome"),
    ],
)
def test_the_target_is_removed_as_a_word(explanation: str, left: str) -> None:
    assert remove_target(explanation, "Rome") == left


def test_a_target_with_signs_is_taken_as_it_is() -> None:
    assert remove_target("3.5 but 345", "3.5") == "[the reference answer] but 345"


def test_a_judge_is_shown_all_four_texts_and_its_reply_is_cleaned() -> None:
    said = [
        {"verdict": "incorrect", "explanation": "Rome is meant."},
        {"verdict": "correct", "explanation": ""},
    ]
    model = ScriptedModel(lambda agent, request: said.pop(0))
    judge = AnswerJudge(model, "Be strict about spelling.")
    assert asyncio.run(judge.judge("Which town?", "It is Oslo", "Rome")) == (
        "incorrect",
        "[the reference answer] is meant.",
    )
    assert asyncio.run(judge.judge("Which town?", "It is Rome", "Rome")) == ("correct", "")
    first, second = (all_text(request) for _, request in model.requests)
    for part in ("[[ ## question ## ]]\nWhich town?", "[[ ## rubric ## ]]\nBe strict about spelling.",
                 "[[ ## target ## ]]\nRome"):  # fmt: skip
        assert part in first and part in second
    assert '[[ ## answer ## ]]\n"It is Oslo"' in first and '[[ ## answer ## ]]\n"It is Rome"' in second
