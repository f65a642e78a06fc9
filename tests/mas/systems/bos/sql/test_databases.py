"""SQLite: results, limits, and what the database refuses by itself."""

import hashlib
import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.settings import DatabaseSettings
from mas.systems.bos.sql import server
from mas.systems.bos.sql.server import Database
from tests.mas.systems.bos.sql.hostile_queries import BENIGN_SQLITE, SECRET, SQLITE, TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return make_sqlite(tmp_path / "shop.sqlite")


def open_file(file: Path) -> Database:
    return Database("shop", DatabaseSettings(str(file), tables=TABLES))


@pytest.mark.parametrize("defence", ["both", "database alone"])
def test_q22_q23_hostile_queries_read_and_change_nothing(
    file: Path, defence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "QUERY_SECONDS", 0.1)
    database = open_file(file)
    before = hashlib.sha256(file.read_bytes()).digest()
    run = []
    for hostile in SQLITE:
        started = time.perf_counter()
        result = (database.query if defence == "both" else database.run)(hostile.query)
        assert time.perf_counter() - started < 100, hostile
        text = json.dumps(result)
        assert SECRET not in text and "password TEXT" not in text, hostile
        assert len(text) < 200_000
        if result["success"]:
            run.append((hostile, result["row_count"]))
    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert not Path("/tmp/bos-evil.sqlite").exists()
    assert [(hostile.kind, n_rows) for hostile, n_rows in run] == [("bomb", 200)], "cut to the limit of rows"


def test_q22_a_view_shows_no_table_that_is_not_listed(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE VIEW logins AS SELECT login, password FROM secret_users")
        connection.execute("CREATE VIEW names AS SELECT name FROM customers")
    tables = ["customers", "names", "logins"]
    database = Database("shop", DatabaseSettings(str(file), tables=tables))
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


def test_q24_a10_rows_and_bytes_are_limited_and_the_cut_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = "SELECT a.name FROM customers a, customers b, customers c"
    monkeypatch.setattr(server, "MAX_ROWS", 5)
    result = open_file(file).query(everything)
    assert (result["row_count"], len(result["data"]), result["truncated"]) == (5, 5, True)
    monkeypatch.setattr(server, "MAX_ROWS", 27)
    assert open_file(file).query(everything)["truncated"] is False
    monkeypatch.setattr(server, "MAX_BYTES", 70)
    result = open_file(file).query(everything)
    assert (result["row_count"], result["truncated"]) == (10, True)
    monkeypatch.setattr(server, "MAX_BYTES", 5)
    assert "One row is larger" in (open_file(file).query("SELECT name, name FROM customers")["error"] or "")


def test_q24_time_and_length_are_limited(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "QUERY_SECONDS", 0.2)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    started = time.perf_counter()
    result = open_file(file).query(endless)
    assert result["error"] == "The query was stopped after 0.2 seconds; write one that does less work."
    assert 0.2 <= time.perf_counter() - started < 100
    assert "at most 10000" in (open_file(file).query("SELECT 1" + " " * 10_000)["error"] or "")


def test_q03_the_schema_shows_the_listed_tables_only(file: Path) -> None:
    database = open_file(file)
    schema = database.schema()
    assert [table["name"] for table in schema] == TABLES
    orders = database.schema(["Orders"])[0]
    assert list(orders["columns"].items())[:2] == [("id", "INTEGER"), ("customer_id", "INTEGER")]
    assert sorted(orders["keys"]) == [
        "foreign key (customer_id) references customers (id)",
        "foreign key (product_id) references products (id)",
        "primary key (id)",
    ]
    assert database.schema(["secret_users"]) == []


def test_a_listed_star_means_every_table(file: Path) -> None:
    database = Database("shop", DatabaseSettings(str(file), tables=["*"]))
    assert database.query("SELECT password FROM secret_users")["data"] == [[SECRET]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DatabaseSettings("missing.sqlite", tables=["*"]), "there is no file missing.sqlite"),
        (DatabaseSettings(url_env="NOT_SET_ANYWHERE", tables=["*"]), "needs the environment variable NOT_SET_ANYWHERE"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: DatabaseSettings, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        Database("shop", settings)


def test_a_file_that_is_no_database_and_a_table_that_is_missing_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no table 'pets'; it has: customers, orders, products, secret_users"):
        Database("shop", DatabaseSettings(str(file), tables=["pets"]))
    text = tmp_path / "text.sqlite"
    text.write_text("no database" * 200)
    with pytest.raises(UserError, match="cannot be opened"):
        Database("shop", DatabaseSettings(str(text), tables=["*"]))
