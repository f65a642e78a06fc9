import pytest

from eval.reports.html.charts import Chart, Format, Kind, Point, format_number


def test_a_chart_is_a_table_too() -> None:
    chart = Chart(
        "dots",
        "Accuracy by level",
        [Point("level 1", 0.5, low=0.25, high=0.75, note="2 of 4"), Point("level 2", 0.0)],
        x_label="accuracy",
        x_format="percent",
    )
    titles, rows = chart.table
    assert titles == ["", "accuracy", "95% interval", "note"]
    assert rows == [["level 1", "50.0%", "25.0% to 75.0%", "2 of 4"], ["level 2", "0.0%", "", ""]]


def test_a_plane_has_both_values_and_the_groups() -> None:
    chart = Chart(
        "scatter", "t", [Point("a", 0.002, y=0.5, group="g")], x_label="cost", x_format="usd", y_label="score"
    )
    assert chart.table == (["", "group", "cost", "score", "note"], [["a", "g", "$0.0020", "0.5", ""]])


def test_only_what_is_known_is_written() -> None:
    data = Chart("bars", "t", [Point("a", 0.0, low=0.0, high=1.0)], x_mark=0.0).data
    assert data["points"] == [{"label": "a", "x": 0.0, "low": 0.0, "high": 1.0}]
    assert data["x_mark"] == 0.0 and "y_label" not in data


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        (None, "usd", "n/a"),
        (0.12345, "percent", "12.3%"),
        (0.05, "points", "+5.0"),
        (-0.05, "points", "-5.0"),
        (0.99999, "usd", "$1.0000"),
        (1.0, "usd", "$1.00"),
        (-0.5, "usd", "$-0.5000"),
        (-1234.5, "usd", "$-1,234.50"),
        (0.994, "seconds", "0.99 s"),
        (1.0, "seconds", "1.0 s"),
        (1234.56, "seconds", "1,234.6 s"),
        (1234.0, "number", "1,234"),
        (0.12345, "number", "0.1235"),
    ],
)
def test_a_number_has_the_digits_of_its_kind(value: float | None, form: Format, expected: str) -> None:
    assert format_number(value, form) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("lines", "0.5 to 2"), ("scatter", "0.5 to 2"), ("dots", "$0.5000 to $2.00")]
)
def test_bounds_are_of_the_height_in_lines_and_of_the_length_elsewhere(kind: Kind, expected: str) -> None:
    chart = Chart(
        kind, "t", [Point("a", 1.0, y=1.0, low=0.5, high=2.0), Point("b", 1.0, y=1.0, low=0.5)], x_format="usd"
    )
    titles, rows = chart.table
    at = titles.index("95% interval")
    assert [row[at] for row in rows] == [expected, ""]
    assert titles[1] == "value"


def test_one_group_or_one_bound_is_enough_for_its_column() -> None:
    chart = Chart("bars", "t", [Point("a", 1.0), Point("b", 2.0, group="g"), Point("c", 3.0, low=0.5, high=4.0)])
    assert chart.table == (
        ["", "group", "value", "95% interval", "note"],
        [["a", "", "1", "", ""], ["b", "g", "2", "", ""], ["c", "", "3", "0.5 to 4", ""]],
    )


def test_lines_have_both_axes_in_their_own_formats() -> None:
    points = [Point("a", 0.5, y=0.25, low=0.125, high=0.5, note="n"), Point("b", 1.0, y=None, high=0.5)]
    chart = Chart("lines", "t", points, "spent", "share", x_format="usd", y_format="percent")
    assert chart.table == (
        ["", "spent", "share", "95% interval", "note"],
        [["a", "$0.5000", "25.0%", "12.5% to 50.0%", "n"], ["b", "$1.00", "n/a", "", ""]],
    )


def test_everything_that_is_known_of_a_chart_is_written() -> None:
    point = Point("a", 1.0, 2.0, 0.5, 3.0, "g", "right", "note", "#q1")
    chart = Chart("scatter", "t", [point], "x", "y", "usd", "percent", (0, 1), (0, 2), 0.5)
    assert chart.data == {
        "kind": "scatter", "title": "t", "x_label": "x", "y_label": "y", "x_format": "usd", "y_format": "percent",
        "x_domain": (0, 1), "y_domain": (0, 2), "x_mark": 0.5,
        "points": [
            {"label": "a", "x": 1.0, "y": 2.0, "low": 0.5, "high": 3.0, "group": "g", "tone": "right", "note": "note",
             "href": "#q1"},
        ],
    }  # fmt: skip
    assert Chart("bars", "t", []).data == {
        "kind": "bars", "title": "t", "x_format": "number", "y_format": "number", "points": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        (0, "number", "0"), (-3.0, "number", "-3"), (1.5, "number", "1.5"), (1234567.0, "number", "1,234,567"),
        (0.0, "points", "+0.0"), (1.0, "percent", "100.0%"), (0.0, "usd", "$0.0000"), (-1.0, "usd", "$-1.00"),
        (0.0, "seconds", "0 s"), (0.0123, "seconds", "0.012 s"), (None, "seconds", "n/a"),
    ],
)  # fmt: skip
def test_whole_negative_and_missing_numbers_have_their_forms_too(
    value: float | None, form: Format, expected: str
) -> None:
    assert format_number(value, form) == expected


def test_a_table_without_groups_bounds_or_points_has_no_column_for_them() -> None:
    assert Chart("strip", "t", []).table == (["", "value", "note"], [])
    assert Chart("lines", "t", [], "x", "y").table == (["", "x", "y", "note"], [])
    only_high = Chart("bars", "t", [Point("a", 1.0, high=2.0)])
    assert only_high.table == (["", "value", "note"], [["a", "1", ""]]), "a bound alone is no interval"
