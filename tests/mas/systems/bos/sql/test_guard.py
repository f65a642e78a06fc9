"""The guard by itself: what is hostile is refused before any database, what is benign is not."""

import sys
from collections import Counter
from subprocess import run

import pytest

from mas.systems.bos.sql.allowed import FUNCTION_NAMES, NODES, TYPES
from mas.systems.bos.sql.guard import Dialect, Guard, UnsafeQueryError
from tests.mas.systems.bos.sql import hostile_queries as queries

COLUMNS = {
    "customers": ("id", "name", "city"),
    "products": ("id", "name", "price"),
    "orders": ("id", "customer_id", "product_id", "quantity", "ordered_on"),
}
HOSTILE = {"sqlite": queries.SQLITE, "postgres": queries.POSTGRES}
BENIGN = {"sqlite": queries.BENIGN_SQLITE, "postgres": queries.BENIGN_POSTGRES}
PASSED = {"sqlite": 5, "postgres": 9}  # each reads listed tables only, for too long: the database's limits end them


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


def test_q23_there_are_enough_of_both_kinds() -> None:
    for dialect in HOSTILE:
        assert len({each.query for each in HOSTILE[dialect]}) == len(HOSTILE[dialect]) >= 80
        assert len(BENIGN[dialect]) >= 18


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
    for text in (
        "There are three customers.",
        "```sql\nSELECT 1\n```",
        "SELECT",
        "SELECT FROM WHERE",
        "'",
        "\ud800",
        "(",
    ):
        refuse(guard, text)


def test_q23_no_function_of_the_lists_reads_files_sleeps_or_makes_long_values() -> None:
    listed = {name.lower() for names in (NODES, *FUNCTION_NAMES.values()) for name in names}
    for word in (
        "sleep",
        "file",
        "xml",
        "dblink",
        "setting",
        "config",
        "repeat",
        "pad",
        "printf",
        "blob",
        "advisory",
        "pg_",
    ):
        assert not [name for name in listed if word in name], word
    assert not [name for name in TYPES if name.startswith("REG") or name in ("XML", "USERDEFINED", "OBJECT")]


def test_the_parser_is_loaded_only_with_the_first_query() -> None:
    heavy = "('sqlglot', 'psycopg', 'mcp', 'sqlite3')"
    code = f"import sys, mas.systems.bos.sql.databases; print([m for m in {heavy} if m in sys.modules])"
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_query_of_exactly_the_length_that_is_allowed_is_checked() -> None:
    query = "SELECT id FROM customers"
    fits = Guard("sqlite", COLUMNS, max_chars=len(query))
    assert fits.check(query) == 'SELECT id FROM "main"."customers"'
    assert refuse(fits, f"{query} ") == (
        f"The query has {len(query) + 1} characters; at most {len(query)} are allowed. Write a shorter one."
    )


LISTED = {"customers": ("id", "name"), "Orders": ("id", "n"), "sales.items": ("id",)}
ONLY_SELECT = "Only SELECT statements are allowed (also UNION, INTERSECT, EXCEPT, WITH … SELECT)."
KNOWN = "the tables are: customers, Orders, sales.items."


