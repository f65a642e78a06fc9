"""A real PostgreSQL: results, limits, and what the restricted role cannot do by itself. And the engine without one."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.settings import DatabaseSettings
from mas.systems.bos.sql import server as server_module
from mas.systems.bos.sql.server import Database
from tests.mas.systems.bos.sql.hostile_queries import BENIGN_POSTGRES, POSTGRES, SECRET, TABLES
from tests.mas.systems.bos.sql.sql_databases import FUNCTIONS, NAME, URL_ENV, make_postgres
from tests.servers.postgres import RunningPostgres, why_not

missing = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[RunningPostgres, Mapping[str, str]]]:
    with make_postgres(FUNCTIONS) as running:
        yield running


@pytest.fixture
def url(postgres: tuple[RunningPostgres, Mapping[str, str]], monkeypatch: pytest.MonkeyPatch) -> str:
    url = postgres[1]["reader"]
    monkeypatch.setenv(URL_ENV, url)
    return url


def open_shop() -> Database:
    return Database("shop", DatabaseSettings(url_env=URL_ENV, tables=TABLES))


def dump(server: RunningPostgres) -> list[str]:
    return [line for line in server.dump(NAME).splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]


@pytest.mark.slow
@missing
@pytest.mark.parametrize("defence", ["both", "database alone"])
def test_q22_q23_hostile_queries_read_and_change_nothing(
    postgres: tuple[RunningPostgres, Mapping[str, str]], url: str, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "QUERY_SECONDS", 0.3)
    server, _ = postgres
    database, before = open_shop(), dump(server)
    run, leaked = [], set()
    for hostile in POSTGRES:
        if defence != "both" and hostile.query.startswith(("SELECT repeat", "SELECT lpad", "SELECT format")):
            continue  # one huge value: the guard refuses it, and the session replaces a server that takes too long
        started = time.perf_counter()
        result = (database.query if defence == "both" else database.run)(hostile.query)
        assert time.perf_counter() - started < 100, hostile
        assert len(json.dumps(result)) < 200_000
        if result["success"]:
            run.append(hostile)
        if SECRET in json.dumps(result):
            leaked.add(hostile.query)
    assert dump(server) == before
    assert not Path("/tmp/bos-evil").exists()
    # Those that the owner of the database has opened to everybody.
    callable_by_all = {each.query for each in POSTGRES if "reveal" in each.query and each.kind == "function"}
    assert leaked == (set() if defence == "both" else callable_by_all)
    harmless = set() if defence == "both" else {"function", "catalogue", "row"}  # the database runs them
    assert {each.kind for each in run} == {"bomb"} | harmless


@pytest.mark.slow
@missing
def test_q10_benign_queries_return_their_rows(url: str) -> None:
    database = open_shop()
    for query, rows in BENIGN_POSTGRES:
        result = database.query(query)
        assert (result["error"], result["data"], result["row_count"]) == (None, rows, len(rows)), query


@pytest.mark.slow
@missing
def test_a09_values_are_json_and_columns_are_kept(url: str) -> None:
    database = open_shop()
    result = database.query(
        "SELECT 1.50::numeric, 3::numeric, 0.1234567890123456789::numeric, 'NaN'::float, date '2026-01-02', "
        "timestamp '2026-01-02 03:04', interval '1 day 2 hours', '\\x00ff'::varchar, NULL::int, ARRAY[1.5, 2], "
        "'{\"a\": [1]}'::jsonb, true"
    )
    assert result["data"] == [
        [1.5, 3, "0.1234567890123456789", "nan", "2026-01-02", "2026-01-02T03:04:00", "1 day, 2:00:00", "\\x00ff", None,
         [1.5, 2.0], {"a": [1]}, True]
    ]  # fmt: skip
    assert json.loads(json.dumps(result)) == result
    result = database.query("SELECT c.id, o.id FROM customers c JOIN orders o ON false")
    assert (result["success"], result["columns"], result["data"]) == (True, ["id", "id"], [])


@pytest.mark.slow
@missing
def test_q24_rows_and_time_are_limited(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_ROWS", 3)
    monkeypatch.setattr(server_module, "QUERY_SECONDS", 0.3)
    result = open_shop().query("SELECT n FROM generate_series(1, 100000) AS g(n)")
    assert (result["row_count"], result["truncated"]) == (3, True)
    result = open_shop().query("SELECT count(*) FROM generate_series(1, 1000000000000) g")
    assert result["error"] == "The query was stopped after 0.3 seconds; write one that does less work."


@pytest.mark.slow
@missing
def test_q18_errors_are_those_of_the_database(url: str) -> None:
    assert open_shop().query("SELECT naem FROM customers")["error"] == 'column "naem" does not exist'


@pytest.mark.slow
@missing
def test_q03_the_schema_shows_the_listed_tables_only(url: str) -> None:
    schema = {table["name"]: table for table in open_shop().schema()}
    assert sorted(schema) == TABLES
    assert schema["orders"]["columns"]["id"] == "integer"
    assert schema["orders"]["keys"] == [
        "PRIMARY KEY (id)",
        "FOREIGN KEY (customer_id) REFERENCES customers(id)",
        "FOREIGN KEY (product_id) REFERENCES products(id)",
    ]


@pytest.mark.slow
@missing
def test_a_failed_connection_names_neither_password_nor_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_ENV, url.replace("127.0.0.1:", "127.0.0.1:1"))
    with pytest.raises(UserError) as refusal:
        open_shop()
    assert "reader-pass-77" not in str(refusal.value) and "127.0.0.1" not in str(refusal.value)
