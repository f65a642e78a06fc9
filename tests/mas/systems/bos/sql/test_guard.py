"""The guard by itself: what is hostile is refused before any database, what is benign is not."""

from collections import Counter

import pytest

from mas.systems.bos.sql.guard import FUNCTION_NAMES, NODES, TYPES, Dialect, Guard, UnsafeQueryError
from tests.mas.systems.bos.sql import hostile_queries as queries

COLUMNS = {
    "customers": ("id", "name", "city"),
    "products": ("id", "name", "price"),
    "orders": ("id", "customer_id", "product_id", "quantity", "ordered_on"),
}
HOSTILE = {"sqlite": queries.SQLITE, "postgres": queries.POSTGRES}
BENIGN = {"sqlite": queries.BENIGN_SQLITE, "postgres": queries.BENIGN_POSTGRES}
PASSED = {"sqlite": 5, "postgres": 7}  # each reads listed tables only, for too long: the database's limits end them


def refuse(guard: Guard, query: str) -> str:
    """Return the refusal; fail if there is none."""
    with pytest.raises(UnsafeQueryError) as refusal:
        guard.check(query)
    return str(refusal.value)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_q06_q23_the_guard_alone_refuses_every_hostile_query_but_some_that_only_take_long(dialect: Dialect) -> None:
    guard, passed = Guard(dialect, COLUMNS), []
    for hostile in HOSTILE[dialect]:
        try:
            guard.check(hostile.query)
            passed.append(hostile)
        except UnsafeQueryError as refusal:
            assert str(refusal).strip()
    assert Counter(each.kind for each in passed) == {"bomb": PASSED[dialect]}, passed


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_q06_the_guard_passes_benign_queries_and_its_own_output(dialect: Dialect) -> None:
    guard = Guard(dialect, COLUMNS)
    for query, _ in BENIGN[dialect]:
        rendered = guard.check(query)
        assert guard.check(rendered) == rendered
        assert "--" not in rendered


def test_q06_what_is_run_names_tables_by_their_schema() -> None:
    assert Guard("sqlite", COLUMNS).check("select 1 from Customers -- x") == 'SELECT 1 FROM "main"."customers"'
    guard = Guard("postgres", {"Orders": ("id",), "sales.items": ("id",)})
    assert guard.check('select 1 from "Orders"') == 'SELECT 1 FROM "public"."Orders"'
    assert guard.check("select i.id from Sales.Items i") == 'SELECT i.id FROM "sales"."items" AS i'
    assert "not available" in refuse(guard, "select 1 from orders")  # PostgreSQL reads it as "orders"
    assert "not available" in refuse(guard, "select 1 from items")
    assert "not available" in refuse(guard, "select 1 from other.items")


def test_q06_a_with_clause_hides_a_table_only_where_the_database_says_so() -> None:
    for dialect in ("sqlite", "postgres"):
        guard = Guard(dialect, COLUMNS)
        for allowed in (
            "WITH secret AS (SELECT 1 AS x) SELECT (SELECT max(x) FROM secret) FROM secret",
            "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT x FROM b",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
            "SELECT q.x FROM (WITH secret AS (SELECT 1 AS x) SELECT x FROM secret) q",
        ):
            guard.check(allowed)
        for refused in (
            "WITH a AS (SELECT * FROM secret), secret AS (SELECT 1) SELECT * FROM a",
            "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
            "SELECT * FROM (WITH secret AS (SELECT 1) SELECT 1) q, secret",
            "SELECT * FROM secret, (WITH secret AS (SELECT 1) SELECT 1) q",
            "WITH secret AS (SELECT 1) SELECT * FROM main.secret",
            'WITH "Secret" AS (SELECT 1) SELECT * FROM "secret"' if dialect == "postgres" else "SELECT * FROM secret",
        ):
            assert "secret is not available" in refuse(guard, refused)


def test_q06_refusals_say_what_to_change() -> None:
    guard = Guard("postgres", COLUMNS)
    assert refuse(guard, "select * from pets") == (
        "The table pets is not available; the tables are: customers, products, orders."
    )
    assert refuse(guard, "select pg_sleep(1)") == "The function pg_sleep is not allowed."
    assert "SELECT" in refuse(guard, "drop table orders")
    assert refuse(guard, "select 1; select 2") == "Expected one SQL statement, found 2."
    assert refuse(guard, "") == refuse(guard, ";;") == "Expected one SQL statement, found 0."
    for query in (";select 1;;", "select 1; -- all", "-- all\nselect 1; /* a */ ; -- b"):
        assert guard.check(query) == "SELECT 1", "what is empty or only a comment is no statement"
    assert refuse(guard, "select 1; -- a\nselect 2") == "Expected one SQL statement, found 2."
    assert "name, city" not in refuse(guard, "select c.pay from customers c") and "city" in refuse(
        guard, "select c.pay from customers c"
    )
    assert "10000" in refuse(guard, "select 1 --" + "x" * 10_000)
    assert refuse(guard, "select 1\x00") == "The query holds control characters; remove them."


def test_q06_text_that_is_no_query_is_refused() -> None:
    guard = Guard("sqlite", COLUMNS)
    for text in ("There are three customers.", "```sql\nSELECT 1\n```", "SELECT", "SELECT FROM WHERE", "'", "\ud800"):
        refuse(guard, text)


def test_q23_no_function_of_the_lists_reads_files_sleeps_or_makes_long_values() -> None:
    listed = {name.lower() for name in NODES | FUNCTION_NAMES}
    forbidden = ["sleep", "file", "xml", "dblink", "setting", "config", "repeat", "pad", "printf", "blob", "advisory"]
    for word in [*forbidden, "pg_"]:
        assert not [name for name in listed if word in name], word
    assert not [name for name in TYPES if name.startswith("REG") or name in ("XML", "USERDEFINED", "OBJECT")]
