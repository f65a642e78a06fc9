"""A real PostgreSQL: results, limits, and what the restricted role cannot do by itself. And the engine without one."""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.sql import postgres_engine as module
from mas.systems.bos.sql.databases import Database, open_database
from mas.systems.bos.sql.engine import DatabaseError, DatabaseUnavailableError
from mas.systems.bos.sql.postgres_engine import PostgresEngine
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits
from tests.mas.systems.bos.sql.hostile_queries import BENIGN_POSTGRES, POSTGRES, SECRET, TABLES
from tests.mas.systems.bos.sql.sql_databases import FUNCTIONS, NAME, URL_ENV, make_postgres
from tests.servers.postgres import RunningPostgres, why_not

psycopg = pytest.importorskip("psycopg")
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


def open_shop(check_role: bool = True, **limits: float) -> Database:
    settings = DatabaseSettings(url_env=URL_ENV, tables=TABLES, check_role=check_role)
    return open_database("shop", settings, QueryLimits(**limits))  # type: ignore[arg-type]


def dump(server: RunningPostgres) -> list[str]:
    return [line for line in server.dump(NAME).splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]


@pytest.mark.slow
@missing
@pytest.mark.parametrize(("defence", "n_run"), [("both", 0), ("database alone", 42)])
def test_q22_q23_hostile_queries_read_and_change_nothing(
    postgres: tuple[RunningPostgres, Mapping[str, str]], url: str, defence: str, n_run: int
) -> None:
    server, _ = postgres
    database, before = open_shop(check_role=False, seconds=0.3), dump(server)
    run, leaked = [], set()
    for hostile in POSTGRES:
        started = time.perf_counter()
        result = (database.query if defence == "both" else database.run)(hostile.query)
        assert time.perf_counter() - started < 10, hostile
        assert len(json.dumps(result)) < 200_000
        if result["success"]:
            run.append(hostile)
        if SECRET in json.dumps(result):
            leaked.add(hostile.query)
    assert dump(server) == before
    assert not Path("/tmp/bos-evil").exists()
    # Those that the owner of the database has opened to everybody; `check_role` refuses a role that may call them.
    callable_by_all = {each.query for each in POSTGRES if "reveal" in each.query and each.kind == "function"}
    assert leaked == (set() if defence == "both" else callable_by_all)
    assert {each.kind for each in run} <= ({"bomb"} if defence == "both" else {"bomb", "function", "catalogue", "row"})
    assert len([each for each in run if each.kind != "bomb"]) == n_run, run


@pytest.mark.slow
@missing
def test_q10_benign_queries_return_their_rows(url: str) -> None:
    database = open_shop(check_role=False)
    for query, rows in BENIGN_POSTGRES:
        result = database.query(query)
        assert (result["error"], result["data"], result["row_count"]) == (None, rows, len(rows)), query


@pytest.mark.slow
@missing
def test_a09_values_are_json_and_columns_are_kept(url: str) -> None:
    database = open_shop(check_role=False)
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
def test_q24_rows_and_time_are_limited(url: str) -> None:
    result = open_shop(check_role=False, max_rows=3).query("SELECT n FROM generate_series(1, 100000) AS g(n)")
    assert (result["row_count"], result["truncated"]) == (3, True)
    result = open_shop(check_role=False, seconds=0.3).query("SELECT count(*) FROM generate_series(1, 1000000000000) g")
    assert result["error"] == "The query was stopped after 0.3 seconds; write one that does less work."


@pytest.mark.slow
@missing
def test_q18_errors_are_those_of_the_database(url: str) -> None:
    assert open_shop(check_role=False).query("SELECT naem FROM customers")["error"] == 'column "naem" does not exist'


