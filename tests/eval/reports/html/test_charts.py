from eval.reports.html.charts import Chart, Point


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
