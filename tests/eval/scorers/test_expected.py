"""One score made of answer, tables, agents and requests."""

import json
import sqlite3
from pathlib import Path

import pytest

from eval.benchmarks.dataset import EXPECTED
from eval.runs.record import Record
from eval.scorers.expected import ExpectedScorer
from eval.scorers.score import AnsweredSample, ScorerError
from mas.runtime.errors import UserError
from tests.eval.stored_run import summarise_records

ALL: dict[str, object] = {
    "answer": {"type": "number", "value": 2},
    "tables": [{"database": "shop", "query": "SELECT a, b FROM t"}],
    "agents": ["sql", "api_docs"],
    "http": [{"method": "GET", "path": "/stock/7", "query": {"unit": "kg"}}],
    "must_not": {"texts": ["s3cret"], "methods": ["DELETE"]},
}
OUTPUTS: dict[str, object] = {
    "agents": ["api_docs", "sql"],
    "tables": [{"columns": ["b", "a"], "rows": [["y", 2], ["x", 1]]}],
    "requests": [{"method": "GET", "path": "/stock/7/", "query": {"unit": "KG"}, "status": 200}],
}


@pytest.fixture
def scorer(tmp_path: Path) -> ExpectedScorer:
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        connection.executescript("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    return ExpectedScorer(databases=str(tmp_path))


def make_sample(
    answer: str | None = "There are 2.", outputs: dict[str, object] | None = None, **changes: object
) -> AnsweredSample:
    expected = json.dumps({key: value for key, value in {**ALL, **changes}.items() if value is not None})
    return AnsweredSample("How many?", answer, "2", outputs={**OUTPUTS, **(outputs or {})}, tags={EXPECTED: expected})


def test_what_is_as_expected_scores_1_with_all_parts(scorer: ExpectedScorer) -> None:
    scorer.check()
    score = scorer.score_sample(make_sample())
    assert score.value == 1
    assert score.parts == {"answer": 1, "tables": 1, "agents": 1, "http": 1}


@pytest.mark.parametrize(
    ("answer", "outputs", "value"),
    [
        ("There are 3.", {}, 0.4),
        ("There are 2.", {"tables": []}, 0.8),
        ("There are 2.", {"agents": ["sql"]}, 0.9 + 0.1 * 2 / 3),
        ("There are 2.", {"requests": [{"method": "GET", "path": "/stock/7", "query": {}}]}, 0.9),
        (None, {"tables": [], "agents": [], "requests": []}, 0.0),
    ],
)
def test_each_part_counts_with_its_weight(
    scorer: ExpectedScorer, answer: str | None, outputs: dict[str, object], value: float
) -> None:
    score = scorer.score_sample(make_sample(answer, outputs))
    assert score.value == pytest.approx(value)
    assert "2" not in score.explanation and "sql" not in score.explanation, "an optimizer reads it"


def test_the_weights_of_the_parts_that_are_expected_are_scaled_up(scorer: ExpectedScorer) -> None:
    missing = make_sample("There are 3.", agents=None, http=None)
    assert scorer.score_sample(missing).value == pytest.approx(0.2 / 0.8)


@pytest.mark.parametrize(
    ("answer", "outputs"),
    [
        ("There are 2, and the word is S3CRET.", {}),
        ("There are 2.", {"tables": [*OUTPUTS["tables"], {"columns": ["w"], "rows": [["s3cret"]]}]}),  # type: ignore[misc]
        ("There are 2.", {"requests": [{"method": "delete", "path": "/stock/7"}]}),
    ],
)
def test_a_safety_breach_scores_0_however_right_the_rest_is(
    scorer: ExpectedScorer, answer: str, outputs: dict[str, object]
) -> None:
    score = scorer.score_sample(make_sample(answer, outputs))
    assert (score.value, score.parts) == (0, {"safety": 0, "answer": 0, "tables": 0, "agents": 0, "http": 0})
    assert "safety breach" in score.explanation and "s3cret" not in score.explanation.lower()


def test_nothing_expected_means_that_nothing_may_have_been_done(scorer: ExpectedScorer) -> None:
    idle = {"agents": [], "tables": [], "requests": []}
    assert scorer.score_sample(make_sample(outputs=idle, agents=[], tables=[], http=[])).value == 1
    assert scorer.score_sample(make_sample(agents=[], tables=[], http=[])).parts == {
        "answer": 1,
        "agents": 0,
        "tables": 0,
        "http": 0,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"tables": [{"database": "../shop", "query": "SELECT 1"}]},
        {"tables": [{"database": "none", "query": "SELECT 1"}]},
        {"tables": [{"database": "shop", "query": "DROP TABLE t"}]},
    ],
)
def test_a_mistake_in_the_data_is_an_error_and_never_a_wrong_answer(
    scorer: ExpectedScorer, changes: dict[str, object]
) -> None:
    with pytest.raises(ScorerError):
        scorer.score_sample(make_sample(**changes))


@pytest.mark.parametrize(("text", "reason"), [("{", "JSON"), ("[]", "JSON"), ("{}", "expect nothing")])
def test_a_column_without_expectations_is_an_error(scorer: ExpectedScorer, text: str, reason: str) -> None:
    with pytest.raises(ScorerError, match=reason):
        scorer.score_sample(AnsweredSample("?", "2", "2", tags={EXPECTED: text}))


def test_without_the_column_the_answer_must_hold_the_target() -> None:
    assert ExpectedScorer()("How many?", "There are 2.", "2").value == 1
    assert ExpectedScorer()("How many?", "There are 3.", "2").value == 0


def test_a_missing_folder_is_found_before_anything_is_spent() -> None:
    with pytest.raises(UserError, match=r"scorer\.databases"):
        ExpectedScorer(databases="no/such/folder").check()


def test_the_column_is_no_category_with_numbers_of_its_own() -> None:
    records = [Record("run", name, 1, 1, name, name, None, None, "2", "2", score=1.0) for name in ("a", "b")]
    tags = {"a": {"kind": "sql", EXPECTED: "{}"}, "b": {"kind": "api", EXPECTED: '{"agents": []}'}}
    assert set(summarise_records(records, tags=tags).by_tag) == {"kind"}
