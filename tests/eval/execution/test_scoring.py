"""The verdict on a record: of a rule, a judge, an extra scorer, and of one that fails."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from eval.execution.scoring import SCORER, Scoring
from eval.runs.record import ExtraScore, Record
from eval.scorers.score import Score, ScorerError
from tests.eval.stored_run import answered


def rule(question: str, answer: str | None, target: str) -> Score:
    return Score(0.5, f"{answer} is half right", {"form": 1.0})


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
