"""Tests of what a computation's outcome is described as, without the sandbox around it."""

import datetime
import json
import math
from decimal import Decimal
from types import ModuleType
from typing import cast

import numpy
import pandas
import pytest

from mas.systems.bos.computation.capture import _mas_capture


class Hostile:
    """A value whose own methods fail."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def capture(variables: dict[str, object], has_value: bool = False, max_chars: int = 2000) -> dict[str, object]:
    return cast(dict[str, object], json.loads(_mas_capture(variables, has_value, max_chars)))


def table(outcome: object, max_chars: int = 2000) -> object:
    captured = capture({"result": outcome}, max_chars=max_chars)
    assert captured["table"] is None or captured["value"] is None, "a table is no value as well"
    return captured["table"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, None),
        (True, True),
        ("a" * 501, "a" * 500),
        (numpy.int64(7), 7),
        (numpy.float64(0.5), 0.5),
        (10**300 - 1, 10**300 - 1),
        (10**300, "int"),
        (-(10**300), "int"),
        (math.nan, None),
        (math.inf, "inf"),
        (Decimal("3.0"), 3),
        (Decimal("3.5"), 3.5),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (1 + 2j, "(1+2j)"),
        (numpy.array([1, 2]), "[1 2]"),
        (range(600), "range(0, 600)"),
        ({"b" * 600}, str({"b" * 600})[:500]),
        (Hostile(), None),
    ],
)
def test_a_single_outcome_is_a_value(value: object, cell: object) -> None:
    captured = capture({"result": value})
    assert (captured["value"], captured["table"]) == (cell, None)
    assert type(captured["value"]) is type(cell)


def test_the_last_expression_counts_before_a_variable_called_result() -> None:
    variables: dict[str, object] = {"_": 1, "result": 2}
    assert (capture(variables, has_value=True)["value"], capture(variables)["value"]) == (1, 2)
    assert capture({"_": 1})["value"] is capture({"result": 2}, has_value=True)["value"] is None


@pytest.mark.parametrize(
    ("value", "columns", "rows"),
    [
        ({"a": [1, 2], "b": ("x", "y")}, ["a", "b"], [[1, "x"], [2, "y"]]),
        ([{"a": 1}, {"b": 2, "a": 3}], ["a", "b"], [[1, None], [3, 2]]),
        (({"a": 1},), ["a"], [[1]]),
        (pandas.DataFrame({"a": [1, 2]}), ["a"], [[1], [2]]),
        (pandas.DataFrame({"a": [1]}, index=["x"]), ["index", "a"], [["x", 1]]),
        (pandas.Series([4, 5], name="n"), ["index", "n"], [[0, 4], [1, 5]]),
    ],
)
def test_an_outcome_of_rows_or_columns_is_a_table(value: object, columns: list[str], rows: list[object]) -> None:
    assert table(value) == {"columns": columns, "rows": rows, "truncated": False}


@pytest.mark.parametrize("value", [{}, [], {"a": [1], "b": [1, 2]}, {"a": 1}, [{"a": 1}, 2], "text", [1, 2]])
def test_others_are_none(value: object) -> None:
    assert table(value) is None


def test_a_long_table_ends_with_the_last_whole_row_that_has_room() -> None:
    rows = [{"n": "x" * 95} for _ in range(20)]
    row_chars = len(json.dumps(["x" * 95]))
    for more, kept in ((0, 10), (-1, 9)):
        found = cast(dict[str, object], table(rows, max_chars=2 * (10 * row_chars + more)))
        assert len(cast(list[object], found["rows"])) == kept and found["truncated"] is True
    assert cast(dict[str, object], table(rows, max_chars=2 * 20 * row_chars))["truncated"] is False


def test_variables_are_told_without_those_that_are_no_data() -> None:
    variables: dict[str, object] = {
        "math": ModuleType("math"),
        "f": lambda: None,
        "g": len,
        "K": Hostile,
        "_private": 1,
        "broken": Hostile(),
        "n": 3,
        "text": "t" * 300,
    }
    assert capture(variables)["locals"] == {"n": 3, "text": "t" * 200}


def test_variables_end_where_their_quarter_of_the_room_is_full() -> None:
    variables: dict[str, object] = {f"v{n}": "x" * 90 for n in range(10)}
    each = len(json.dumps(["v0", "x" * 90]))
    for more, kept in ((0, 3), (-1, 2)):
        assert len(cast(dict[str, object], capture(variables, max_chars=4 * (3 * each + more))["locals"])) == kept


class Marked:
    """A value with what parts of a library's value have."""

    def __init__(self, **parts: object) -> None:
        vars(self).update(parts)

    def __str__(self) -> str:
        return "marked"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (Marked(item=lambda: 7), "marked"),
        (Marked(dtype="i8"), "marked"),
        (Marked(item=lambda: 7, dtype="i8"), "marked"),
        (Marked(item=lambda: 7, dtype="i8", ndim=1), "marked"),
        (Marked(item=lambda: 7, dtype="i8", ndim=0), 7),
        (Marked(to_frame=None), "marked"),
        (Marked(index=None), "marked"),
        (Marked(itertuples=None), "marked"),
        (Marked(columns=None), "marked"),
        (numpy.float64("nan"), None),
        (numpy.float64("-inf"), "-inf"),
        (-math.inf, "-inf"),
        (False, False),
        ("", ""),
        (Decimal("-2.50"), -2.5),
        (Decimal("1E+301"), "int"),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
        (["x" * 600], str(["x" * 600])[:500]),
    ],
)
def test_a_value_is_known_by_all_that_its_kind_has(value: object, cell: object) -> None:
    captured = capture({"result": value})
    assert (captured["value"], captured["table"]) == (cell, None)


