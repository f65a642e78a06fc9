"""A hostile `run.db` is not queried, what it names is left alone, and runs nothing."""

import sqlite3
from pathlib import Path

import pytest

from eval.runs.folder import FACTS, RECORDS
from eval.runs.run_schema import MAX_VALUE_BYTES
from eval.runs.store import RunStore, StoreError
from tests.eval.foreign_folder import edited
from tests.eval.stored_run import answered, stored_run

COLUMNS = "x AS row, 'q' AS sample_id, 1 AS epoch, 1 AS attempt, '' AS thread_id, NULL AS error_class, 0 AS cost_usd"
HOSTILE = {
    "an endless view": f"DROP TABLE records; CREATE VIEW records AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT "
    f"x + 1 FROM c) SELECT {COLUMNS}, '' AS finished_at, '' AS data FROM c",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
    "a virtual table": "CREATE VIRTUAL TABLE v USING fts5(x)",
    "another table": "CREATE TABLE more(x)",
    "an index on an expression": "CREATE INDEX i ON records(length(data))",
    "a generated column": "ALTER TABLE records ADD COLUMN g AS (length(data))",
    "a changed table": "DROP TABLE meta; CREATE TABLE meta(key TEXT, value TEXT)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stored_run(tmp_path / "run", [answered("q1", "17")])


@pytest.mark.parametrize(
    ("change", "read_only"), [*((each, True) for each in HOSTILE.values()), (HOSTILE["a trigger"], False)]
)
def test_other_objects_in_a_database_are_not_looked_into(
    change: str, read_only: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with edited(folder) as database:
        database.executescript(change)
    with RunStore(folder / "run.db", read_only) as store:  # made again from the copies in the folder
        assert [record.sample_id for record in store.records()] == ["q1"]
    assert "run.db is no database of a run: its schema is not that of a run" in capsys.readouterr().err
    if read_only:
        for name in (FACTS, RECORDS):
            (folder / name).unlink()
        with pytest.raises(StoreError, match="its schema is not that of a run"):
            RunStore(folder / "run.db", read_only)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_link_for_a_database_is_not_followed(ending: str, read_only: bool, folder: Path, tmp_path: Path) -> None:
    (folder / "run.db").rename(tmp_path / "other.db")
    if ending:
        (tmp_path / "other.db").rename(folder / "run.db")
        (tmp_path / "other.db").write_text("mine")
    (folder / f"run.db{ending}").symlink_to(tmp_path / "other.db")
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(StoreError, match=f"run.db{ending} is a link or another special file"):
        RunStore(folder / "run.db", read_only)
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_link_for_the_copy_of_the_rows_is_not_followed(folder: Path, tmp_path: Path) -> None:
    with RunStore(folder / "run.db") as store:
        (folder / RECORDS).rename(tmp_path / "other.jsonl")
        (folder / RECORDS).symlink_to(tmp_path / "other.jsonl")
        before = (tmp_path / "other.jsonl").read_bytes()
        store.write(answered("q2", "18"))
    assert (tmp_path / "other.jsonl").read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_journal_that_names_another_file_is_not_rolled_back(read_only: bool, folder: Path) -> None:
    """SQLite would remove that file."""
    (folder / "run.db-journal").write_bytes(b"mine.txt" + bytes.fromhex("d9d505f920a163d7"))
    with pytest.raises(StoreError, match="names another file, which would be removed"):
        RunStore(folder / "run.db", read_only)


def test_a_database_that_is_used_runs_no_functions_of_its_schema_and_has_no_endless_value(folder: Path) -> None:
    with RunStore(folder / "run.db", read_only=True) as store:
        database = store._database
        settings = [database.execute(f"PRAGMA {name}").fetchone() for name in ("trusted_schema", "cell_size_check")]
        assert settings == [(0,), (1,)]
        assert database.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == MAX_VALUE_BYTES
        assert database.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) == 0
