"""Databases that are named, and those of a folder."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.sql.session import open_sql_session
from mas.systems.bos.sql.settings import (
    DatabaseSettings,
    QueryLimits,
    SqlSettings,
    ToolMap,
    find_files,
    find_password,
)

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


def test_the_settings_without_a_configuration() -> None:
    assert vars(QueryLimits()) == {"max_rows": 200, "max_bytes": 100_000, "seconds": 10.0, "max_chars": 10_000}
    assert vars(DatabaseSettings()) == {"path": None, "url_env": None, "tables": [], "check_role": True}
    assert vars(SqlSettings()) == {
        "databases": {},
        "limits": QueryLimits(),
        "url": None,
        "command": [],
        "environment": [],
        "dialect": "sqlite",
        "max_retries": 3,
        "tool_map": {},
        "folder": None,
        "folder_tables": {},
    }
    SqlSettings().check()
    assert SqlSettings().list_databases() == {} and SqlSettings().list_secrets() == []


def test_files_of_a_folder_are_those_in_it_and_those_in_a_folder_of_their_name(tmp_path: Path) -> None:
    places = ("a.sqlite", "b/b.db", "c/d/d.sqlite3", "c/other.db", "e.txt", "f.sqlite.bak", "b.sqlite")
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    assert find_files(tmp_path) == {
        "a": tmp_path / "a.sqlite",
        "b": tmp_path / "b.sqlite",  # the last by name of those that are called alike
        "d": tmp_path / "c/d/d.sqlite3",
    }
    assert find_files(tmp_path / "c/d") == {"d": tmp_path / "c/d/d.sqlite3"} and find_files(tmp_path / "none") == {}
    settings = SqlSettings(folder=str(tmp_path), folder_tables={"a": ["x"], "zoo": ["y"], "yak": []})
    with pytest.raises(UserError) as refused:
        settings.check()
    assert str(refused.value) == "system.sql.folder_tables names zoo, which is not in system.sql.folder."
    listed = {name: each.tables for name, each in settings.list_databases().items()}
    assert listed == {"a": ["x"], "b": ["*"], "d": ["*"]}


def test_tables_of_a_folder_are_not_looked_at_without_one(tmp_path: Path) -> None:
    SqlSettings(folder_tables={"zoo": ["y"]}).check()
    with pytest.raises(UserError) as refused:
        SqlSettings(folder=str(tmp_path)).check()
    assert str(refused.value) == (
        f"system.sql.folder={tmp_path} has no SQLite file; expected NAME.sqlite or NAME/NAME.sqlite in it."
    )


@pytest.mark.parametrize(
    ("address", "password"),
    [
        ("postgresql://me:secret@host:5432/db", "secret"),
        ("postgresql://me@host/db", ""),
        ("postgresql://me:p%40ss@host/db", "p%40ss"),
        ("host/db", ""),
        ("postgres://[broken", ""),
    ],
)
def test_the_password_in_an_address(address: str, password: str) -> None:
    assert find_password(address) == password
