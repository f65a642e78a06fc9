"""The engine of SQLite by itself: what it reads, what its authorizer refuses, and where its limits end a query."""

import functools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from mas.systems.bos.sql import sqlite_engine
from mas.systems.bos.sql.engine import DatabaseError, DatabaseUnavailableError
from mas.systems.bos.sql.settings import QueryLimits
from mas.systems.bos.sql.sqlite_engine import HEAP_BYTES, VALUE_BYTES, SQLiteEngine, _read_rows

LIMITS = QueryLimits(seconds=5.0)
SCHEMA = """
    CREATE TABLE towns (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, note);
    CREATE TABLE "odd ""one" (town INTEGER REFERENCES towns (id), day DATE, PRIMARY KEY (town, day));
    CREATE TABLE sqlitely (a TEXT REFERENCES towns);
    CREATE TABLE hidden (id INTEGER, word TEXT);
    CREATE VIEW names AS SELECT name FROM towns;
    CREATE VIEW words AS SELECT word FROM hidden;
    INSERT INTO towns VALUES (1, 'Bern', NULL), (2, CAST(x'42ff' AS TEXT), x'00');
    INSERT INTO hidden VALUES (1, 'word');
"""
COUNTED = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3000)"


@functools.cache
def make_content() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return connection.serialize()


@pytest.fixture
def engine(tmp_path: Path) -> SQLiteEngine:
    file = tmp_path / "a #1?mode=rw%20.sqlite"
    file.write_bytes(make_content())
    return SQLiteEngine(str(file))


