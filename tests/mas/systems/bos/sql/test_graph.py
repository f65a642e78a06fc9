"""Steps of one attempt of the SQL agent: the routes between them, and the texts that they make."""

import asyncio
from typing import Any, cast

import pytest
from langgraph.graph import END

from mas.systems.bos.sql import graph
from mas.systems.bos.sql.databases import QueryResult
from mas.systems.bos.sql.graph import MAX_ROWS_CHARS, SQLAgentState, format_rows, make_feedback, mcp_db_query


def make_result(rows: list[list[object]], **changes: object) -> QueryResult:
    fields = {"success": True, "columns": ["a", "b"], "data": rows, "row_count": len(rows), "truncated": False}
    return cast(QueryResult, {**fields, "error": None, "elapsed_ms": 1.0, **changes})


@pytest.mark.parametrize(
    ("route", "state", "expected"),
    [
        ("route_to_schema", {"metadata": {}}, "call_get_schema"),
        ("route_to_schema", {"metadata": {"schema": ""}}, "call_get_schema"),
        ("route_to_schema", {"metadata": {"schema": "table a"}}, "generate_query"),
        ("route_to_check", {}, END),
        ("route_to_check", {"last_query": None}, END),
        ("route_to_check", {"last_query": "SELECT 1"}, "safety_check"),
        ("route_to_execution", {"metadata": {"reviews": 0}}, "check_query"),
        ("route_to_execution", {"metadata": {"reviews": 1}, "last_query_result": None}, "execute_query"),
        ("route_to_execution", {"metadata": {"reviews": 1}, "last_query_result": make_result([])}, END),
        ("route_to_answer", {}, END),
        ("route_to_answer", {"last_query_result": make_result([], success=False)}, END),
        ("route_to_answer", {"last_query_result": make_result([])}, "parse_results"),
    ],
)
def test_the_next_step_follows_from_the_state(route: str, state: dict[str, Any], expected: str) -> None:
    assert asyncio.run(getattr(graph, route)(cast(SQLAgentState, state))) == expected


def test_rows_are_lines_below_their_columns() -> None:
    rows: list[list[object]] = [[1, None], ["x", 2.5]]
    assert format_rows(make_result(rows)) == "a | b\n1 | NULL\nx | 2.5"
    assert format_rows(make_result(rows, truncated=True)) == "a | b\n1 | NULL\nx | 2.5\n[there are more rows]"
    assert format_rows(make_result([])) == "a | b"


def test_rows_of_exactly_the_length_of_a_prompt_are_whole() -> None:
    head = "a | b\n1 | "
    fits = "x" * (MAX_ROWS_CHARS - len(head))
    assert format_rows(make_result([[1, fits]])) == head + fits
    assert format_rows(make_result([[1, f"{fits}x"]])) == f"{head}{fits}\n[there are more rows]"


def test_feedback_names_the_query_and_its_fault() -> None:
    assert make_feedback("SELECT x", "no such column: x").content == (
        "The query:\nSELECT x\n\nfailed: no such column: x\n\nWrite another one."
    )
    for missing in (None, ""):
        assert str(make_feedback(missing, "no query").content).startswith("The query:\n(none)\n\nfailed: no query")


def test_the_tool_that_the_model_calls_returns_its_query_unrun() -> None:
    assert mcp_db_query("SELECT 1") == "SELECT 1"
