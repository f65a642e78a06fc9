"""Tests of critics as classifiers, over records put together from a few agents' steps."""

from dataclasses import replace

import pytest

from eval.analysis.attribution import CriticNumbers
from eval.analysis.attribution.critics import count_reviews
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.runs.record import Record
from tests.optimize.simulated_runs import lm, record, step

APPROVED, REJECTED = {"decision": "approve"}, {"decision": "reject: no"}
REPORT = step("researcher", report="It is green.")
RIGHT, WRONG = step("expert", result="17"), step("expert", result="18")
LAST = step("expert_of_form", final_answer="17")


def count(made: Record, critics: tuple[str, ...] = ("critic",)) -> CriticNumbers:
    found = dict[str, CriticNumbers]()
    count_reviews(made, TargetMatcher(made.target or ""), critics, found)
    return found.get("critic", CriticNumbers())


def verdicts(found: CriticNumbers) -> tuple[int, ...]:
    """Approved right and wrong, rejected right and wrong, unknown."""
    return found.approved_right, found.misses, found.false_alarms, found.hits, found.n_unknown


@pytest.mark.parametrize(
    ("draft", "review", "expected"),
    [
        (RIGHT, APPROVED, (1, 0, 0, 0, 0)),
        (WRONG, APPROVED, (0, 1, 0, 0, 0)),
        (RIGHT, REJECTED, (0, 0, 1, 0, 0)),
        (WRONG, REJECTED, (0, 0, 0, 1, 0)),
    ],
)
def test_a_draft_is_judged_by_the_gold_answer(draft: list, review: dict[str, str], expected: tuple[int, ...]) -> None:  # type: ignore[type-arg]
    found = count(record("17", "17", [draft, step("critic", **review), LAST]))
    assert verdicts(found) == expected
    assert found.n_reviews == 1


@pytest.mark.parametrize("review", [APPROVED, REJECTED])
def test_other_work_is_right_if_the_answer_was_and_else_nobody_knows(review: dict[str, str]) -> None:
    steps = [REPORT, step("critic", **review)]
    rejected = review is REJECTED
    right = count(record("17", "17", [*steps, RIGHT, LAST]))
    assert verdicts(right) == (0 if rejected else 1, 0, 1 if rejected else 0, 0, 0)
    assert verdicts(count(record("17", "18", [*steps, WRONG, LAST]))) == (0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("feedback", "quotes"),
    [
        ("Check that the plan is complete and that every step can be carried out.", True),
        ("Please check that the plan is complete and that every step can be carried out by an agent", True),
        ("Step 2 reads a file that the question does not name.", False),
        ("The plan is not complete.", False),
        ("", False),
    ],
)
def test_a_rejection_that_repeats_the_critics_instructions_is_counted(feedback: str, quotes: bool) -> None:
    instructions = "You are a critic. Check that the plan is complete, and that every step can be carried out."
    request = {**lm(), "inputs": {"system": instructions, "messages": []}}
    review = step("critic", request, decision="reject", feedback=feedback)
    found = count(record("17", "18", [REPORT, review, WRONG, LAST]))
    assert (found.n_rejections, found.n_quoting) == (1, int(quotes))


def test_earlier_work_and_work_before_an_error_are_not_judged() -> None:
    twice = [REPORT, step("critic", **REJECTED), REPORT, step("critic", **APPROVED), RIGHT, LAST]
    assert verdicts(count(record("17", "17", twice))) == (1, 0, 0, 0, 1)
    once = record("17", None, [REPORT, step("critic", **APPROVED)], error="gone", error_class="server")
    assert verdicts(count(replace(once, trajectory=record("17", None, twice[2:]).trajectory))) == (0, 0, 0, 0, 1)
    unscored = replace(record("17", "17", [RIGHT, step("critic", **APPROVED), LAST]), target=None, score=None)
    assert verdicts(count(unscored)) == (0, 0, 0, 0, 1)


def test_a_rejection_of_wrong_work_before_a_right_answer_has_recovered_it_once() -> None:
    rejected = [WRONG, step("critic", **REJECTED)]
    found = count(record("17", "17", [*rejected, *rejected, RIGHT, step("critic", **APPROVED), LAST]))
    assert (found.n_reviews, found.n_rejecting, found.n_recovered) == (3, 1, 1)
    lost = count(record("17", "18", [*rejected, WRONG, LAST]))
    assert (lost.n_rejecting, lost.n_recovered) == (1, 0)
    false_alarm = count(record("17", "17", [RIGHT, step("critic", **REJECTED), RIGHT, LAST]))
    assert (false_alarm.n_rejecting, false_alarm.n_recovered) == (1, 0)
    of_a_report = count(record("17", "17", [REPORT, step("critic", **REJECTED), REPORT, RIGHT, LAST]))
    assert (of_a_report.n_rejecting, of_a_report.n_recovered) == (1, 1)
    approved = count(record("17", "17", [RIGHT, step("critic", **APPROVED), LAST]))
    assert (approved.n_rejecting, approved.n_recovered) == (0, 0)


def test_only_declared_critics_count() -> None:
    made = record("17", "17", [RIGHT, step("critic", **APPROVED), LAST])
    assert count(made, critics=("critic",)).n_reviews == 1
    assert count(made, critics=("other",)).n_reviews == 0
