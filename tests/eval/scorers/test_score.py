"""The metric's value of an answer, and its name."""

import pytest

from eval.scorers.score import join_metrics, name_metric, read_scorer_name, read_value


@pytest.mark.parametrize(
    ("score", "value"), [(None, 0.0), (0.0, 0.0), (0.5, 0.5), (1, 1.0), (float("nan"), 0.0), (2.0, 1.0), (-1.0, 0.0)]
)
def test_what_is_no_score_counts_nothing(score: float | None, value: float) -> None:
    assert read_value(score) == value


@pytest.mark.parametrize(
    ("scorer", "values", "name"),
    [
        ("exact", [0.0, 1.0], "accuracy"),
        (None, [], "accuracy"),
        ("function", [0.0, 1.0], "accuracy"),
        ("function", [0.0, 0.5], "mean score"),
        ("token_f1", [0.0, 1.0], "mean token F1"),  # by its nature, whatever was seen so far
        ("rouge_l", [], "mean ROUGE-L"),
    ],
)
def test_a_mean_of_graded_scores_is_never_called_accuracy(scorer: str | None, values: list[float], name: str) -> None:
    assert name_metric(scorer, values) == name


def test_runs_of_different_metrics_have_a_mean_score() -> None:
    assert join_metrics(["accuracy", "accuracy"]) == "accuracy"
    assert join_metrics(["accuracy", "mean token F1"]) == "mean score"
    assert join_metrics([]) == "accuracy"


def test_a_scorer_is_named_as_on_the_command_line() -> None:
    assert read_scorer_name({"_target_": "eval.scorers.token_f1.TokenF1Scorer"}) == "token_f1"
    assert read_scorer_name({"_target_": "my_rules.judge.Judge"}) == "my_rules.judge.Judge"
    assert read_scorer_name(None) is None and read_scorer_name({}) is None
