"""Results of agents: statuses, errors and tables."""

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import product

import pytest
from pydantic import ValidationError

from mas.systems.bos.contracts.result import (
    ERROR_TYPES,
    AgentError,
    AgentExecutionStatus,
    AgentFailureError,
    AgentResult,
    TabularResult,
    make_unique,
    to_cell,
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


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("pending", "failed", "an agent cannot go from pending to failed; allowed: running, skipped"),
        ("running", "pending", "an agent cannot go from running to pending; allowed: succeeded, failed, skipped"),
        ("skipped", "running", "an agent cannot go from skipped to running; allowed: none: it is final"),
    ],
)
def test_a_transition_that_is_refused_names_those_that_are_allowed(before: str, after: str, said: str) -> None:
    with pytest.raises(ValueError, match="cannot go") as refusal:
        AgentExecutionStatus(before).move_to(AgentExecutionStatus(after))
    assert str(refusal.value) == said


def test_a_failure_has_its_kind_and_details_of_its_own() -> None:
    details: dict[str, object] = {"n": 1}
    failure = AgentFailureError("HttpError", "no", details)
    assert (failure.kind, str(failure), failure.details) == ("HttpError", "no", {"n": 1})
    assert failure.details is not details and AgentFailureError("HttpError", "no").details == {}


def test_details_of_an_error_are_json_and_nothing_but_a_mapping() -> None:
    error = AgentError(message="m", type="KeyError", details={"when": date(2026, 1, 2), "text": "\ud800"})
    assert error.details == {"when": "2026-01-02", "text": "?"}
    assert AgentError(message="m", type="KeyError").details == {}
    with pytest.raises(ValidationError, match="details"):
        AgentError(message="m", type="KeyError", details=[("n", 1)])  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="frozen"):
        error.message = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
        (["a", "a", "a_2", "a_2"], ["a", "a_3", "a_2", "a_2_2"]),
    ],
)
def test_names_that_occurred_before_get_the_next_number_that_is_free(columns: list[str], names: list[str]) -> None:
    assert make_unique(columns) == names


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (Decimal("-3.0"), -3),
        (Decimal("9007199254740993"), 9007199254740993),
        (Decimal("0.1"), 0.1),
        (Decimal("Infinity"), "Infinity"),
        (bytearray(b"\x01"), "0x01"),
        (memoryview(b"\x02"), "0x02"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1.5, 1.5),
        (timedelta(days=1, hours=2), "1 day, 2:00:00"),
        ([Decimal("2"), (b"\x03", None)], [2, ["0x03", None]]),
        ({1: Decimal("2"), "in": {"d": date(2026, 1, 2)}}, {"1": 2, "in": {"d": "2026-01-02"}}),
        ("a\ud800", "a?"),
        (False, False),
        (0, 0),
    ],
)
def test_a_cell_is_the_value_as_json_can_hold_it(value: object, cell: object) -> None:
    found = to_cell(value)
    assert found == cell and type(found) is type(cell)


@pytest.mark.parametrize(
    ("columns", "rows", "said"),
    [
        (["a", "a"], [], "columns have equal names; use TabularResult.from_lists, which renames them"),
        (
            ["b", "a"],
            [{"b": 1, "a": 2}, {"c": 1, "a": 2}],
            r"row 2 has the columns \['a', 'c'\]; expected \['a', 'b'\]",
        ),
        (["a"], [{}], r"row 1 has the columns \[\]; expected \['a'\]"),
        (["a"], "text", "rows\n.*valid list"),
        (["a"], ["text"], "rows.0\n.*valid dictionary"),
    ],
)
def test_a_table_whose_rows_are_not_those_of_its_columns_is_refused(
    columns: list[str], rows: object, said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        TabularResult(columns=columns, rows=rows)  # type: ignore[arg-type]


def test_records_become_rows_with_every_column() -> None:
    table = TabularResult.from_records([{"b": 1, 2: b"\x00"}, {"a": None}], truncated=True)  # type: ignore[dict-item]
    assert table.model_dump() == {
        "columns": ["b", "2", "a"],
        "rows": [{"b": 1, "2": "0x00", "a": None}, {"b": None, "2": None, "a": None}],
        "truncated": True,
        "row_count": 2,
    }
    assert TabularResult.from_records([]).model_dump() == {
        "columns": [],
        "rows": [],
        "truncated": False,
        "row_count": 0,
    }
    given = TabularResult(columns=["1"], rows=({1: Decimal("2.0")},))  # type: ignore[arg-type, dict-item]
    assert given.rows == [{"1": 2}]
    with pytest.raises(ValidationError, match="frozen"):
        given.truncated = True  # type: ignore[misc]


def test_an_error_belongs_to_what_did_not_succeed_alone() -> None:
    error = AgentError(message="m", type="TurnLimit")
    for status in AgentExecutionStatus:
        for given in (None, error):
            is_refused = given is None if status == "failed" else given is not None and status == "succeeded"
            if is_refused:
                with pytest.raises(
                    ValidationError, match=r"a failed result needs|a result that succeeded has no error"
                ):
                    AgentResult(agent="sql", status=status, error=given)
            else:
                assert AgentResult(agent="sql", status=status, error=given).error is given