@pytest.fixture
def opened(engine: SQLiteEngine, monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections that the engine has opened."""
    found: list[sqlite3.Connection] = []
    connect = engine._connect

    def note() -> sqlite3.Connection:
        found.append(connect())
        return found[-1]

    monkeypatch.setattr(engine, "_connect", note)
    return found


def is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.set_progress_handler(None, 0)
    except sqlite3.ProgrammingError:
        return True
    return False


def ask(engine: SQLiteEngine, query: str, *tables: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in engine.execute(query, tables or ("towns", "names"), LIMITS)[1]]


def refuse(engine: SQLiteEngine, query: str, *tables: str) -> str:
    with pytest.raises(DatabaseError) as refusal:
        ask(engine, query, *tables)
    return str(refusal.value)


def column(name: str, kind: str, nullable: bool = True, primary_key: bool = False) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": nullable, "primary_key": primary_key}


def test_the_schema_has_tables_and_views_by_name_without_those_of_sqlite(
    engine: SQLiteEngine, opened: list[sqlite3.Connection]
) -> None:
    assert engine.read_schema() == [
        {"name": "hidden", "columns": [column("id", "INTEGER"), column("word", "TEXT")], "foreign_keys": []},
        {"name": "names", "columns": [column("name", "TEXT")], "foreign_keys": []},
        {
            "name": 'odd "one',
            "columns": [column("town", "INTEGER", False, True), column("day", "DATE", False, True)],
            "foreign_keys": ["town -> towns.id"],
        },
        {"name": "sqlitely", "columns": [column("a", "TEXT")], "foreign_keys": ["a -> towns.primary key"]},
        {
            "name": "towns",
            "columns": [column("id", "INTEGER", False, True), column("name", "TEXT", False), column("note", "")],
            "foreign_keys": [],
        },
        {"name": "words", "columns": [column("word", "TEXT")], "foreign_keys": []},
    ]
    assert [is_closed(each) for each in opened] == [True]
    assert engine.find_excess(["towns"]) == ""


def test_what_is_no_file_or_no_database_is_said(tmp_path: Path) -> None:
    for name in ("missing.sqlite", "."):
        missing = SQLiteEngine(str(tmp_path / name))
        said = f"^there is no file {(tmp_path / name).name}$"
        with pytest.raises(DatabaseUnavailableError, match=said):
            missing.read_schema()
        with pytest.raises(DatabaseUnavailableError, match=said):
            missing.execute("SELECT 1", (), LIMITS)
    assert list(tmp_path.iterdir()) == [], "none is made"
    (tmp_path / "text.sqlite").write_text("no database at all, but a text " * 40)
    with pytest.raises(DatabaseError, match=r"^text\.sqlite: file is not a database$"):
        SQLiteEngine(str(tmp_path / "text.sqlite")).read_schema()


def test_a_result_has_its_columns_and_rows_and_the_connection_ends_with_it(
    engine: SQLiteEngine, opened: list[sqlite3.Connection]
) -> None:
    columns, rows = engine.execute("SELECT id, id, name AS n, note FROM Towns ORDER BY id", ("TOWNS",), LIMITS)
    assert columns == ["id", "id", "n", "note"] and not is_closed(opened[0])
    assert list(rows) == [(1, 1, "Bern", None), (2, 2, "B\ufffd", b"\x00")] and is_closed(opened[0])
    columns, rows = engine.execute("SELECT id FROM towns WHERE id > 9", ("towns",), LIMITS)
    assert (columns, list(rows)) == (["id"], [])
    columns, rows = engine.execute("-- nothing", ("towns",), LIMITS)
    assert (columns, list(rows)) == ([], [])
    _, rows = engine.execute("SELECT id FROM towns", ("towns",), LIMITS)
    assert next(rows) == (1,)
    rows.close()  # type: ignore[attr-defined]  # as a reader does that has enough
    assert [is_closed(each) for each in opened] == [True] * 4


def test_rows_may_be_read_in_another_thread(engine: SQLiteEngine) -> None:
    _, rows = engine.execute("SELECT id FROM towns ORDER BY id", ("towns",), LIMITS)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(rows))
    thread.start()
    thread.join()
    assert found == [(1,), (2,)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT wrong FROM towns", "no such column: wrong"),
        ("SELECT 1; SELECT 2", "You can only execute one statement at a time."),
    ],
)
def test_a_query_that_fails_says_why_and_leaves_no_connection(
    engine: SQLiteEngine, opened: list[sqlite3.Connection], query: str, said: str
) -> None:
    assert refuse(engine, query) == said
    assert [is_closed(each) for each in opened] == [True]


def test_an_error_without_words_is_told_by_its_kind_and_ends_the_connection(
    engine: SQLiteEngine, opened: list[sqlite3.Connection]
) -> None:
    def run_out() -> Iterator[tuple[int]]:
        yield (1,)
        raise MemoryError

    rows = _read_rows(engine._connect(), run_out(), LIMITS)  # type: ignore[arg-type]
    assert next(rows) == (1,)
    with pytest.raises(DatabaseError, match=r"^MemoryError$"):
        next(rows)
    assert [is_closed(each) for each in opened] == [True]


@pytest.mark.parametrize(
    ("query", "tables", "rows"),
    [
        ("SELECT count(*) FROM towns", "towns", [(2,)]),
        ("SELECT name FROM names WHERE name = 'Bern'", "towns names", [("Bern",)]),
        ("WITH c AS (SELECT 7 AS a) SELECT count(*) FROM c", "towns", [(1,)]),
        ("WITH c AS (SELECT 7 AS a) SELECT a FROM c", "towns", [(7,)]),
        (f"{COUNTED} SELECT max(n) FROM r", "towns", [(3000,)]),
        ("SELECT value FROM json_each('[3, 4]')", "towns", [(3,), (4,)]),
        ("SELECT count(*) FROM json_tree('[3, 4]')", "towns", [(3,)]),
        ("SELECT upper('a'), abs(-1), coalesce(NULL, 2)", "towns", [("A", 1, 2)]),
        ("SELECT upper(word) FROM hidden", "hidden", [("WORD",)]),
    ],
)
def test_listed_tables_and_what_a_query_makes_itself_are_read(
    engine: SQLiteEngine, query: str, tables: str, rows: list[tuple[object, ...]]
) -> None:
    assert ask(engine, query, *tables.split()) == rows


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT word FROM hidden", "access to hidden.word is prohibited"),
        ("SELECT count(*) FROM hidden", "not authorized"),
        ("SELECT word FROM words", "access to hidden.word is prohibited"),
        ("SELECT name FROM sqlite_schema", "access to sqlite_master.name is prohibited"),
        ("SELECT count(*) FROM sqlite_schema", "not authorized"),
        ("WITH sqlite_c AS (SELECT 1 AS a) SELECT count(*) FROM sqlite_c", "not authorized"),
        ("WITH pragma_c AS (SELECT 1 AS a) SELECT count(*) FROM pragma_c", "not authorized"),
        ("SELECT randomblob(3)", "not authorized to use function: randomblob"),
        ("SELECT ZeroBlob(3)", "not authorized to use function: ZeroBlob"),
        ("SELECT printf('%9d', 1)", "not authorized to use function: printf"),
        ("SELECT format('%9d', 1)", "not authorized to use function: format"),
        ("SELECT load_extension('x')", "not authorized to use function: load_extension"),
        ("INSERT INTO towns (name) VALUES ('x')", "not authorized"),
        ("DELETE FROM towns", "not authorized"),
        ("CREATE TEMP TABLE t (a)", "not authorized"),
        ("PRAGMA query_only", "not authorized"),
        ("ATTACH ':memory:' AS other", "not authorized"),
        ("BEGIN", "not authorized"),
    ],
)
def test_what_is_not_listed_is_refused_by_the_database(engine: SQLiteEngine, query: str, said: str) -> None:
    assert refuse(engine, query, "towns", "names", "words") == said


def test_a_connection_is_read_only_before_anything_is_restricted(engine: SQLiteEngine) -> None:
    with closing(engine._connect()) as connection:
        with pytest.raises(sqlite3.OperationalError, match="readonly database"):
            connection.execute("DELETE FROM towns")
        assert not connection.in_transaction, "no statement opens a transaction by itself"


def test_the_settings_of_a_restricted_connection(engine: SQLiteEngine, opened: list[sqlite3.Connection]) -> None:
    assert (HEAP_BYTES, VALUE_BYTES) == (268_435_456, 1_048_576)
    _, rows = engine.execute("SELECT 1", ("towns",), LIMITS)
    (connection,) = opened
    connection.set_authorizer(None)

    def read(setting: str) -> object:
        return connection.execute(f"PRAGMA {setting}").fetchone()[0]

    assert [read(each) for each in ("hard_heap_limit", "query_only", "trusted_schema", "temp_store")] == [
        268_435_456,
        1,
        0,
        2,
    ]
    assert connection.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) == 0
    assert list(rows) == [(1,)]


def test_a_value_has_at_most_its_bytes(engine: SQLiteEngine) -> None:
    half = "SELECT replace(hex(x'" + "00" * 1024 + f"'), '0', '{'x' * (VALUE_BYTES // 4096)}') AS a"
    assert ask(engine, f"WITH h AS ({half}) SELECT length(a || a) FROM h") == [(VALUE_BYTES,)]
    assert refuse(engine, f"WITH h AS ({half}) SELECT length(a || a || 'x') FROM h") == "string or blob too big"


@pytest.mark.parametrize(("seconds", "is_stopped"), [(2.5, False), (2.51, True)])
@pytest.mark.parametrize("query", [f"{COUNTED} SELECT max(n) FROM r", f"{COUNTED} SELECT n FROM r"])
def test_a_query_is_stopped_when_its_time_is_over_and_not_before(
    engine: SQLiteEngine,
    opened: list[sqlite3.Connection],
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    seconds: float,
    is_stopped: bool,
) -> None:
    readings = iter([100.0])
    clock: Callable[[], float] = lambda: next(readings, 100.0 + seconds)  # noqa: E731
    monkeypatch.setattr(sqlite_engine, "time", SimpleNamespace(monotonic=clock))

    def run() -> int:
        return len(list(engine.execute(query, ("towns",), QueryLimits(seconds=2.5))[1]))

    if is_stopped:
        with pytest.raises(DatabaseError, match=r"^The query was stopped after 2\.5 seconds; write one that does less"):
            run()
    else:
        assert run() in (1, 3000)
    assert [is_closed(each) for each in opened] == [True]
