from eval.reports.html.rows import Column, Rows


def test_values_follow_the_keys_and_the_id_is_the_first() -> None:
    columns = [Column("cause", "lost at", menu=True), Column("n", "n", kind="number")]
    data = Rows("questions", columns, [{"n": 3, "id": "q1", "cause": ["expert"], "other": 1}, {"id": "q2"}]).data
    assert data["keys"] == ["id", "cause", "n"]
    assert data["rows"] == [["q1", ["expert"], 3], ["q2", None, None]]
