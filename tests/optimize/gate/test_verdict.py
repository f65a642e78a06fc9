"""What is read from a verdict, also from one of an earlier version."""

from typing import Any

import pytest

from eval.cli.command import FAILURES, FINISHED, STOPPED
from optimize.gate.verdict import (
    EarlyVerdictError,
    SideNumbers,
    compute_exit_code,
    describe_null_control,
    get_score,
    list_checks,
)


@pytest.mark.parametrize(
    ("resumable", "reason", "code"),
    [
        (True, "budget", STOPPED),
        (True, "metric_errors", STOPPED),
        (False, "metric_errors", FAILURES),
        (False, "reflection_unparsable", FAILURES),
        (False, "improved", FINISHED),
        (False, "budget", FINISHED),
    ],
)
def test_a_run_that_could_judge_no_prompts_fails_and_one_that_may_go_on_has_stopped(
    resumable: bool, reason: Any, code: int
) -> None:
    assert compute_exit_code({"resumable": resumable, "finish_reason": reason}) == code


@pytest.mark.parametrize(
    ("verdict", "checks"),
    [
        ({}, []),
        ({"gate": None, "reasons": None}, []),
        ({"reasons": ["no budget"]}, ["no budget"]),
        ({"gate": {}, "reasons": ["no budget"]}, ["no budget"]),
        ({"gate": {"checks": []}, "reasons": ["no budget"]}, ["no budget"]),
        ({"gate": {"checks": ["p: passed"]}, "reasons": ["no budget"]}, ["p: passed"]),
    ],
)
def test_the_checks_are_the_gates_or_else_the_reasons(verdict: dict[str, Any], checks: list[str]) -> None:
    assert list_checks(verdict) == checks


@pytest.mark.parametrize(
    ("side", "score"),
    [({"accuracy": 0.5}, 0.5), ({"accuracy": 0.5, "score": 0.0}, 0.0), ({"accuracy": 0, "score": 1}, 1)],
)
def test_the_result_of_a_side_is_its_score_or_else_its_accuracy(side: SideNumbers, score: float) -> None:
    assert get_score(side) == score


def test_the_null_control_is_told_in_points() -> None:
    assert describe_null_control(-0.025) == (
        "null control: an unchanged copy of the starting prompts gained -2.5 points when the validation questions were "
        "answered again; that is chance alone, so a gain of this size there shows nothing"
    )
    assert "gained +3.0 points" in describe_null_control(0.03)


def test_an_early_verdict_has_its_reason_and_says_why() -> None:
    error = EarlyVerdictError("budget", "The budget is used up.")
    assert (error.finish_reason, str(error)) == ("budget", "The budget is used up.")
