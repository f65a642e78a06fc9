"""Databases that are named, and those of a folder."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.sql.session import open_sql_session
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits, SqlSettings, ToolMap

BOTH_TOOLS = {"mcp_db_query": ToolMap("q"), "mcp_db_schema": ToolMap("s")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "zoo").mkdir()
    for name in ("shop.sqlite", "zoo/zoo.db", "zoo/notes.db", "own.sqlite3"):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.executescript("CREATE TABLE a (x); CREATE TABLE b (y); INSERT INTO a VALUES (1)")
    return tmp_path


def test_each_file_of_a_folder_is_a_database_and_a_named_one_comes_first(folder: Path) -> None:
    own = DatabaseSettings(path="elsewhere.sqlite", tables=["t"])
    settings = SqlSettings(databases={"own": own}, folder=str(folder), folder_tables={"shop": ["a"]})
    settings.check()
    found = settings.list_databases()
    assert {name: (Path(each.path or "").name, each.tables) for name, each in found.items()} == {
        "shop": ("shop.sqlite", ["a"]),
        "zoo": ("zoo.db", ["*"]),
        "own": ("elsewhere.sqlite", ["t"]),
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"folder": "nowhere"}, "has no SQLite file"), ({"folder_tables": {"shp": ["a"]}}, "folder_tables names shp")],
)
def test_a_wrong_folder_is_found_before_a_run(folder: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SqlSettings(**{"folder": str(folder), **settings}).check()  # type: ignore[arg-type]


def test_only_the_tables_that_are_named_can_be_read(folder: Path) -> None:
    settings = SqlSettings(folder=str(folder), folder_tables={"shop": ["a"]})
    with open_sql_session(settings) as session:
        assert list(session.guards["shop"].tables) == ["a"] and set(session.guards["zoo"].tables) == {"a", "b"}
        assert asyncio.run(session.query("SELECT x FROM a", "shop"))["data"] == [[1]]
        assert not asyncio.run(session.query("SELECT y FROM b", "shop"))["success"]
        assert asyncio.run(session.query("SELECT y FROM b", "zoo"))["success"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_retries": 0}, None),
        ({"max_retries": 10}, None),
        ({"max_retries": -1}, "system.sql.max_retries=-1 is out of range; expected 0 to 10."),
        ({"max_retries": 11}, "system.sql.max_retries=11 is out of range; expected 0 to 10."),
        ({"dialect": "postgres"}, None),
        ({"dialect": "mysql"}, "system.sql.dialect=mysql is not known; choose sqlite or postgres."),
        *(({"limits": QueryLimits(**{name: 1})}, None) for name in vars(QueryLimits())),
        *(
            ({"limits": QueryLimits(**{name: 0})}, f"system.sql.limits.{name}=0 must be more than 0.")
            for name in vars(QueryLimits())
        ),
        ({"command": ["server"], "tool_map": BOTH_TOOLS}, None),
        ({"url": "http://127.0.0.1:1/mcp", "tool_map": BOTH_TOOLS}, None),
        ({"tool_map": BOTH_TOOLS}, "system.sql.tool_map is for another server; set its command or url as well."),
        (
            {"command": ["server"], "tool_map": {"mcp_db_query": ToolMap("q")}},
            "tool_map names mcp_db_query; it needs mcp_db_query and mcp_db_schema.",
        ),
    ],
    ids=str,
)
def test_each_setting_is_checked_at_its_limits(settings: dict[str, object], message: str | None) -> None:
    given = SqlSettings({"shop": DatabaseSettings("shop.sqlite", tables=["a"])}, **settings)  # type: ignore[arg-type]
    if message is None:
        given.check()
        return
    with pytest.raises(UserError) as refused:
        given.check()
    assert str(refused.value) == message


NO_TABLES = "system.sql.databases.shop lists no tables; name those that may be read, or '*' for all."
NO_PLACE = "system.sql.databases.shop needs either a path (SQLite) or url_env (PostgreSQL)."


@pytest.mark.parametrize(
    ("database", "settings", "message"),
    [
        (DatabaseSettings("shop.sqlite"), {}, NO_TABLES),
        (DatabaseSettings("shop.sqlite"), {"url": "http://127.0.0.1:1/mcp"}, None),
        (DatabaseSettings("shop.sqlite"), {"url": "http://127.0.0.1:1/mcp", "tool_map": BOTH_TOOLS}, NO_TABLES),
        (DatabaseSettings(tables=["a"]), {}, NO_PLACE),
        (DatabaseSettings("shop.sqlite", "SHOP_URL", tables=["a"]), {}, NO_PLACE),
        (DatabaseSettings(url_env="SHOP_URL", tables=["a"]), {}, None),
        (DatabaseSettings(tables=["a"]), {"command": ["server"]}, None),
        (DatabaseSettings(tables=["a"]), {"url": "http://127.0.0.1:1/mcp"}, None),
    ],
)
def test_a_database_has_tables_and_one_place(
    database: DatabaseSettings, settings: dict[str, object], message: str | None
) -> None:
    given = SqlSettings({"shop": database}, **settings)  # type: ignore[arg-type]
    if message is None:
        given.check()
        return
    with pytest.raises(UserError) as refused:
        given.check()
    assert str(refused.value) == message


def test_addresses_and_their_passwords_are_secrets() -> None:
    names = {"a": "A_URL", "b": "B_URL", "c": "NOT_SET"}
    databases = {name: DatabaseSettings(url_env=variable) for name, variable in names.items()}
    databases["file"] = DatabaseSettings("shop.sqlite")
    environment = {"A_URL": "postgres://me:p%40ss@host/db", "B_URL": "postgres://[broken"}
    assert SqlSettings(databases).list_secrets(environment) == [
        *("postgres://me:p%40ss@host/db", "postgres://[broken"),
        *("p%40ss", ""),
        *("p@ss", ""),
    ]
