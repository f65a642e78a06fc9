import io
from typing import Any

import pytest
from rich.console import Console

from eval.reports.comparison_table import build_flips_table, shorten_ids

IDS = ["4b1f0c2a-0d1e-4f8a-9c55-000000000001", "4b1f0c2a-9d1e-4f8a-9c55-000000000002"]


def given(text: str, correct: bool = False, error_class: str | None = None) -> dict[str, Any]:
    return {"text": text, "correct": correct, "error_class": error_class}


def shown(width: int, *flips: dict[str, Any]) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(build_flips_table({"run": "B", "against": "A", "flips": list(flips)}, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def flip(id: str, first: list[Any], second: list[Any], target: str = "17") -> dict[str, Any]:
    asked = {"question": "How many crates did Orlen ship in the month of March?\n" * 20, "level": "1"}
    return {"id": id, "target": target, "first": first, "second": second, **asked}


@pytest.mark.parametrize(("columns", "headings"), [(60, 4), (80, 5), (120, 6)])
def test_a_question_takes_one_line_however_long_it_is(columns: int, headings: int) -> None:
    long = flip("x" * 36, [given("a long answer " * 30, correct=True)], [given("18")])
    lines = shown(columns, long, flip(IDS[1], [given("17", correct=True)], [given("18")]))
    rows = [line for line in lines if line.startswith("│")]
    assert [row.split()[1] for row in rows] == ["xxxxxxxx", "4b1f0c2a"]
    assert all("✗ 18" in row and "17" in row for row in rows), "what is short is not cut"
    assert {len(line) for line in lines if line[0] in "│┃"} <= set(range(columns + 1))
    assert next(line for line in lines if line.startswith("┃")).count("┃") == headings + 1
    assert "whole ids: --json FILE" in lines[-1]


def test_ids_are_cut_as_far_as_they_differ() -> None:
    assert list(shorten_ids(IDS).values()) == ["4b1f0c2a-0", "4b1f0c2a-9"]
    assert list(shorten_ids([IDS[0], "other"]).values()) == ["4b1f0c2a", "other"]
    assert shorten_ids([]) == {}
    assert "whole ids" not in shown(80, flip("q1", [given("17", correct=True)], [given("18")]))[-1]


def test_answers_of_several_epochs_share_a_line() -> None:
    first = [given("17", correct=True), given("18"), given("17", correct=True)]
    lines = shown(120, flip("q1", first, [given("", error_class="malformed"), None, given("18")]))
    row = next(line for line in lines if line.startswith("│"))
    assert "│ ✓✗✓ 17, 18 " in row
    assert "│ !!✗ malformed, not_run, 18 " in row
