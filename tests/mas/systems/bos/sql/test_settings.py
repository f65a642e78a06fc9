"""Databases that are named, and those of a folder."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.sql.session import open_sql_session
from mas.systems.bos.sql.settings import DatabaseSettings, SqlSettings


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
