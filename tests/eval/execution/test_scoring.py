"""The verdict on a record: of a rule, a judge, an extra scorer, and of one that fails."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from eval.execution.scoring import SCORER, Scoring, describe_answered
from eval.runs.record import ExtraScore, Record
from eval.scorers.score import AnsweredSample, SampleScorer, Score, ScorerError
from mas.runtime.trace import Trace, record_trace
from tests.eval.stored_run import answered


def rule(question: str, answer: str | None, target: str) -> Score:
    return Score(0.5, f"{answer} is half right", {"form": 1.0})


async def judge(question: str, answer: str | None, target: str) -> Score:
    return Score(1.0, "equal")


def failing(question: str, answer: str | None, target: str) -> Score:
    raise ScorerError(f"cannot compare {target} with secret")


async def slow(question: str, answer: str | None, target: str) -> Score:
    await asyncio.sleep(60)
    raise AssertionError


async def stubborn(question: str, answer: str | None, target: str) -> Score:
    try:
        await asyncio.sleep(60)
    finally:
        return Score(1.0, "too late")  # noqa: B012


def score(scorer: Any, record: Record, **options: Any) -> Record:
    scoring = Scoring(scorer, options.pop("seconds", 60.0), lambda text: text.replace("secret", "***"), **options)
    asyncio.run(scoring.score(record))
    return record


def fresh(**changes: Any) -> Record:
    return replace(answered("q1", "seventeen", gold="8231", score=None, explanation=""), **changes)


def test_a_verdict_fills_in_the_record() -> None:
    made = score(rule, fresh())
    assert (made.score, made.explanation, made.parts, made.error) == (
        0.5, "seventeen is half right", {"form": 1.0}, None
    )  # fmt: skip


def test_a_question_without_a_target_or_in_error_reaches_no_scorer() -> None:
    for record in (fresh(target=None), fresh(error="it failed", error_class="model")):
        assert score(failing, record).score is None
        assert record.error in (None, "it failed")
        assert score(rule, record, extra="second").extra_scores == {}


def test_a_failing_scorer_leaves_the_answer_and_its_reason_without_target_and_secret() -> None:
    made = score(failing, fresh())
    assert made.error is not None and made.answer == "seventeen"
    assert made.score is None and made.error_class == SCORER and made.error_component
    for text in (made.error, made.error_details.stack if made.error_details else ""):
        assert "8231" not in text and "secret" not in text
    assert "***" in made.error


@pytest.mark.parametrize("scorer", [slow, stubborn])
def test_a_scorer_that_takes_too_long_gives_no_verdict_whatever_it_says_then(scorer: Any) -> None:
    made = score(scorer, fresh(), seconds=0.01)
    assert made.score is None and made.error is not None and "0.01" in made.error


def test_an_extra_scorer_has_its_own_entry_and_never_decides() -> None:
    made = score(rule, fresh(score=1.0, explanation="equal"), extra="second")
    assert (made.score, made.explanation) == (1.0, "equal")
    assert made.extra_scores == {"second": ExtraScore(0.5, "seventeen is half right")}
    made = score(failing, fresh(score=1.0), extra="second")
    assert made.error is None and made.score == 1.0
    found = made.extra_scores["second"]
    assert found.value is None and found.error and "8231" not in found.error and "***" in found.error
    unscored = score(rule, fresh(error="no verdict", error_class=SCORER), extra="second")
    assert unscored.extra_scores["second"].value == 0.5, "the answer stands although the first scorer failed"


@pytest.mark.parametrize(
    ("scorer", "options", "names"),
    [(rule, {}, []), (judge, {}, ["function"]), (judge, {"extra": "second"}, ["extra_scorers.second"])],
)
def test_only_a_judge_has_a_span(scorer: Any, options: dict[str, str], names: list[str]) -> None:
    trace = Trace("thread")
    with record_trace(trace):
        score(scorer, fresh(), **options)
    assert [(each.kind, each.name) for each in trace.spans] == [("scorer", name) for name in names]
    assert all(each.outputs == {"value": 1.0, "explanation": "equal"} for each in trace.spans)


@pytest.mark.parametrize(
    ("state", "inputs", "outputs"),
    [
        ({}, {}, {}),
        ({"inputs": {"a": 1}, "outputs": {"b": 2}, "draft": "x"}, {"a": 1}, {"b": 2}),
        ({"inputs": "a", "outputs": [1]}, {}, {}),
        ({"inputs": {"a": 1}, "outputs": None}, {"a": 1}, {}),
    ],
)
def test_a_scorer_reads_the_answer_and_the_named_fields_of_the_state(
    state: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    expected = AnsweredSample("What is q1?", "seventeen", "8231", inputs, outputs, {"kind": "x"})
    assert describe_answered(fresh(state=state), {"kind": "x"}) == expected
    assert describe_answered(fresh(target=None)) == AnsweredSample("What is q1?", "seventeen", "", {}, {}, {})


class Reader(SampleScorer):
    """It reads what the program returned."""

    def __init__(self) -> None:
        self.read: list[AnsweredSample] = []

    def check(self) -> None: ...

    def reads_outputs(self) -> bool:
        return True

    def give_feedback(self, sample: AnsweredSample, predictor: str, trace: object, own_trace: object) -> None: ...

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        raise AssertionError("it reads the whole sample")

    def score_sample(self, sample: AnsweredSample) -> Score:
        self.read.append(sample)
        return Score(0.25, "read")


def test_a_scorer_of_samples_gets_the_tags() -> None:
    scorer, record = Reader(), fresh()
    asyncio.run(Scoring(scorer, 60.0, str).score(record, {"kind": "x"}))
    asyncio.run(Scoring(scorer, 60.0, str).score(record))
    assert [dict(each.tags) for each in scorer.read] == [{"kind": "x"}, {}]
    assert (record.score, record.explanation, record.parts) == (0.25, "read", {})


def test_a_scorer_that_fails_leaves_the_limit_of_the_answer_and_that_of_its_own_is_named() -> None:
    assert score(failing, fresh(limit="tokens")).limit == "tokens"
    made = score(slow, fresh(limit="tokens"), seconds=0.01)
    assert (made.limit, made.error_class, made.error_component) == ("deadline_seconds", "scorer", "scorer")
    extra = score(slow, fresh(score=1.0), seconds=0.01, extra="second").extra_scores["second"]
    assert extra == ExtraScore(None, error="no verdict of the scorer within 0.01 s (run.deadline_seconds)")


def test_all_of_a_scorer_s_failure_is_in_the_record_without_target_and_secret() -> None:
    before = fresh(explanation="of before", parts={"old": 1.0})
    made = score(failing, replace(before))
    details = made.error_details
    assert details is not None and made == replace(
        before, error="the scorer failed (ScorerError: cannot compare [the reference answer] with ***)",
        error_class="scorer", error_component="scorer", error_details=details,
    )  # fmt: skip
    assert (details.type, details.agent, details.step, details.retry_counts) == ("ScorerError", None, None, {})
    *calls, last = details.stack.splitlines()
    assert last == "ScorerError: cannot compare [the reference answer] with ***"
    assert calls[-1].startswith("tests.eval.execution.test_scoring:") and "failing" in calls[-1]


@pytest.mark.parametrize(
    ("changes", "extra", "is_scored"),
    [
        ({}, None, True), ({}, "second", True), ({"target": None}, None, False), ({"target": None}, "second", False),
        ({"target": ""}, None, True),
        ({"error": "x", "error_class": "scorer"}, None, False), ({"error": "x", "error_class": "scorer"}, "b", True),
        ({"error": "x", "error_class": "internal"}, "b", False), ({"error": "", "error_class": "tool"}, None, False),
        ({"error_class": "internal"}, None, True),
    ],
)  # fmt: skip
def test_an_answer_is_judged_if_it_stands_and_there_is_a_target(
    changes: dict[str, Any], extra: str | None, is_scored: bool
) -> None:
    asked: list[tuple[str, str | None, str]] = []

    def ask(question: str, answer: str | None, target: str) -> Score:
        asked.append((question, answer, target))
        return Score(0.5, "half", {"form": 1.0})

    record = fresh(**changes)
    before = replace(record, extra_scores={})
    made = score(ask, record, extra=extra)
    if not is_scored:
        assert (asked, made) == ([], before)
        return
    assert asked == [("What is q1?", "seventeen", record.target)]
    if extra:
        assert made == replace(before, extra_scores={extra: ExtraScore(0.5, "half")})
    else:
        assert made == replace(before, score=0.5, explanation="half", parts={"form": 1.0})
