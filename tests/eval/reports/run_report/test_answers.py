"""Rows of the page: marks, causes, order, and what is written into its blocks."""

from dataclasses import replace
from typing import Any

import pytest

from eval.reports.run_report.answers import AnswerRow, Gathered, gather_answers
from eval.runs.record import NOT_RUN, ErrorDetails, ExtraScore, HumanVerdict, PlannedQuestion, Record, Usage
from tests.eval.reports.html.test_blocks import read
from tests.eval.stored_run import answered


def gather(*records: Record, plan: str = "q1 q2 q3", most: int = 10) -> Gathered:
    return gather_answers(records, [PlannedQuestion(each, "Which?") for each in plan.split()], most)


def row(**changes: Any) -> AnswerRow:
    return gather(answered("q1", "17", **changes)).questions[0].answers[changes.get("epoch", 1)]


def details(**changes: Any) -> dict[str, Any]:
    return read(gather(answered("q1", "17", **changes)).blocks)["steps", 1]


@pytest.mark.parametrize(
    ("changes", "mark", "lost"),
    [
        ({}, "right", ""),
        ({"score": 0.5}, "partial", "program"),
        ({"score": 0.0}, "wrong", "program"),
        ({"score": None}, "wrong", "program"),
        ({"score": 0.0, "limit": "tokens"}, "wrong", "limit tokens"),
        ({"target": None, "score": None}, "unscored", ""),
        ({"error": "it broke", "error_class": "model"}, "error", "error model"),
        ({"error": "too late", "error_class": NOT_RUN}, "not run", "not run"),
    ],
)
def test_each_answer_has_its_mark_and_its_cause(changes: dict[str, Any], mark: str, lost: str) -> None:
    made = row(**changes)
    assert (made.mark, made.lost) == (mark, lost)
    assert ("spent" in details(**changes)) == (mark != "not run")


def test_an_answer_shows_its_explanation_error_place_and_cost() -> None:
    assert row(explanation="equal").why == "equal"
    assert row(score=0.5, explanation="half of it").why == "0.50: half of it"
    assert row(score=0.0, explanation="not equal").why == "not equal"
    failure = ErrorDetails("ValueError", "the stack", step="solve", retry_counts={"critic": 2, "other": 0})
    broken = details(error="it broke", error_component="expert", error_details=failure)
    assert [broken[name] for name in ("error", "failed in", "stack")] == [
        "unknown: it broke", "expert; step solve; rejections critic 2", "the stack"
    ]  # fmt: skip
    assert not {"error", "failed in", "stack"} & details().keys()
    usage = Usage(lm_calls=1, tool_calls=2, input_tokens=30, output_tokens=4, cost_usd=None)
    made = row(usage=usage)
    assert (made.tokens, made.cost_usd) == (34, None)
    assert details(usage=usage)["spent"] == "0.0 s, 1 model call, 2 tool calls, 34 tokens, cost n/a"
    assert row(usage=replace(usage, lm_calls=0)).cost_usd == 0.0, "nothing was sent"
    extra = {"tone": ExtraScore(0.25, "harsh"), "form": ExtraScore(None, error="no verdict")}
    found = details(extra_scores=extra)["extra"]
    assert found == [["scorer tone", "0.25: harsh"], ["scorer form", "not scored: no verdict"]]


def test_questions_come_in_the_datasets_order_with_their_last_attempts() -> None:
    records = [
        answered("q9", "17"), answered("q2", "16", wall_seconds=2.0), answered("q1", "17", epoch=2),
        answered("q1", "16", epoch=1, attempt=1), answered("q1", "17", epoch=1, attempt=2),
        answered("q1", "16", epoch=2, attempt=0), answered("q2", "17", epoch=2, wall_seconds=3.0),
    ]  # fmt: skip
    shown = gather(*records).questions
    assert [each.id for each in shown] == ["q1", "q2", "q9"], "a question that is not of the dataset comes last"
    assert [(each.epoch, each.attempt, each.line) for each in shown[0].in_order] == [(1, 2, "17"), (2, 1, "17")]
    assert [each.id for each in gather(*records, most=1).questions] == ["q1"]


def test_calls_are_written_whole_and_found_from_their_step() -> None:
    system = "You plan. " * 3_000
    call = {
        **{"id": 2, "parent": 1, "kind": "lm", "name": "model", "start_seconds": 0.0, "end_seconds": 0.5},
        "inputs": {"system": system, "messages": [{"role": "user", "parts": [{"text": "Plan!"}, {"image": "a.png"}]}]},
        "outputs": {"role": "assistant", "parts": [{"text": "One."}]},
        "attributes": {"input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5},
    }
    agent = {"id": 1, "parent": None, "kind": "agent", "name": "planner"}
    blocks = read(gather(answered("q1", "17", trajectory=[agent, call])).blocks)
    assert blocks["steps", 1]["steps"][0]["calls"] == [2]
    assert blocks["prompts", 1] == {
        "2": {
            "title": "model · 0.5 s · 7 + 2 tokens · $0.5000",
            "messages": [["system", system], ["user", 'Plan!\n{"image": "a.png"}']],
            "reply": "One.",
            "error": "",
        }
    }


def test_a_wrong_answer_names_the_step_at_which_it_was_lost_and_shows_why() -> None:
    times = {"start_seconds": 0.0, "end_seconds": 1.0}
    spans: list[dict[str, Any]] = [
        {"id": 0, "parent": None, "kind": "agent", "name": "solver", "outputs": {"answer": "16"}, **times},
        {"id": 1, "parent": 0, "kind": "tool", "name": "read_file", "error": "ToolError: damaged", **times},
    ]
    gathered = gather(answered("q1", "16", trajectory=spans))
    assert gathered.answers[0].lost == "tool read_file"
    opened = read(gathered.blocks)["steps", 1]
    assert opened["broken"] == opened["steps"][0]["inner"][0]["span"] == 1
    assert "ToolError: damaged" in opened["evidence"]
    assert "evidence" not in details(trajectory=spans), "a right answer lost nothing"


def test_tags_with_one_value_are_no_filter() -> None:
    plan = [
        PlannedQuestion("q1", "Which?", tags={"source": "web", "year": "1"}),
        PlannedQuestion("q2", "Which?", tags={"source": "mail", "year": "1"}),
    ]
    assert gather_answers([answered("q1", "17"), answered("q2", "17")], plan, 10).tags == ["source"]


def test_what_people_said_is_shown_with_its_provenance() -> None:
    verdict = HumanVerdict("1", "wrong_gold", "ada", "2026-11-23T02:10:00+00:00", "night", "table 2", "17", "16", 0.0)
    pending = HumanVerdict("2", "right", "bob", "2026-11-23T02:11:00+00:00", "night", is_applied=False)
    assert row(human=[verdict, pending]).people == "wrong gold, right"
    assert details(human=[verdict, pending])["people"].split("\n") == [
        "wrong gold: ada, 2026-11-23 02:10 UTC, who saw it in night; gold answer '16' corrected to '17'; "
        "the scorer had given a score of 0; note: table 2",
        "right: bob, 2026-11-23 02:11 UTC, who saw it in night; not applied yet",
    ]
    assert "people" not in details()
