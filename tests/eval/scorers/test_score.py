"""The metric's value of an answer, and its name."""

import hashlib

import pytest

from eval.scorers.exact import ExactScorer
from eval.scorers.score import (
    AnsweredSample,
    Score,
    has_partial_credit,
    join_metrics,
    name_metric,
    normalise_answer,
    read_scorer_digest,
    read_scorer_name,
    read_value,
)
from mas.agents.source_digest import digest_program


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
        ("expected", [0.0, 1.0], "mean score"),
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
    assert read_scorer_name({"_target_": "eval.scorers.expected.scorer.ExpectedScorer"}) == "expected"
    assert read_scorer_name(None) is None and read_scorer_name({}) is None
    assert read_scorer_name({"_target_": None}) is None and read_scorer_name("eval.scorers.exact.Exact") is None


@pytest.mark.parametrize(
    ("values", "partial"),
    [([], False), ([0.0, 1.0], False), ([0.001], True), ([0.999], True), ([0.0, 0.5, 1.0], True)],
)
def test_partial_credit_is_any_value_strictly_between_nothing_and_all(values: list[float], partial: bool) -> None:
    assert has_partial_credit(values) is partial


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("  Two \n WORDS ", "two words"),
        ("red, Green", "red, green"),
        (" $1,000 ", "1000.0"),
        ("1000", "1000.0"),
        ("50%", "50.0"),
        ("-0", "0.0"),
        ("-2.50", "-2.5"),
        ("inf", "inf"),
        ("NaN", "nan"),
        ("1e999", "1e999"),
        ("1 000", "1 000"),
        ("", ""),
    ],
)
def test_answers_that_are_spelt_otherwise_are_one_text(answer: str, text: str) -> None:
    assert normalise_answer(answer) == text


def test_the_digest_of_a_scorer_is_that_of_its_module_and_of_the_users_source() -> None:
    class WithSource(ExactScorer):
        source_sha256 = "abc"

    WithSource.__module__ = ExactScorer.__module__
    own = digest_program("eval.scorers.exact")
    assert read_scorer_digest(ExactScorer()) == hashlib.sha256(f"{own} ".encode()).hexdigest()
    assert read_scorer_digest(WithSource()) == hashlib.sha256(f"{own} abc".encode()).hexdigest()


def test_a_score_has_no_parts_and_a_sample_no_fields_unless_given() -> None:
    assert Score(1.0, "right").parts == {}
    sample = AnsweredSample("?", None, "x")
    assert (sample.inputs, sample.outputs, sample.tags) == ({}, {}, {})
