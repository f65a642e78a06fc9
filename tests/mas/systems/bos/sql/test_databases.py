"""SQLite: results, limits, and what the database refuses by itself."""

import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.sql import databases as module
from mas.systems.bos.sql.databases import Database, fail, open_database
from mas.systems.bos.sql.engine import DatabaseError, DatabaseUnavailableError, TableSchema
from mas.systems.bos.sql.guard import Guard
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits
from tests.mas.systems.bos.sql.hostile_queries import BENIGN_SQLITE, SECRET, SQLITE, TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return make_sqlite(tmp_path / "shop.sqlite")


def open_file(file: Path, **limits: float) -> Database:
    return open_database("shop", DatabaseSettings(str(file), tables=TABLES), QueryLimits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize(("defence", "n_run"), [("both", 1), ("database alone", 2)])
def test_q22_q23_hostile_queries_read_and_change_nothing(file: Path, defence: str, n_run: int) -> None:
    database = open_file(file, seconds=0.1)
    before = hashlib.sha256(file.read_bytes()).digest()
    run = []
    for hostile in SQLITE:
        started = time.perf_counter()
        result = (database.query if defence == "both" else database.run)(hostile.query)
        assert time.perf_counter() - started < 5, hostile
        text = json.dumps(result)
        assert SECRET not in text and "password TEXT" not in text, hostile
        assert len(text) < 200_000
        if result["success"]:
            run.append((hostile, result["row_count"]))
    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert not Path("/tmp/bos-evil.sqlite").exists()
    assert len(run) == n_run, run


def test_q22_a_view_shows_no_table_that_is_not_listed(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE VIEW logins AS SELECT login, password FROM secret_users")
        connection.execute("CREATE VIEW names AS SELECT name FROM customers")
    tables = ["customers", "names", "logins"]
    database = open_database("shop", DatabaseSettings(str(file), tables=tables), QueryLimits())
    assert database.query("SELECT count(*) FROM names")["data"] == [[3]]
    for query in ("SELECT * FROM logins", "WITH logins AS (SELECT * FROM secret_users) SELECT * FROM logins"):
        assert "prohibited" in (database.run(query)["error"] or "")


def test_q10_benign_queries_return_their_rows(file: Path) -> None:
    database = open_file(file)
    for query, rows in BENIGN_SQLITE:
        result = database.query(query)
        assert (result["error"], result["data"], result["row_count"]) == (None, rows, len(rows)), query


def test_q10_a08_columns_of_one_name_and_those_of_no_rows_are_kept(file: Path) -> None:
    database = open_file(file)
    result = database.query("SELECT c.id, p.id FROM customers c CROSS JOIN products p WHERE c.id = 1 AND p.id = 2")
    assert (result["columns"], result["data"]) == (["id", "id"], [[1, 2]])
    result = database.query("SELECT id, name FROM customers WHERE id > 99")
    assert (result["success"], result["columns"], result["data"]) == (True, ["id", "name"], [])


def test_a09_values_are_json(file: Path) -> None:
    result = open_file(file).query("SELECT x'00ff', NULL, 1e999, 1.5, 9007199254740993, 'é'")
    assert result["data"] == [["0x00ff", None, "inf", 1.5, 9007199254740993, "é"]]
    assert json.loads(json.dumps(result)) == result


def test_q24_a10_rows_and_bytes_are_limited_and_the_cut_is_said(file: Path) -> None:
    everything = "SELECT a.name FROM customers a, customers b, customers c"
    result = open_file(file, max_rows=5).query(everything)
    assert (result["row_count"], len(result["data"]), result["truncated"]) == (5, 5, True)
    assert open_file(file, max_rows=27).query(everything)["truncated"] is False
    result = open_file(file, max_bytes=70).query(everything)
    assert (result["row_count"], result["truncated"]) == (10, True)
    assert "One row is larger" in (
        open_file(file, max_bytes=5).query("SELECT name, name FROM customers")["error"] or ""
    )


def test_q24_time_and_length_are_limited(file: Path) -> None:
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    started = time.perf_counter()
    result = open_file(file, seconds=0.2).query(endless)
    assert result["error"] == "The query was stopped after 0.2 seconds; write one that does less work."
    assert 0.2 <= time.perf_counter() - started < 5 and result["elapsed_ms"] >= 200
    assert "at most 50" in (open_file(file, max_chars=50).query("SELECT 1" + " " * 50)["error"] or "")


def test_q03_the_schema_shows_the_listed_tables_only(file: Path) -> None:
    database = open_file(file)
    schema = database.schema()
    assert [table["name"] for table in schema] == TABLES
    orders = database.schema(["Orders"])[0]
    assert [column["name"] for column in orders["columns"]][:2] == ["id", "customer_id"]
    assert orders["columns"][0] == {"name": "id", "type": "INTEGER", "nullable": False, "primary_key": True}
    assert sorted(orders["foreign_keys"]) == ["customer_id -> customers.id", "product_id -> products.id"]
    assert database.schema(["secret_users"]) == []


def test_a_listed_star_means_every_table(file: Path) -> None:
    database = open_database("shop", DatabaseSettings(str(file), tables=["*"]), QueryLimits())
    assert database.query("SELECT password FROM secret_users")["data"] == [[SECRET]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DatabaseSettings(), "needs either a path (SQLite) or url_env (PostgreSQL)"),
        (DatabaseSettings("x.sqlite", "URL", ["*"]), "needs either a path (SQLite) or url_env (PostgreSQL)"),
        (DatabaseSettings("x.sqlite"), "lists no tables"),
        (DatabaseSettings("missing.sqlite", tables=["*"]), "there is no file missing.sqlite"),
        (DatabaseSettings(url_env="NOT_SET_ANYWHERE", tables=["*"]), "needs the environment variable NOT_SET_ANYWHERE"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: DatabaseSettings, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        open_database("shop", settings, QueryLimits())


def test_a_file_that_is_no_database_and_a_table_that_is_missing_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no table 'pets'; it has: customers, orders, products, secret_users"):
        open_database("shop", DatabaseSettings(str(file), tables=["pets"]), QueryLimits())
    text = tmp_path / "text.sqlite"
    text.write_text("no database" * 200)
    with pytest.raises(UserError, match="cannot be opened"):
        open_database("shop", DatabaseSettings(str(text), tables=["*"]), QueryLimits())


def test_a_row_is_measured_in_the_bytes_of_its_text(file: Path) -> None:
    query = "SELECT 'äöü', 1.5 FROM customers"
    size = len('["äöü", 1.5]'.encode())
    one = open_file(file, max_bytes=size).query(query)
    assert (one["data"], one["truncated"]) == ([["äöü", 1.5]], True)
    assert open_file(file, max_bytes=2 * size).query(query)["row_count"] == 2
    assert open_file(file, max_bytes=2 * size - 1).query(query)["row_count"] == 1
    assert f"larger than {size - 1} bytes" in (open_file(file, max_bytes=size - 1).query(query)["error"] or "")


def test_exactly_as_many_rows_as_allowed_are_all_of_them(file: Path) -> None:
    query = "SELECT name FROM customers"
    assert open_file(file, max_rows=3).query(query)["truncated"] is False
    two = open_file(file, max_rows=2).query(query)
    assert (two["row_count"], two["truncated"]) == (2, True)


def make_table(name: str, *columns: str) -> TableSchema:
    return TableSchema(
        name=name,
        columns=[{"name": column, "type": "", "nullable": True, "primary_key": False} for column in columns],
        foreign_keys=[],
    )


class WrittenEngine:
    """Engine with two tables; it gives the rows of a test, or raises, and notes what it is asked."""

    def __init__(self, *rows: Sequence[object] | Exception) -> None:
        self.rows, self.is_closed = rows, False
        self.asked: list[tuple[object, ...]] = []
        self.excess = ""

    def execute(
        self, query: str, tables: Iterable[str], limits: QueryLimits
    ) -> tuple[list[str], Iterator[Sequence[object]]]:
        self.asked.append((query, list(tables), limits))
        return ["n"], self._give()

    def _give(self) -> Iterator[Sequence[object]]:
        try:
            for row in self.rows:
                if isinstance(row, Exception):
                    raise row
                yield row
        finally:
            self.is_closed = True

    def read_schema(self) -> list[TableSchema]:
        return [make_table("Orders", "id", "n"), make_table("pets")]

    def find_excess(self, tables: Iterable[str]) -> str:
        self.asked.append(tuple(tables))
        return self.excess


def offer(monkeypatch: pytest.MonkeyPatch, engine: WrittenEngine) -> list[tuple[object, ...]]:
    """Use the engine for both kinds of database, and return what they are made with."""
    made: list[tuple[object, ...]] = []

    def make(*given: object) -> WrittenEngine:
        made.append(given)
        return engine

    monkeypatch.setattr(module, "SQLiteEngine", make)
    monkeypatch.setattr(module, "PostgresEngine", make)
    return made


def test_a_query_is_checked_run_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, limits = WrittenEngine((1,), (b"\x00",)), QueryLimits(max_chars=30)
    made = offer(monkeypatch, engine)
    database = open_database("shop", DatabaseSettings("shop.sqlite", tables=["Orders"]), limits)
    assert made == [("shop.sqlite",)] and engine.asked == [("Orders",)]
    assert database.guard == Guard("sqlite", {"Orders": ["id", "n"]}, 30) and database.limits is limits
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=iter([5.0, 5.0012345]).__next__))
    whole = {"success": True, "columns": ["n"], "data": [[1], ["0x00"]], "row_count": 2, "truncated": False}
    assert database.query("select n from orders") == {**whole, "error": None, "elapsed_ms": 1.234}
    assert engine.asked[1:] == [('SELECT n FROM "main"."Orders"', ["Orders"], limits)] and engine.is_closed
    assert database.query("drop table orders") == fail(
        "Only SELECT statements are allowed (also UNION, INTERSECT, EXCEPT, WITH … SELECT)."
    )
    assert len(engine.asked) == 2


def test_an_error_of_a_query_is_its_result_with_the_time_and_one_of_the_connection_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for raised in (DatabaseError("no such column"), DatabaseUnavailableError("gone")):
        offer(monkeypatch, WrittenEngine((1,), raised))
        database = open_database("shop", DatabaseSettings("shop.sqlite", tables=["*"]), QueryLimits())
        if isinstance(raised, DatabaseUnavailableError):
            with pytest.raises(DatabaseUnavailableError):
                database.run("SELECT 1")
            continue
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=iter([5.0, 7.0]).__next__))
        assert database.run("SELECT 1") == fail("no such column") | {"elapsed_ms": 2000.0}
        monkeypatch.undo()
    assert fail("x") == {
        "success": False,
        "columns": [],
        "data": [],
        "row_count": 0,
        "truncated": False,
        "error": "x",
        "elapsed_ms": 0.0,
    }


