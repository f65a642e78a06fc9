"""Rows of a comparison: which questions are kept, their order, and what a comparison sees in each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.compare_runs import ReadRun, read_runs
from eval.reports.run_comparison.rows import ComparedQuestion, gather_runs, name_outcome
from eval.reports.run_report.answers import QuestionRow
from eval.runs.record import Record
from mas.runtime.errors import UserError
from tests.eval.reports.html.test_blocks import read
from tests.eval.stored_run import answered, stored_run

QUESTION = QuestionRow("q", "1", "Which?", "", "17", {})


def runs(folder: Path, *sides: list[Record], epochs: int = 1) -> list[ReadRun]:
    return read_runs([stored_run(folder / f"r{n}", each, epochs=epochs) for n, each in enumerate(sides)])


def answers(texts: str, **changes: Any) -> list[Record]:
    """To a, b, c, …: R is right, W wrong, and of a dot there is none."""
    values = {"R": "17", "W": "3"}
    return [answered(id, values[each], **changes) for id, each in zip("abcdef", texts, strict=False) if each != "."]


@pytest.mark.parametrize(
    ("means", "outcome"),
    [
        ((1, 1), "all right"), ((0, 0), "all wrong"), ((0.5, 0.5), "equal in part"), ((0.5, 1), "better in B"),
        ((1, 0), "better in A"), ((0, 0.5), "better in B"), ((1, 1, 1), "all right"), ((0, 0, 0), "all wrong"),
        ((1, 0, 1), "runs disagree"), ((0.5, 0.5, 0.5), "equal in part"), ((1, 1, 0), "runs disagree"),
    ],
)  # fmt: skip
def test_an_outcome_is_named_by_the_means_of_the_runs(means: tuple[float, ...], outcome: str) -> None:
    assert name_outcome(ComparedQuestion(QUESTION, [], means), "ABC") == outcome


def test_the_spread_is_largest_where_runs_disagree_most() -> None:
    spreads = [ComparedQuestion(QUESTION, [], means).spread for means in ((1, 1), (0.5, 1), (1, 0))]
    assert spreads == [0.0, 0.0625, 0.25]


def test_questions_come_by_spread_losses_first_and_else_in_the_given_order(tmp_path: Path) -> None:
    read_in = runs(tmp_path, answers("RWRRW"), answers("RRWRW"))
    gathered = gather_runs(read_in, list("edcba"), 9)
    assert [each.question.id for each in gathered.questions] == ["c", "b", "e", "d", "a"]
    assert [each.means for each in gathered.questions] == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    assert gathered.n_left_out == 0
    few = gather_runs(read_in, list("abcde"), 3)
    assert ([each.question.id for each in few.questions], few.n_left_out) == (["c", "b", "a"], 2)
    assert gather_runs(read_in, list("abc"), 3).n_left_out == 0


def test_answers_in_error_and_missing_ones_count_as_wrong(tmp_path: Path) -> None:
    broken = replace(answered("a", None, error="down", error_class="model"), score=None)
    read_in = runs(tmp_path, [broken, *answers(".R")], answers("R"))
    gathered = gather_runs(read_in, ["a", "b", "x"], 9)
    assert [(each.question.id, each.means) for each in gathered.questions] == [("b", [1.0, 0.0]), ("a", [0.0, 1.0])]
    assert [[len(given) for given in each.answers] for each in gathered.questions] == [[1, 0], [1, 1]]


def test_the_mean_of_a_run_is_over_its_epochs(tmp_path: Path) -> None:
    first = [*answers("R", epoch=1), *answers("W", epoch=2)]
    (only,) = gather_runs(runs(tmp_path, first, answers("R", epoch=2), epochs=2), ["a"], 1).questions
    assert only.means == [0.5, 1.0]
    assert [[each.epoch for each in given] for given in only.answers] == [[1, 2], [2]]


def test_only_wanted_questions_are_read_and_flips_keep_their_blocks(tmp_path: Path) -> None:
    read_in = runs(tmp_path, answers("RRR"), answers("RWR"))
    gathered = gather_runs(read_in, ["b", "c"], 9)
    keys = {answer.key for each in gathered.questions for given in each.answers for answer in given}
    assert keys == {1, 2, 3, 4} == {key for name, key in read(gathered.blocks) if name == "steps"}
    ranked = [(each.name, list(each.keys)) for each in gathered.blocks.blocks]
    assert ranked == [("steps", [1, 3]), ("prompts", [1, 3]), ("steps", [2, 4]), ("prompts", [2, 4])]


def test_a_store_that_cannot_be_read_is_an_error_of_the_user(tmp_path: Path) -> None:
    read_in, _ = runs(tmp_path, answers("R"), answers("R"))
    with pytest.raises(UserError, match=r"\.$"):
        gather_runs([replace(read_in, folder=tmp_path / "gone")], ["a"], 1)
    assert not (tmp_path / "gone").exists(), "nothing is made"