@pytest.mark.parametrize(
    ("query", "sqlite", "postgres"),
    [
        ("select 1 from main.customers", 'SELECT 1 FROM "main"."customers"', None),
        ("select 1 from public.customers", None, 'SELECT 1 FROM "public"."customers"'),
        ('select 1 from "Customers"', 'SELECT 1 FROM "main"."customers"', None),
        ("select 1 from Orders", 'SELECT 1 FROM "main"."Orders"', None),
        (
            'select o.N from "Orders" o',
            'SELECT o.N FROM "main"."Orders" AS o',
            'SELECT o.N FROM "public"."Orders" AS o',
        ),
        ("select 1 from Sales.ITEMS", 'SELECT 1 FROM "sales"."items"', 'SELECT 1 FROM "sales"."items"'),
        ("select 1 from items", None, None),
        ("select c.x from customers c", 'SELECT c.x FROM "main"."customers" AS c', None),
        ("select customers from customers", 'SELECT customers FROM "main"."customers"', None),
        (
            "select c.* from customers c",
            'SELECT c.* FROM "main"."customers" AS c',
            'SELECT c.* FROM "public"."customers" AS c',
        ),
        (
            "select C.NAME, id from customers as c",
            'SELECT C.NAME, id FROM "main"."customers" AS c',
            'SELECT C.NAME, id FROM "public"."customers" AS c',
        ),
        (
            "select q.any from (select 1 as a) q, json_each('[]') j -- comment",
            "SELECT q.any FROM (SELECT 1 AS a) AS q CROSS JOIN JSON_EACH('[]') AS j",
            "SELECT q.any FROM (SELECT 1 AS a) AS q, JSON_EACH('[]') AS j",
        ),
        (
            "select id as c from customers c order by c",
            'SELECT id AS c FROM "main"."customers" AS c ORDER BY c',
            'SELECT id AS c FROM "public"."customers" AS c ORDER BY c',
        ),
        (
            "select name from customers name",
            'SELECT name FROM "main"."customers" AS name',
            'SELECT name FROM "public"."customers" AS name',
        ),
        ("select\t1;\r\n", "SELECT 1", "SELECT 1"),
    ],
)
def test_a_query_is_put_into_the_form_of_its_dialect(query: str, sqlite: str | None, postgres: str | None) -> None:
    dialects: tuple[tuple[Dialect, str | None], ...] = (("sqlite", sqlite), ("postgres", postgres))
    for dialect, expected in dialects:
        guard = Guard(dialect, LISTED)
        if expected is None:
            refuse(guard, query)
        else:
            assert guard.check(query) == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from customers tablesample (5)", "SAMPLE of a table is not allowed."),
        ("select * from only customers", "ONLY of a table is not allowed."),
        ("select c from customers c", "c is a table here, not a column; name its columns."),
        ("select count(C) from customers c", "c is a table here, not a column; name its columns."),
        ("select customers from customers", "customers is a table here, not a column; name its columns."),
        ("select c.x from customers c", "There is no column x in c; it has id, name."),
        ("select cc.x from customers as cc(a, b)", "There is no column x in cc; it has a, b, id, name."),
        ("select items.x from sales.items", "There is no column x in items; it has id."),
        ('select "Orders".x from "Orders"', "There is no column x in Orders; it has id, n."),
        ("select 1 from customers where id in orders", "IN needs a list or a subquery in parentheses."),
        ("select 'a'::regclass", "OBJECT IDENTIFIER in a query is not allowed."),
        ("select cast(1 as xml)", "The type XML is not allowed."),
        ("select * from customers for update", "LOCK in a query is not allowed."),
        ("select 1 into x from customers", "INTO in a query is not allowed."),
        ("select current_user", "The function CURRENT_USER is not allowed."),
        ("select foo(1)", "The function foo is not allowed."),
        ("insert into customers values (1)", ONLY_SELECT),
        ("values (1)", ONLY_SELECT),
        ("(select 1)", ONLY_SELECT),
        ("select", ONLY_SELECT),
        ("select 1 from db.public.customers", f"The table db.public.customers is not available; {KNOWN}"),
        ('select 1 from "Customers"', f"The table Customers is not available; {KNOWN}"),
        ("select 1 from foo.Customers", f"The table foo.customers is not available; {KNOWN}"),
        ("select 1 from ÜSERS", f"The table Üsers is not available; {KNOWN}"),
        ("select 1\x1f", "The query holds control characters; remove them."),
        ("select 1\x0b", "The query holds control characters; remove them."),
        (f"select {'(' * 3000}1{')' * 3000}", "The query is nested too deeply; write a simpler one."),
        ("select 1; select 2; select 3", "Expected one SQL statement, found 3."),
    ],
)
def test_each_refusal_says_what_is_wrong(query: str, said: str) -> None:
    assert refuse(Guard("postgres", LISTED), query) == said


def test_a_query_that_cannot_be_read_is_told_in_one_line_without_its_text_on_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said = refuse(Guard("sqlite", LISTED), "select 'secret-4711\nfrom customers")
    assert said.startswith("The query could not be read as sqlite SQL: ") and "\n" not in said
    refuse(Guard("sqlite", LISTED), "vacuum secret_4711")
    assert capfd.readouterr() == ("", "")
    assert refuse(Guard("sqlite", {}), "select 1 from a") == "The table a is not available; the tables are: none."


def test_a_query_that_would_be_read_otherwise_than_it_was_checked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = iter(["SELECT 1", "SELECT 2"])
    monkeypatch.setattr(Guard, "_check_once", lambda self, query: next(rendered))
    assert refuse(Guard("sqlite", LISTED), "select 0") == "The query is ambiguous; write it in plain SQL."