def test_no_more_rows_are_read_than_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WrittenEngine((1,), (2,), (3,), AssertionError("one row more than is needed to see the cut"))
    offer(monkeypatch, engine)
    database = open_database("shop", DatabaseSettings("shop.sqlite", tables=["*"]), QueryLimits(max_rows=2))
    result = database.run("SELECT 1")
    assert (result["data"], result["truncated"], engine.is_closed) == ([[1], [2]], True, True)


def test_a_listed_table_is_found_by_its_name_whatever_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WrittenEngine()
    made = offer(monkeypatch, engine)
    settings = DatabaseSettings(url_env="SHOP_URL", tables=["*"])
    database = open_database("shop", settings, QueryLimits())
    assert made == [("shop", "SHOP_URL")] and database.guard.dialect == "postgres"
    orders, pets = engine.read_schema()
    assert database.schema() == [orders, pets] and database.schema(["ORDERS", "x"]) == [orders]
    assert database.schema(["x"]) == [] and database.guard.tables == {"Orders": ["id", "n"], "pets": []}
    star_and_name = DatabaseSettings("shop.sqlite", tables=["pets", "*"])
    assert list(open_database("shop", star_and_name, QueryLimits()).guard.tables) == ["Orders", "pets"]
    in_order = DatabaseSettings("shop.sqlite", tables=["pets", "Orders"])
    assert list(open_database("shop", in_order, QueryLimits()).guard.tables) == ["pets", "Orders"]


