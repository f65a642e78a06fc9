"""Results of agents: statuses, errors and tables."""

import json
from datetime import date, datetime
from decimal import Decimal
from itertools import product

import pytest
from pydantic import ValidationError

from mas.systems.bos.contracts.result import (
    ERROR_TYPES,
    AgentError,
    AgentExecutionStatus,
    AgentResult,
    TabularResult,
)


def test_a01_a02_statuses_and_their_transitions() -> None:
    assert [str(status) for status in AgentExecutionStatus] == ["pending", "running", "succeeded", "failed", "skipped"]
    legal = {
        ("pending", "running"),
        ("pending", "skipped"),
        ("running", "succeeded"),
        ("running", "failed"),
        ("running", "skipped"),
    }
    for before, after in product(AgentExecutionStatus, repeat=2):
        if (before, after) in legal:
            assert before.move_to(after) is after
        else:
            with pytest.raises(ValueError, match=f"cannot go from {before} to {after}"):
                before.move_to(after)


def test_a03_a_result_has_defaults_and_cannot_be_changed() -> None:
    result = AgentResult(agent="sql", status="succeeded")  # type: ignore[arg-type]
    assert (result.answer, result.tabular, result.error, result.trace, result.latency_ms) == (
        None,
        None,
        None,
        [],
        None,
    )
    with pytest.raises(ValidationError, match="frozen"):
        result.answer = "other"  # type: ignore[misc]


def test_a05_a_failure_has_an_error_and_a_success_has_none() -> None:
    error = AgentError(message="m", type="QueryError")
    failed = AgentResult(agent="sql", status=AgentExecutionStatus.FAILED, error=error)
    assert failed.error == error
    with pytest.raises(ValidationError, match="needs its error"):
        AgentResult(agent="sql", status=AgentExecutionStatus.FAILED)
    with pytest.raises(ValidationError, match="has no error"):
        AgentResult(agent="sql", status=AgentExecutionStatus.SUCCEEDED, error=error)


def test_a06_an_error_has_message_type_and_details() -> None:
    error = AgentError(message="m", type="KeyError", details={"attempt": 2, "when": date(2026, 1, 2), "odd": {3}})
    assert json.loads(error.model_dump_json())["details"]["attempt"] == 2
    documented = {"PlanningDeclined", "QueryError", "HttpError", "HttpRequestError", "PathResolutionError"}
    assert documented | {"SandboxViolation", "SandboxTimeout", "ConfigurationError"} == set(ERROR_TYPES)


def test_a07_a10_a_table_counts_its_rows_and_says_that_it_was_cut() -> None:
    table = TabularResult.from_lists(["n"], [[1], [2]], truncated=True)
    assert (table.columns, table.rows, table.row_count, table.truncated) == (["n"], [{"n": 1}, {"n": 2}], 2, True)
    stored = table.model_dump_json()
    assert json.loads(stored)["row_count"] == 2 and TabularResult.model_validate_json(stored) == table
    assert TabularResult.from_lists(["n"], []).truncated is False


def test_a08_equal_names_of_columns_lose_no_value() -> None:
    table = TabularResult.from_lists(["id", "id", "id_2", "id"], [[1, 2, 3, 4]])
    assert table.columns == ["id", "id_3", "id_2", "id_4"] and list(table.rows[0].values()) == [1, 2, 3, 4]
    assert TabularResult.from_lists(["id", "id"], [[1, 2]]).columns == ["id", "id_2"]
    assert TabularResult.from_records([{"a": 1}, {"b": 2}]).rows == [{"a": 1, "b": None}, {"a": None, "b": 2}]
    with pytest.raises(ValueError, match="zip"):
        TabularResult.from_lists(["a", "b"], [[1]])
    for columns, rows in ((["a", "a"], []), (["a"], [{"b": 1}]), (["a", "b"], [{"a": 1}])):
        with pytest.raises(ValidationError, match="columns"):
            TabularResult(columns=columns, rows=rows)  # type: ignore[arg-type]


def test_a09_cells_are_json_and_numbers_stay_exact() -> None:
    values = [None, Decimal("3.05"), Decimal("58"), Decimal("1E+30"), Decimal("0.1234567890123456789"), Decimal("NaN")]
    values += [date(2026, 1, 2), datetime(2026, 1, 2, 3, 4), b"\x00\xff", float("inf"), "\ud800", True]  # type: ignore[list-item]
    table = TabularResult.from_lists([str(n) for n in range(len(values))], [values])
    assert list(table.rows[0].values()) == [
        None,
        3.05,
        58,
        10**30,
        "0.1234567890123456789",
        "NaN",
        "2026-01-02",
        "2026-01-02T03:04:00",
        "0x00ff",
        "inf",
        "?",
        True,
    ]
    json.loads(table.model_dump_json())
    assert TabularResult.from_lists(["a", "b"], []).columns == ["a", "b"]


def test_a_table_is_whole_unless_said_otherwise() -> None:
    assert [TabularResult.from_records([{"a": 1}]).truncated, TabularResult.from_lists(["a"], [[1]]).truncated] == [
        False,
        False,
    ]
    assert TabularResult.from_records([{"a": 1}], truncated=True).truncated
    assert TabularResult.from_lists(["a"], [[1]], truncated=True).truncated