@pytest.mark.parametrize(
    "value", [{}, [], (), {"a": [1], "b": [1, 2]}, {"a": [1], "b": 2}, {"a": 1}, [{"a": 1}, 2], [2, {"a": 1}], [1, 2]]
)
def test_what_has_not_the_form_of_a_table_is_a_value_in_words(value: object) -> None:
    assert capture({"result": value}) == {"locals": {"result": str(value)}, "value": str(value), "table": None}


def test_a_frame_s_own_index_is_a_column_and_the_rows_are_its_values() -> None:
    frame = pandas.DataFrame({"a": [1.5, math.nan], 2: ["x", None]}, index=[7, 9])
    assert table(frame) == {
        "columns": ["index", "a", "2"],
        "rows": [[7, 1.5, "x"], [9, None, None]],
        "truncated": False,
    }
    assert table({1: [Decimal("2.0")], "b": ["y" * 501]}) == {
        "columns": ["1", "b"],
        "rows": [[2, "y" * 500]],
        "truncated": False,
    }
    assert table([{1: datetime.date(2026, 1, 2)}, {"b": True}]) == {
        "columns": ["1", "b"],
        "rows": [["2026-01-02", None], [None, True]],
        "truncated": False,
    }
    assert table({"a": [], "b": []}) == {"columns": ["a", "b"], "rows": [], "truncated": False}


def test_an_outcome_whose_own_methods_fail_is_nothing_and_the_variables_stay() -> None:
    assert capture({"n": 1, "result": Hostile(), "last": 2}) == {
        "locals": {"n": 1, "last": 2},
        "value": None,
        "table": None,
    }


def test_a_variable_too_long_for_the_room_ends_them() -> None:
    assert capture({"a": 1, "b": "x" * 201, "c": 2}, max_chars=800)["locals"] == {"a": 1}
    assert capture({"a": 1, "b": "x" * 201, "c": 2}, max_chars=1200)["locals"] == {"a": 1, "b": "x" * 200, "c": 2}
    assert capture({"a": 1}, max_chars=0) == {"locals": {}, "value": None, "table": None}