@pytest.mark.slow
@missing
def test_q03_the_schema_shows_the_listed_tables_only(url: str) -> None:
    schema = {table["name"]: table for table in open_shop(check_role=False).schema()}
    assert sorted(schema) == TABLES
    assert schema["orders"]["columns"][0] == {"name": "id", "type": "integer", "nullable": False, "primary_key": True}
    assert schema["orders"]["foreign_keys"] == [
        "(customer_id) REFERENCES customers(id)",
        "(product_id) REFERENCES products(id)",
    ]


@pytest.mark.slow
@missing
def test_q22_a_role_that_can_do_more_than_read_the_tables_is_refused(
    postgres: tuple[RunningPostgres, Mapping[str, str]], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, urls = postgres
    steps = [
        ("", "can call reveal"),
        ("DROP FUNCTION reveal(integer); DROP FUNCTION reveal_row(customers)", ""),
        ("GRANT UPDATE ON orders TO bos_reader", "can write to orders"),
        (
            "REVOKE UPDATE ON orders FROM bos_reader; GRANT SELECT (login) ON secret_users TO bos_reader",
            "can also read secret_users",
        ),
        (
            "REVOKE SELECT (login) ON secret_users FROM bos_reader; GRANT pg_read_server_files TO bos_reader",
            "pg_read_server_files",
        ),
        ("REVOKE pg_read_server_files FROM bos_reader", ""),
    ]
    for statement, excess in steps:
        if statement:
            server.query(NAME, statement)
        if not excess:
            assert open_shop().query("SELECT count(*) FROM customers")["data"] == [[3]]
            continue
        with pytest.raises(UserError, match=excess) as refusal:
            open_shop()
        assert "only SELECT on the listed tables" in str(refusal.value)
    monkeypatch.setenv(URL_ENV, urls["owner"])
    with pytest.raises(UserError, match="has the rights of mlflow"):
        open_shop()


@pytest.mark.slow
@missing
def test_a_failed_connection_names_neither_password_nor_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_ENV, url.replace("127.0.0.1:", "127.0.0.1:1"))
    with pytest.raises(UserError) as refusal:
        open_shop()
    assert "reader-pass-77" not in str(refusal.value) and "127.0.0.1" not in str(refusal.value)


class Cursor:
    """Cursor of a connection that is none; rows after an exception are not reached."""

    def __init__(self, rows: Sequence[object]) -> None:
        self.rows, self.executed = rows, list[tuple[object, bool]]()
        self.description: list[SimpleNamespace] | None = [SimpleNamespace(name="n"), SimpleNamespace(name=7)]

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def stream(self, query: bytes) -> Iterator[object]:
        assert query == b"SELECT 1"
        for row in self.rows:
            if isinstance(row, BaseException):
                raise row
            yield row

    def execute(self, query: bytes, prepare: bool) -> None:
        self.executed.append((query, prepare))


class FakeConnection:
    """Connection to no server: it gives what a test has written, and notes all."""

    def __init__(self, rows: Sequence[object] = (), selected: object = ()) -> None:
        self.written, self.selected = Cursor(rows), selected
        self.opened: list[tuple[object, ...]] = []
        self.queries: list[tuple[bytes, object]] = []
        self.read_only, self.closed = False, 0

    def connect(self, url: str, **settings: object) -> "FakeConnection":
        self.opened.append((url, settings))
        return self

    def cursor(self) -> Cursor:
        return self.written

    def execute(self, query: bytes, values: object) -> "FakeConnection":
        self.queries.append((query, values))
        if isinstance(self.selected, Exception):
            raise self.selected
        return self

    def fetchall(self) -> object:
        return self.selected.pop(0) if isinstance(self.selected, list) else self.selected

    def close(self) -> None:
        self.closed += 1


class ToldError(psycopg.Error):  # type: ignore[name-defined, misc]
    """Error with the words of a server."""

    diag = SimpleNamespace(message_primary="no such table")


