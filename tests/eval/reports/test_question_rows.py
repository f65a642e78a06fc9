"""Rows of the page: marks, order, sums, and steps as far as there is room."""

from dataclasses import replace
from typing import Any

import pytest

from eval.reports import question_rows
from eval.reports.question_rows import AnswerRow, build_question_rows
from eval.runs.record import NOT_RUN, ErrorDetails, ExtraScore, Record, Usage
from tests.eval.stored_run import answered


def row(**changes: Any) -> AnswerRow:
    shown = build_question_rows([answered("q1", "17", **changes)], ["q1"], 10)
    return shown.questions[0].answers[changes.get("epoch", 1)]


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({}, "right"),
        ({"score": 0.5}, "partial"),
        ({"score": 0.0}, "wrong"),
        ({"score": None}, "wrong"),
        ({"target": None, "score": None}, "unscored"),
        ({"error": "it broke", "error_class": "model"}, "error"),
        ({"error": "too late", "error_class": NOT_RUN}, "not run"),
    ],
)
def test_each_answer_has_its_mark(changes: dict[str, Any], mark: str) -> None:
    made = row(**changes)
    assert (made.mark, made.asked) == (mark, mark != "not run")


def test_an_answer_shows_its_explanation_error_place_and_cost() -> None:
    assert row(explanation="equal").why == "equal"
    assert row(score=0.5, explanation="half of it").why == "0.50: half of it"
    assert row(score=0.0, explanation="not equal").why == "not equal"
    details = ErrorDetails("ValueError", "the stack", step="solve", retry_counts={"critic": 2, "other": 0})
    broken = row(error="it broke", error_component="expert", error_details=details)
    assert (broken.why, broken.error_at, broken.stack) == (
        "unknown: it broke", "expert; step solve; rejections critic 2", "the stack"
    )  # fmt: skip
    assert row().error_at == "" and row().stack == ""
    usage = Usage(lm_calls=1, tool_calls=2, input_tokens=30, output_tokens=4, cost_usd=None)
    made = row(usage=usage)
    assert (made.tokens, made.cost_usd, made.calls) == (34, None, "1 model call, 2 tool calls")
    assert row(usage=replace(usage, lm_calls=0)).cost_usd == 0.0, "nothing was sent"
    extra = {"tone": ExtraScore(0.25, "harsh"), "form": ExtraScore(None, error="no verdict")}
    assert row(extra_scores=extra).extra == [("scorer tone", "0.25: harsh"), ("scorer form", "not scored: no verdict")]


def test_questions_come_in_the_datasets_order_with_their_last_attempts() -> None:
    records = [
        answered("q9", "17"), answered("q2", "16", wall_seconds=2.0), answered("q1", "17", epoch=2),
        answered("q1", "16", epoch=1, attempt=1), answered("q1", "17", epoch=1, attempt=2),
        answered("q1", "16", epoch=2, attempt=1), answered("q2", "17", epoch=2, wall_seconds=3.0),
    ]  # fmt: skip
    shown = build_question_rows(records, ["q1", "q2", "q3"], 10).questions
    assert [each.id for each in shown] == ["q1", "q2", "q9"], "a question that is not of the dataset comes last"
    assert [(epoch, answer.attempt, answer.text) for epoch, answer in shown[0].in_order] == [(1, 2, "17"), (2, 1, "17")]
    second = shown[1]
    assert (second.marks, second.seconds, second.cost_usd) == ("right wrong", 5.0, 1.0)
    assert [each.id for each in build_question_rows(records, ["q1", "q2"], 1).questions] == ["q1"]


def agent_steps(name: str) -> list[dict[str, Any]]:
    span = {"id": 1, "parent": None, "kind": "agent", "name": name, "start_seconds": 0.0, "end_seconds": 1.0}
    return [{**span, "inputs": {}, "outputs": {"result": "x" * 400}, "attributes": {}, "events": [], "error": None}]


def fill(records: list[Record], room: int, monkeypatch: pytest.MonkeyPatch) -> question_rows.QuestionRows:
    monkeypatch.setattr(question_rows, "MAX_STEPS_BYTES", room)
    return build_question_rows(records, [], 10)


def test_steps_of_right_answers_make_room_for_those_of_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [answered(f"q{n}", "17" if n < 2 else "16", trajectory=agent_steps("solve")) for n in range(4)]
    whole = fill(records, 10**6, monkeypatch)
    size = len(whole.questions[0].answers[1].steps.encode())
    assert size > 400 and not whole.only_wrong and whole.n_without == 0
    assert all(each.answers[1].steps and each.answers[1].n_spans == 1 for each in whole.questions)
    for room, kept, only_wrong, n_without in (
        (4 * size, [True] * 4, False, 0),
        (4 * size - 1, [False, False, True, True], True, 0),
        (2 * size, [False, False, True, True], True, 0),
        (2 * size - 1, [False, False, True, False], True, 1),
        (size - 1, [False] * 4, True, 2),
    ):
        shown = fill(records, room, monkeypatch)
        assert [bool(each.answers[1].steps) for each in shown.questions] == kept, room
        assert (shown.only_wrong, shown.n_without) == (only_wrong, n_without), room
        assert all(each.answers[1].n_spans == 1 for each in shown.questions)


def test_the_steps_of_an_attempt_that_was_repeated_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    first = answered("q1", "16", trajectory=agent_steps("solve"))
    size = len(fill([first], 10**6, monkeypatch).questions[0].answers[1].steps.encode())
    shown = fill([first, replace(first, attempt=2), replace(first, sample_id="q2")], 2 * size, monkeypatch)
    assert [bool(each.answers[1].steps) for each in shown.questions] == [True, True] and not shown.only_wrong