def test_a_database_that_cannot_be_used_says_why_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WrittenEngine()
    offer(monkeypatch, engine)

    def refuse(settings: DatabaseSettings) -> str:
        with pytest.raises(UserError) as refusal:
            open_database("shop", settings, QueryLimits())
        return str(refusal.value)

    either = "Database 'shop' needs either a path (SQLite) or url_env (PostgreSQL), not both."
    assert refuse(DatabaseSettings("a", "B", ["*"])) == refuse(DatabaseSettings(tables=["*"])) == either
    assert refuse(DatabaseSettings("a")) == (
        "Database 'shop' lists no tables; name those that may be read, or '*' for all."
    )
    missing = "Database 'shop' has no table 'orders'; it has: Orders, pets."
    assert refuse(DatabaseSettings("a", tables=["pets", "orders", "x"])) == missing
    engine.excess = "can write to pets"
    listed = DatabaseSettings("a", tables=["Orders"])
    assert refuse(listed) == (
        "The role of database 'shop' can write to pets; connect as a role that owns nothing and has only SELECT on the "
        "listed tables, or set check_role: false."
    )
    listed.check_role = False
    assert list(open_database("shop", listed, QueryLimits()).guard.tables) == ["Orders"]
    monkeypatch.setattr(engine, "read_schema", list)
    assert refuse(listed) == "Database 'shop' has no table 'Orders'; it has: none."
    for error in (DatabaseError("broken"), DatabaseUnavailableError("gone")):

        def read(error: Exception = error) -> list[TableSchema]:
            raise error

        monkeypatch.setattr(engine, "read_schema", read)
        assert refuse(listed) == f"Database 'shop' cannot be opened: {error}"
