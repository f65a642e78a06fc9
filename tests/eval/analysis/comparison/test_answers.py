"""What a comparison keeps of a run's answers, attempts and epochs included."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.answers import (
    MAX_TEXT_CHARS,
    Answers,
    GivenAnswer,
    build_answers,
    collect_answers,
    read_answers,
)
from eval.runs.record import ExtraScore, PlannedQuestion, Record, Usage
from eval.runs.run_info import digest_questions, digest_task
from eval.runs.store import RunStore
from tests.eval.stored_run import CONFIG, answered, stored_run


def given(answer: str | None = "17", **changes: Any) -> GivenAnswer:
    return GivenAnswer.from_record(answered("q1", answer, **changes))


def test_an_answer_is_its_value_and_its_cut_text() -> None:
    right, wrong, half = given("17"), given("18"), given("x" * (MAX_TEXT_CHARS + 1), score=0.5)
    assert [(each.value, each.correct) for each in (right, wrong, half)] == [(1.0, True), (0.0, False), (0.5, False)]
    assert (right.text, half.text) == ("17", "x" * MAX_TEXT_CHARS)
    assert (right.error_class, right.unreadable, right.format_lost, right.leaked) == (None, False, False, False)
    assert given(None).text == ""
    assert given("x" * MAX_TEXT_CHARS).text == "x" * MAX_TEXT_CHARS
    assert given("17", leaks=[{"kind": "title"}]).leaked


def test_an_answer_of_which_no_more_is_known_met_nothing_and_used_no_tools_results() -> None:
    bare = GivenAnswer(1, 0.5, "17", None, False, False, 1.0, 9, None, 0)
    assert (bare.leaked, bare.cached_tool_calls, bare.extra, bare.correct) == (False, 0, (), False)
    answers = Answers({}, {"q1": {1: bare}}, epochs=1)
    assert answers.count_leaked(["q1", "q2"]) == 0 and answers.question_ids == frozenset()
    assert (answers.scorer, answers.extra_scorers, answers.files) == (None, {}, {})
    assert (answers.questions_sha256, answers.n_missing, answers.labels) == ("", 0, ())


def test_an_answer_is_read_from_a_record_whole() -> None:
    record = answered(
        "q1", "18", score=0.5, attempt=3, wall_seconds=7.5, waited_seconds=2.0, parts={"format_loss": 0.25},
        usage=Usage(2, input_tokens=10, output_tokens=5, cost_usd=0.5, cached_calls=1, cached_tool_calls=4),
        leaks=[{"tool": "search", "source": "x"}],
        extra_scores={"graded": ExtraScore(0.25), "failed": ExtraScore(None, error="down")},
    )  # fmt: skip
    assert GivenAnswer.from_record(record) == GivenAnswer(
        attempt=3, value=0.5, text="18", error_class=None, unreadable=False, format_lost=True, seconds=5.5, tokens=15,
        cost_usd=0.5, cached_calls=1, leaked=True, cached_tool_calls=4, extra=(("graded", 0.25), ("failed", 0.0)),
    )  # fmt: skip


def test_a_failure_has_a_class_and_no_text() -> None:
    failed = given("17", error="it broke", error_class="tool", score=0.0)
    assert (failed.text, failed.error_class, failed.value, failed.unreadable) == ("", "tool", 0.0, False)
    assert given(error="it broke", score=0.0).error_class == "unknown"


@pytest.mark.parametrize(("error_class", "expected"), [("malformed", True), ("truncated", True), ("tool", False)])
def test_a_reply_that_cannot_be_read_is_lost_by_its_format(error_class: str, expected: bool) -> None:
    failed = given(error="it broke", error_class=error_class, score=0.0)
    assert (failed.unreadable, failed.format_lost) == (expected, expected)


def test_a_wrong_answer_may_be_lost_by_its_format_alone() -> None:
    lost = given("17 metres", parts={"format_loss": 1.0})
    assert (lost.unreadable, lost.format_lost) == (False, True)
    assert not given("17 metres", parts={"format_loss": 0.0}).format_lost


def test_time_is_that_of_work_and_cost_is_known_or_not() -> None:
    usage = Usage(3, input_tokens=10, output_tokens=2, cost_usd=0.25, cached_calls=1)
    spent = given(wall_seconds=5.0, waited_seconds=2.0, usage=usage)
    assert (spent.seconds, spent.cost_usd, spent.cached_calls, spent.tokens) == (3.0, 0.25, 1, 12)
    assert given(wall_seconds=1.0, waited_seconds=2.0).seconds == 0.0
    assert given(usage=Usage(3, cost_usd=None)).cost_usd is None
    assert given(usage=Usage(0, cost_usd=None)).cost_usd == 0.0, "no call was made"


def test_the_verdict_is_that_of_the_last_attempt_and_the_usage_that_of_all() -> None:
    usage = Usage(1, input_tokens=10, output_tokens=2, cost_usd=0.5, cached_calls=1, cached_tool_calls=2)
    first = answered("q1", "18", wall_seconds=1.0, usage=usage)
    second = answered("q1", "17", attempt=2, wall_seconds=2.0, usage=usage)
    for records in ([first, second], [second, first]):
        found = collect_answers(records)["q1"][1]
        assert (found.attempt, found.text, found.seconds, found.cost_usd) == (2, "17", 3.0, 1.0)
        assert (found.tokens, found.cached_calls, found.cached_tool_calls) == (24, 2, 4)
    unknown = replace(first, usage=Usage(1, cost_usd=None))
    assert collect_answers([unknown, second])["q1"][1].cost_usd is None
    assert collect_answers([second, unknown])["q1"][1].cost_usd is None


def in_epochs(*values: float | None) -> Answers:
    records = [
        answered("q1", "17", epoch=epoch, score=value, extra_scores={"graded": ExtraScore(value / 2)})
        for epoch, value in enumerate(values, 1)
        if value is not None
    ]
    return replace(build_answers(records), epochs=len(values))


def test_a_missing_epoch_is_none_and_counts_as_wrong_unless_it_is_left_out() -> None:
    answers = in_epochs(1.0, None, 0.5)
    assert [each and each.value for each in answers.list_epochs("q1")] == [1.0, None, 0.5]
    assert [each and each.value for each in answers.list_epochs("q1", with_missing=False)] == [1.0, 0.5]
    assert answers.list_scores("q1") == (1.0, 0.0, 0.5)
    assert answers.list_scores("q1", with_missing=False) == (1.0, 0.5)
    assert answers.list_scores("q1", extra="graded") == (0.5, 0.0, 0.25)
    assert answers.list_scores("q1", extra="other") == (0.0, 0.0, 0.0)
    assert answers.list_epochs("q2") == [None] * 3 and answers.list_epochs("q2", with_missing=False) == []


def test_questions_that_met_a_giveaway_in_any_epoch_are_counted_once() -> None:
    clean, met = answered("q1", "17"), answered("q2", "17", leaks=[{"kind": "title"}])
    again = answered("q2", "17", epoch=2, leaks=[{"kind": "title"}])
    answers = build_answers([clean, met, again])
    assert answers.count_leaked(["q1", "q2"]) == 1 and answers.count_leaked(["q1"]) == 0
    assert answers.epochs == 2


def test_a_question_without_a_target_is_none_of_a_comparison() -> None:
    answers = build_answers([answered("q1", "17"), answered("q2", "17", gold=None)], {"name": "exact"})
    assert answers.question_ids == {"q1"} and answers.scorer == {"name": "exact"}
    assert build_answers([]).epochs == 1


def test_a_stored_run_knows_what_it_has_not_come_to(tmp_path: Path) -> None:
    records: list[Record] = [answered("q1", "17"), answered("q1", "17", epoch=2), answered("q2", "18")]
    folder = stored_run(tmp_path, records, planned=["q1", "q2", "q3"], epochs=2, labels=["17", "18"])
    with RunStore(folder / "run.db", read_only=True) as store:
        answers = read_answers(store)
    assert (answers.epochs, answers.n_missing, answers.labels) == (2, 3, ("17", "18"))
    assert answers.scorer == CONFIG["scorer"] and answers.extra_scorers == answers.files == {}
    assert answers.given["q2"][1].text == "18" and answers.questions["q3"].question == "What is q3?"
    assert answers.question_ids == {"q1", "q2", "q3"} and sorted(answers.given) == ["q1", "q2"]
    assert answers.questions_sha256 and answers.task_version != replace(answers, scorer={"other": 1}).task_version


def test_a_stored_runs_extra_scorers_and_attachments_are_those_of_its_configuration(tmp_path: Path) -> None:
    config = {**CONFIG, "extra_scorers": {"graded": {"_target_": "eval.scorers.numeric.NumericScorer"}}}
    records = [answered("q1", "17"), answered("q2", "17", gold=None)]
    folder = stored_run(tmp_path, records, config=config, file_sha256={"q1": "f" * 64})
    with RunStore(folder / "run.db", read_only=True) as store:
        answers, planned = read_answers(store), store.read_plan()
    assert (answers.extra_scorers, answers.files) == (config["extra_scorers"], {"q1": "f" * 64})
    assert (answers.question_ids, answers.n_missing, answers.labels) == ({"q1"}, 0, ())
    assert answers.questions_sha256 == digest_questions(planned, {"q1": "f" * 64}) != digest_questions(planned, {})
    assert answers.task_version == digest_task(answers.questions_sha256, config["scorer"])


def test_answers_are_built_from_records_with_their_questions() -> None:
    record = answered("q1", "17", file="a.txt", level="2", epoch=2)
    answers = build_answers(iter([record, replace(record, epoch=1, answer="18")]))
    assert answers.questions == {"q1": PlannedQuestion("q1", "What is q1?", "a.txt", "17", "2")}
    assert {epoch: each.text for epoch, each in answers.given["q1"].items()} == {2: "17", 1: "18"}
    assert (answers.epochs, answers.scorer) == (2, None)
