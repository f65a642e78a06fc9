"""What the prompts are worth that the search begins with, and what more answers will take."""

from pathlib import Path

import pytest

from eval.runs.record import Record, Usage
from optimize.pipeline.baseline import AnswerMeans, Baseline
from optimize.search.budget import Spend
from tests.optimize.planted_runs import Obedient, Planted, planted_run


def test_each_validation_question_is_asked_once_and_what_it_took_is_known(tmp_path: Path) -> None:
    model = Obedient()
    tuned = planted_run(tmp_path, model=model, optimizer=Planted([]))
    measured = tuned.read("baseline")
    assert (measured["val_score"], measured["n_questions"], measured["lm_calls"]) == (0.2, 10, 3)
    assert measured["ci95"][0] < 0.2 < measured["ci95"][1]
    assert len(model.requests) == 30
    assert measured["cost_usd"] == pytest.approx(tuned.verdict["spend"]["cost_usd"] / 10)
    assert measured["cost_usd"] > 0
    assert "  20.0% of 10 questions" in tuned.out


def test_means_are_of_all_answers_and_one_unknown_cost_makes_the_mean_unknown() -> None:
    def record(calls: int, tokens: int, cost_usd: float | None, seconds: float) -> Record:
        usage = Usage(calls, input_tokens=tokens, output_tokens=1, cost_usd=cost_usd)
        return Record("r", "q", 1, 1, "t", "?", None, None, "x", usage=usage, wall_seconds=seconds)

    known = [record(2, 10, 0.25, 1.0), record(4, 30, 0.75, 3.0)]
    assert AnswerMeans.of(known) == AnswerMeans(lm_calls=3, input_tokens=20, output_tokens=1, cost_usd=0.5, seconds=2.0)
    assert AnswerMeans.of([*known, record(1, 1, None, 1.0)]).cost_usd is None


@pytest.mark.parametrize(("cost_usd", "told"), [(0.01, 1.0), (None, 0.0)])
def test_what_more_answers_will_take(cost_usd: float | None, told: float) -> None:
    measured = Baseline(
        0.5, (0.4, 0.6), 10, lm_calls=3.2, input_tokens=100, output_tokens=10, cost_usd=cost_usd, seconds=2
    )
    assert measured.estimate_spend(100, concurrency=4) == Spend(
        lm_calls=320, input_tokens=10_000, output_tokens=1_000, cost_usd=told, seconds=50.0
    )
