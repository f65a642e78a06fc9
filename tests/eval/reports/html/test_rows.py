import pytest

from eval.reports.html import rows as module
from eval.reports.html.blocks import decode_data
from eval.reports.html.rows import Column, Rows
from eval.reports.html.templates import write_json


def test_values_follow_the_keys_and_the_id_is_the_first() -> None:
    columns = [Column("cause", "lost at", menu=True), Column("n", "n", kind="number")]
    data = Rows("questions", columns, [{"n": 3, "id": "q1", "cause": ["expert"], "other": 1}, {"id": "q2"}]).data
    assert data["keys"] == ["id", "cause", "n"]
    assert data["rows"] == [["q1", ["expert"], 3], ["q2", None, None]]


def test_a_column_is_searched_and_exported_but_has_no_menu_unless_it_says_so() -> None:
    columns = [Column("id", "id"), Column("n", "number", "usd", "70px", menu=True, find=False, export=False)]
    assert Rows("runs", columns, [], "run").data == {
        "name": "runs",
        "noun": "run",
        "columns": [
            {"key": "id", "title": "id", "kind": "text", "width": "1fr", "menu": False, "find": True, "export": True},
            {"key": "n", "title": "number", "kind": "usd", "width": "70px", "menu": True, "find": False,
             "export": False},
        ],
        "keys": ["id", "n"],
        "rows": [],
    }  # fmt: skip
    assert Rows("questions", columns, []).data["noun"] == "question"


def test_rows_are_compressed_where_they_have_more_characters_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows("questions", [Column("n", "n")], [{"id": "q1", "n": 1}])
    size = len(write_json(rows.data))
    monkeypatch.setattr(module, "MAX_PLAIN_CHARS", size)
    assert rows.compressed == ""
    more = Rows("questions", [Column("n", "n")], [{"id": "q1", "n": 10}])
    assert decode_data(more.compressed) == more.data