class Timer:
    """Timer that waits until a test calls its function."""

    made: ClassVar[list["Timer"]] = []

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.seconds, self.function, self.daemon = seconds, function, False
        self.notes: list[str] = []
        self.made.append(self)

    def start(self) -> None:
        self.notes.append(f"started as {'daemon' if self.daemon else 'other'}")

    def cancel(self) -> None:
        self.notes.append("cancelled")


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    monkeypatch.setattr(Timer, "made", [])
    monkeypatch.setattr(module, "threading", SimpleNamespace(Event=threading.Event, Timer=Timer))
    return Timer.made


def fake(monkeypatch: pytest.MonkeyPatch, rows: Sequence[object] = (), selected: object = ()) -> Any:
    connection = FakeConnection(rows, selected)
    monkeypatch.setattr(psycopg, "connect", connection.connect)
    monkeypatch.setenv(URL_ENV, "postgresql://me@host/db")
    return PostgresEngine("shop", URL_ENV), connection


def test_an_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for unset in (lambda: monkeypatch.delenv(URL_ENV, raising=False), lambda: monkeypatch.setenv(URL_ENV, "")):
        unset()
        with pytest.raises(UserError) as refusal:
            PostgresEngine("shop", URL_ENV)
        assert str(refusal.value) == (
            f"Database 'shop' needs the environment variable {URL_ENV}: postgresql://user:password@host/db."
        )
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match=r"^Database 'shop' is a PostgreSQL; install its client with `pip install"):
        PostgresEngine("shop", URL_ENV)


@pytest.mark.parametrize("rows", [[(1, "a"), (2, "b")], []])
def test_a_query_runs_read_only_with_its_limits_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, timers: list[Timer], rows: list[object]
) -> None:
    engine, connection = fake(monkeypatch, rows)
    columns, found = engine.execute("SELECT 1", (), QueryLimits(seconds=2.5))
    assert columns == ["n", "7"] and connection.closed == 0 and connection.read_only is True
    options = (
        "-c default_transaction_read_only=on -c statement_timeout=2500 -c idle_in_transaction_session_timeout=7500 "
        "-c lock_timeout=1000 -c search_path=public -c standard_conforming_strings=on -c jit=off"
    )
    assert connection.opened == [("postgresql://me@host/db", {"options": options, "connect_timeout": 10})]
    assert list(found) == rows and connection.closed == 1
    assert connection.written.executed == ([] if rows else [(b"SELECT 1", True)])
    (timer,) = timers
    assert (timer.seconds, timer.notes) == (3.5, ["started as daemon", "cancelled"])


def test_a_query_without_columns_has_none(monkeypatch: pytest.MonkeyPatch, timers: list[Timer]) -> None:
    engine, connection = fake(monkeypatch)
    connection.written.description = None
    columns, rows = engine.execute("SELECT 1", (), QueryLimits())
    assert (columns, list(rows)) == ([], [])


def test_a_time_below_a_millisecond_is_no_time_without_end(
    monkeypatch: pytest.MonkeyPatch, timers: list[Timer]
) -> None:
    engine, connection = fake(monkeypatch, [(1,)])
    engine.execute("SELECT 1", (), QueryLimits(seconds=0.0001))
    options = connection.opened[0][1]["options"]
    assert "-c statement_timeout=1 -c idle_in_transaction_session_timeout=1 " in options


@pytest.mark.parametrize(
    ("error", "is_cut", "said"),
    [
        (psycopg.errors.UndefinedTable("no such"), False, "UndefinedTable"),
        (psycopg.errors.QueryCanceled("by the server"), False, "The query was stopped after 2 seconds; write one that"),
        (psycopg.OperationalError("the connection is gone"), True, "The query was stopped after 2 seconds; write one"),
        (ToldError("ERROR: …"), False, "no such table"),
        (MemoryError("much"), False, "MemoryError"),
    ],
)
@pytest.mark.parametrize("before", [[], [(1, "a")]])
def test_a_query_that_fails_says_why_and_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch,
    timers: list[Timer],
    error: Exception,
    is_cut: bool,
    said: str,
    before: list[object],
) -> None:
    def stream() -> Iterator[object]:
        yield from before
        if is_cut:
            timers[0].function()
        raise error

    engine, connection = fake(monkeypatch)
    near, far = socket.socketpair()
    with near, far:
        connection.fileno = near.fileno
        connection.written.stream = lambda query: stream()
        with pytest.raises(DatabaseError, match=f"^{said}"):
            list(engine.execute("SELECT 1", (), QueryLimits(seconds=2))[1])
        if is_cut:
            assert far.recv(1) == b"", "the other side sees the end"
        assert near.fileno() >= 0, "the connection closes its own socket"
    assert connection.closed == 1 and timers[0].notes[-1] == "cancelled"


