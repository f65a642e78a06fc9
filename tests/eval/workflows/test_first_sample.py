"""When the first question goes alone, and what of it would fail all others."""

from dataclasses import replace

import pytest

from eval.config.evaluation import EvalConfig, read_config
from eval.runs.record import ErrorDetails
from eval.workflows.first_sample import FEW, describe_fault, runs_first_alone
from tests.eval.config.test_evaluation import composed
from tests.eval.stored_run import answered

PAID = ("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1", "model.name=mine", "system=gaia")


@pytest.fixture(scope="module")
def config() -> EvalConfig:
    return read_config(composed(*PAID, "run.max_same_errors=10"))


def test_a_few_answers_are_not_worth_waiting_for(config: EvalConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.workflows.first_sample.is_measured", lambda config: False)
    assert [runs_first_alone(config, n) for n in (FEW - 1, FEW, FEW + 1)] == [False, False, True]
    assert FEW == 5
    without = replace(config, run=replace(config.run, max_same_errors=None))
    assert not runs_first_alone(without, 100)
    monkeypatch.setattr("eval.workflows.first_sample.is_measured", lambda config: True)
    assert not runs_first_alone(config, 100), "an earlier run has shown that it works"


@pytest.mark.parametrize(
    ("error_class", "kind", "is_fault"),
    [
        ("scorer", None, True),
        ("scorer", "KeyError", True),
        ("infrastructure", "ModuleNotFoundError", True),
        ("infrastructure", "LMInvalidRequestError", True),
        ("infrastructure", "LMTimeoutError", False),
        ("infrastructure", None, False),
    ],
)
def test_a_failure_that_says_nothing_of_the_question_is_a_fault(
    error_class: str, kind: str | None, is_fault: bool
) -> None:
    failed = answered("q1", None, error="it failed", error_class=error_class, error_details=ErrorDetails(kind))
    assert describe_fault(failed) == ("it failed" if is_fault else None)
    assert describe_fault(replace(failed, limit="lm_calls")) is None
    assert describe_fault(replace(failed, error=None)) is None
    bare = replace(failed, error_details=None)
    assert describe_fault(bare) == ("it failed" if error_class == "scorer" else None)
