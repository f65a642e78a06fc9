import io
from dataclasses import replace

import pytest
from rich.console import Console

from eval.analysis.comparison.answers import GivenAnswer, build_answers
from eval.analysis.comparison.compare_runs import RunComparison
from eval.analysis.comparison.comparison import Flip, compare_answers
from eval.analysis.comparison.differences import Differences
from eval.reports.comparison_table import build_flips_table, describe_verdict, shorten_ids
from tests.eval.stored_run import answered

IDS = ["4b1f0c2a-0d1e-4f8a-9c55-000000000001", "4b1f0c2a-9d1e-4f8a-9c55-000000000002"]


def given(text: str, correct: bool = False, error_class: str | None = None) -> GivenAnswer:
    return GivenAnswer(1, correct, text, error_class, False, False, 1.0, 10, None, 0)


def shown(width: int, *flips: Flip) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    made = compare_answers(*(build_answers([answered("q1", text)]) for text in ("17", "18")))
    comparison = RunComparison("B", "A", replace(made, flips=list(flips)), None, {}, Differences({}, {}, {}), ())
    console.print(build_flips_table(comparison, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def flip(id: str, first: list[GivenAnswer], second: list[GivenAnswer | None]) -> Flip:
    question = "How many crates did Orlen ship in the month of March?\n" * 20
    return Flip(id, "1", question, "17", 1.0, tuple(first), tuple(second))


@pytest.mark.parametrize(("columns", "headings"), [(60, 4), (80, 5), (120, 6)])
def test_what_does_not_fit_into_a_column_is_wrapped_and_not_cut(columns: int, headings: int) -> None:
    long = flip("x" * 36, [given("a long answer " * 30, correct=True)], [given("18")])
    lines = shown(columns, long, flip(IDS[1], [given("17", correct=True)], [given("18")]))
    rows = [line for line in lines if line.startswith("│")]
    first = [row for row in rows if row.split()[1] != "│"]
    assert [row.split()[1] for row in first] == ["xxxxxxxx", "4b1f0c2a"]
    assert all("✗ 18" in row and "17" in row for row in first)
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    answer = " ".join(
        filter(None, (row[1] for row in cells[: cells.index(next(c for c in cells if c[0] == "4b1f0c2a"))]))
    )
    assert answer == f"✓ {'a long answer ' * 14}a…", "200 characters of it"
    assert {len(line) for line in lines if line[0] in "│┃"} <= set(range(columns + 1))
    assert next(line for line in lines if line.startswith("┃")).count("┃") == headings + 1
    assert "whole ids: --json FILE" in lines[-1]


def test_ids_are_cut_as_far_as_they_differ() -> None:
    assert list(shorten_ids(IDS).values()) == ["4b1f0c2a-0", "4b1f0c2a-9"]
    assert list(shorten_ids([IDS[0], "other"]).values()) == ["4b1f0c2a", "other"]
    assert shorten_ids([]) == {}
    assert "whole ids" not in shown(80, flip("q1", [given("17", correct=True)], [given("18")]))[-1]
    some_cut = [flip(id, [given("17", correct=True)], [given("18")]) for id in ("q1", "x" * 36)]
    assert "whole ids" in shown(80, *some_cut)[-1]


def test_answers_of_several_epochs_share_a_line() -> None:
    first = [given("17", correct=True), given("18"), given("17", correct=True)]
    lines = shown(120, flip("q1", first, [given("", error_class="malformed"), None, given("18")]))
    row = next(line for line in lines if line.startswith("│"))
    assert "│ ✓✗✓ 17, 18 " in row
    assert "│ !!✗ malformed, not_run, 18 " in row


def verdict(n_comparisons: int = 1, epochs: int = 1) -> list[str]:
    made = compare_answers(
        *(
            build_answers([answered(f"q{n}", text, epoch=epoch) for n in range(2) for epoch in range(1, epochs + 1)])
            for text in ("17", "18")
        )
    )
    comparison = RunComparison("B", "A", made, None, {}, Differences({}, {}, {}), (), 0.04)
    return list(describe_verdict(comparison, n_comparisons))


def test_the_sentence_on_p_says_how_often_was_answered_and_how_often_compared() -> None:
    single = verdict()
    assert single[0].endswith("; 2 questions") and "Holm" not in single[0] and "at least" not in single[0]
    assert verdict(epochs=3)[0].endswith("; 2 questions, each answered at least 3 times")
    assert ", 0.040 as one of 2 comparisons (Holm); 2 questions" in verdict(2)[0]
    assert single[1] == "B is better on 0 questions, worse on 2, equal on 0"