def test_a_connection_that_is_gone_is_cut_without_an_error(timers: list[Timer]) -> None:
    def fail() -> int:
        raise OSError("no socket")

    with module._end_after(cast(Any, SimpleNamespace(fileno=fail)), 9.0) as has_ended:
        assert not has_ended.is_set()
        timers[0].function()
        assert has_ended.is_set()


def test_a_refused_connection_is_told_by_its_kind_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = fake(monkeypatch)

    def refuse(url: str, **settings: object) -> None:
        raise psycopg.OperationalError(f"no connection to {url}")

    monkeypatch.setattr(psycopg, "connect", refuse)
    for call in (lambda: engine.execute("SELECT 1", (), QueryLimits()), engine.read_schema):
        with pytest.raises(DatabaseUnavailableError) as refusal:
            call()
        assert str(refusal.value) == "the connection was refused (OperationalError)"
        assert refusal.value.__cause__ is None and refusal.value.__suppress_context__


def test_the_schema_is_made_of_columns_and_of_links_between_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [("a", "id", "integer", True, True), ("sales.b", "n", "text", False, False), ("a", "m", "date", True, 0)]
    links = [("a", "(m) REFERENCES b(n)"), ("hidden", "(x) REFERENCES a(id)"), ("a", "(id) REFERENCES c(id)")]
    engine, connection = fake(monkeypatch, selected=[columns, links])
    assert engine.read_schema() == [
        {
            "name": "a",
            "columns": [
                {"name": "id", "type": "integer", "nullable": False, "primary_key": True},
                {"name": "m", "type": "date", "nullable": False, "primary_key": False},
            ],
            "foreign_keys": ["(m) REFERENCES b(n)", "(id) REFERENCES c(id)"],
        },
        {
            "name": "sales.b",
            "columns": [{"name": "n", "type": "text", "nullable": True, "primary_key": False}],
            "foreign_keys": [],
        },
    ]
    assert [(query, values) for query, values in connection.queries] == [
        (module._COLUMNS.encode(), {}),
        (module._LINKS.encode(), {}),
    ]
    assert connection.closed == 2 and "-c statement_timeout=10000 " in connection.opened[0][1]["options"]


def test_a_catalogue_that_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, said in (
        (psycopg.errors.InsufficientPrivilege("no"), "InsufficientPrivilege"),
        (ToldError(), "no such"),
    ):
        engine, connection = fake(monkeypatch, selected=error)
        with pytest.raises(DatabaseError, match=f"^{said}"):
            engine.read_schema()
        assert connection.closed == 1


@pytest.mark.parametrize(
    ("rights", "excess"),
    [
        (("root", "t", "w", "f"), "has the rights of root"),
        ((None, "t", "w", "f"), "can call f, which runs with the rights of its owner"),
        ((None, "t", "w", None), "can write to w"),
        ((None, "t", None, None), "can also read t"),
        ((None, None, None, None), ""),
    ],
)
def test_the_gravest_right_that_is_too_much_is_named(
    monkeypatch: pytest.MonkeyPatch, rights: tuple[object, ...], excess: str
) -> None:
    engine, connection = fake(monkeypatch, selected=[[rights]])
    assert engine.find_excess(["orders", "sales.items"]) == excess
    assert connection.queries == [(module._RIGHTS.encode(), {"listed": ["public.orders", "sales.items"]})]
