"""A hostile `run.db` is refused before it is queried, what it names is left alone, and every query can be ended."""

import ctypes
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.runs.call_log import CallLog
from eval.runs.folder import JOURNAL
from eval.runs.sqlite_file import (
    MAX_VALUE_BYTES,
    BestEffortSqlite,
    ForeignDatabaseError,
    QueryGuard,
    check_files,
    check_schema,
    compute_crc,
    encode_text,
    seal_text,
    unseal_text,
)
from eval.runs.store import RunStore, StoreError
from mas.runtime.sample_context import SampleKey
from optimize.search.trials import TrialRows
from tests.eval.foreign_folder import edited
from tests.eval.stored_run import answered, stored_run

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
COLUMNS = "x AS row, 'q' AS sample_id, 1 AS epoch, 1 AS attempt, '' AS thread_id, NULL AS error_class, 0 AS cost_usd"
HOSTILE = {
    "an endless view": f"DROP TABLE records; CREATE VIEW records AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT "
    f"x + 1 FROM c) SELECT {COLUMNS}, '' AS finished_at, 0 AS line_crc, '' AS data, 0 AS checksum FROM c",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
    "a virtual table": "CREATE VIRTUAL TABLE v USING fts5(x)",
    "another table": "CREATE TABLE more(x)",
    "an index on an expression": "CREATE INDEX i ON records(length(data))",
    "a generated column": "ALTER TABLE records ADD COLUMN g AS (length(data))",
    "a changed table": "DROP TABLE meta; CREATE TABLE meta(key TEXT, value TEXT, checksum INT)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stored_run(tmp_path / "run", [answered("q1", "17")])


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_other_objects_in_a_database_are_not_looked_into(
    change: str, read_only: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with edited(folder) as database:
        database.executescript(change)
    with RunStore(folder / "run.db", read_only) as store:  # made again from the copies in the folder
        assert [record.sample_id for record in store.records()] == ["q1"]
    assert "run.db is no database of a run: its schema is not that of a run" in capsys.readouterr().err
    if read_only:
        (folder / JOURNAL).unlink()
        with pytest.raises(StoreError, match="its schema is not that of a run"):
            RunStore(folder / "run.db", read_only)


def test_an_empty_database_may_not_hold_anything_either(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "run.db") as database:
        database.executescript("CREATE TABLE records(x); CREATE TRIGGER t AFTER INSERT ON records BEGIN SELECT 1; END")
    for read_only in (True, False):
        with pytest.raises(StoreError, match="its schema is not that of a run"):
            RunStore(tmp_path / "run.db", read_only)


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


def write_journal(database: Path, other: Path) -> None:
    """A journal to roll back, as of several databases, that names another file: SQLite removes that one afterwards."""
    magic = bytes.fromhex("d9d505f920a163d7")
    pages = database.stat().st_size // 4096
    header = magic + struct.pack(">IIIII", 0, 1, pages, 512, 4096)
    name = str(other).encode()
    end = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    Path(f"{database}-journal").write_bytes(header.ljust(512, b"\0") + end)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_journal_that_names_another_file_is_not_rolled_back(read_only: bool, folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    with edited(folder) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    write_journal(folder / "run.db", mine)
    with pytest.raises(StoreError, match="names another file, which would be removed"):
        RunStore(folder / "run.db", read_only)
    assert mine.exists()
    (folder / "run.db-journal").write_bytes(b"")
    check_files(folder / "run.db")
    with pytest.raises(ForeignDatabaseError):
        write_journal(folder / "run.db", mine)
        check_files(folder / "run.db")
    with edited(folder) as database:  # what SQLite itself does with it
        database.execute("SELECT * FROM meta").fetchall()
    assert not mine.exists()


def test_a_query_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.runs.sqlite_file.MAX_STEPS", 1_000_000)
    database = sqlite3.connect(":memory:")
    guard = QueryGuard(database)
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="interrupted"), guard:
            database.execute(ENDLESS).fetchall()
        with guard:
            assert database.execute("SELECT 1").fetchall() == [(1,)]


def test_a_signal_is_not_lost_at_the_first_look_or_a_later_one() -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt("SIGTERM")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        for n_rows in (0, 1_000_000):  # before the first look into the query, and after many
            database = sqlite3.connect(":memory:")
            database.create_function("send", 1, ctypes.CDLL(None)["raise"])  # in C: nothing handles it there
            sending = f"CASE x WHEN {n_rows} THEN send({int(signal.SIGTERM)}) END"
            with pytest.raises(KeyboardInterrupt, match="SIGTERM"), QueryGuard(database):
                database.execute(f"{ENDLESS.replace('SELECT 1', 'SELECT 0').replace('max(x)', f'max({sending})')}")
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_value_larger_than_any_of_a_run_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.runs.sqlite_file.MAX_VALUE_BYTES", 100_000)
    with edited(folder) as database:
        database.execute("UPDATE details SET data = zeroblob(200000)")
    with RunStore(folder / "run.db", read_only=True) as store, pytest.raises(StoreError, match="too big"):
        list(store.records())


@pytest.mark.parametrize("change", ["DROP TABLE replies; CREATE VIEW replies AS SELECT 1", "CREATE TABLE more(x)"])
def test_kept_replies_of_other_tables_are_set_aside(change: str, tmp_path: Path) -> None:
    log, said = CallLog(tmp_path / "calls.db"), []
    log.for_sample(SampleKey("q1")).put("k", "reply")
    log.close()
    with sqlite3.connect(tmp_path / "calls.db") as database:
        database.executescript(change)
    log = CallLog(tmp_path / "calls.db", said.append)
    assert log.for_sample(SampleKey("q1")).get("k") is None
    assert "its schema is not that of a run" in said[0]
    log.for_sample(SampleKey("q1")).put("k", "another")
    assert log.for_sample(SampleKey("q1")).get("k") == "another"
    log.close()
    (tmp_path / "trials.db").symlink_to(tmp_path / "calls.db")
    with pytest.raises(sqlite3.DatabaseError, match="is a link"):
        TrialRows(tmp_path / "trials.db")


QUERYING = f"""
import sqlite3, sys
from eval.cli.command import exit_now, run_cli
from eval.runs.sqlite_file import QueryGuard
def endless():
    database = sqlite3.connect(":memory:")
    with QueryGuard(database):
        print("begun", flush=True)
        database.execute("{ENDLESS}")
exit_now(run_cli(endless))
"""


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_signal_ends_a_command_in_the_middle_of_a_query(number: int, name: str) -> None:
    command = [sys.executable, "-c", QUERYING]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT_ROOT, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 3
    assert f"stopped by {name}" in err


def test_a_database_that_is_used_runs_no_functions_of_its_schema_and_has_no_endless_value(folder: Path) -> None:
    with RunStore(folder / "run.db", read_only=True) as store:
        database = store._database
        settings = [database.execute(f"PRAGMA {name}").fetchone() for name in ("trusted_schema", "cell_size_check")]
        assert settings == [(0,), (1,)]
        assert database.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == MAX_VALUE_BYTES
        assert database.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) == 0


class Kept(BestEffortSqlite):
    tables = ("CREATE TABLE IF NOT EXISTS kept(x)", "CREATE TABLE IF NOT EXISTS more(y)")
    consequence = "its calls are lost"
    consequence_of_new = "its calls are made again"


def test_a_file_that_may_be_lost_is_made_with_its_folder_and_waits_for_nobody(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "deep" / "er" / "kept.db"
    kept = Kept(path, "the cache", said.append)
    assert kept.is_open and path.exists()
    assert kept.execute("INSERT INTO kept VALUES(?)", "a") == []
    assert kept.execute("SELECT x FROM kept UNION ALL SELECT y FROM more") == [("a",)]
    settings = ("journal_mode", "synchronous", "busy_timeout", "trusted_schema", "cell_size_check")
    assert [kept.execute(f"PRAGMA {name}")[0][0] for name in settings] == ["wal", 1, 200, 0, 1]
    thread = threading.Thread(target=lambda: kept.execute("INSERT INTO kept VALUES('b')"))
    thread.start()
    thread.join()
    assert kept.execute("SELECT count(*) FROM kept") == [(2,)]
    kept.close()
    kept.close()
    assert not kept.is_open
    assert kept.execute("SELECT x FROM kept") == [] and not kept.is_open, "it is not opened again"
    with Kept(path, "the cache", said.append)._turns:  # nobody holds it
        pass
    for ending in ("-wal", "-shm"):
        path.with_name(f"kept.db{ending}").touch()
    kept.remove()
    kept.remove()
    assert list(path.parent.iterdir()) == [] and said == []


@pytest.mark.parametrize("set_aside", [True, False])
def test_a_broken_file_is_told_once_and_set_aside_where_one_process_writes_it(set_aside: bool, tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "kept.db"
    path.write_bytes(b"no database at all" * 100)
    kept = Kept(path, "the cache", said.append, set_aside=set_aside)
    outcome = "it is set aside as kept.db.broken, and its calls are made again"
    lost = "its calls are lost; nothing else is lost"
    assert said == [f"the cache {path} cannot be used (file is not a database); {outcome if set_aside else lost}"]
    kept.execute("INSERT INTO kept VALUES('a')")
    assert kept.execute("SELECT x FROM kept") == ([("a",)] if set_aside else [])
    assert (tmp_path / "kept.db.broken").exists() is set_aside and len(said) == 1
    kept.close()


def test_a_query_that_fails_costs_its_result_and_the_file_stays(tmp_path: Path) -> None:
    said: list[str] = []
    kept = Kept(tmp_path / "kept.db", "the cache", said.append, set_aside=True)
    for _ in range(2):
        assert kept.execute("SELECT z FROM kept") == []
    assert said == [
        f"the cache {tmp_path}/kept.db cannot be used (no such column: z); its calls are lost; nothing else is lost"
    ]
    assert kept.is_open and not (tmp_path / "kept.db.broken").exists()
    kept.close()


def test_a_broken_file_that_cannot_be_renamed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    (tmp_path / "kept.db").write_bytes(b"no database at all" * 100)

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(Path, "replace", refuse)
    Kept(tmp_path / "kept.db", "the cache", said.append, set_aside=True)
    assert said[0].endswith("; its calls are lost; nothing else is lost")


def test_a_missing_table_and_one_of_others_are_told_apart() -> None:
    schema = "CREATE TABLE a(x); CREATE TABLE b(y)"
    for made, what in (
        ("CREATE TABLE a(x)", "a table is missing"),
        (f"CREATE TABLE {'c' * 100}(z)", f"the table '{'c' * 80}' is not of this program"),
        ("CREATE VIEW v AS SELECT 1", "the view 'v' is not of this program"),
        ("CREATE TABLE a(x, more)", "the table 'a' is not of this program"),
    ):
        database = sqlite3.connect(":memory:")
        database.execute(made)
        with pytest.raises(ForeignDatabaseError) as refused:
            check_schema(database, schema)
        assert str(refused.value) == f"its schema is not that of a run: {what}"
        database.close()
    database = sqlite3.connect(":memory:")
    database.executescript(schema)
    check_schema(database, schema)
    assert database.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) == 0
    assert database.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == MAX_VALUE_BYTES
    database.close()


def test_a_query_has_so_many_steps_and_each_block_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.runs.sqlite_file.MAX_STEPS", 300)
    monkeypatch.setattr("eval.runs.sqlite_file._STEPS_AT_ONCE", 100)
    looks: list[object] = []

    class Watched:
        def set_progress_handler(self, look: object, steps: int) -> None:
            looks.extend([look, steps])

    guard = QueryGuard(Watched())  # type: ignore[arg-type]
    look, steps = looks
    assert steps == 100 and callable(look)
    for _ in range(2):
        with guard:
            assert [look() for _ in range(4)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("values", "content"), [((), b""), (("a", 1, None), b"a\0001\0None\0"), (("\ud800",), b"\xed\xa0\x80\0")]
)
def test_a_checksum_is_over_the_values_as_text_with_a_zero_after_each(
    values: tuple[object, ...], content: bytes
) -> None:
    assert compute_crc(*values) == zlib.crc32(content)


def test_a_sealed_text_comes_back_and_shows_its_damage() -> None:
    for text in ("", "a\ud800\0é"):
        sealed = seal_text(text)
        assert sealed == b"%08x" % zlib.crc32(encode_text(text) + b"\0") + encode_text(text)
        assert unseal_text(sealed) == text
        with pytest.raises(ValueError, match="its checksum is wrong"):
            unseal_text(sealed + b"x")
    for kept in ("text", None, 7):
        with pytest.raises(ValueError, match=r"it is no BLOB"):
            unseal_text(kept)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_no_file_that_sqlite_reads_is_a_link(ending: str, tmp_path: Path) -> None:
    check_files(tmp_path / "run.db")
    (tmp_path / "mine").touch()
    (tmp_path / f"run.db{ending}").symlink_to(tmp_path / "mine")
    with pytest.raises(ForeignDatabaseError) as refused:
        check_files(tmp_path / "run.db")
    assert str(refused.value) == f"run.db{ending} is a link or another special file, which is not followed"


def test_only_a_journal_that_names_another_file_is_refused(tmp_path: Path) -> None:
    end = bytes.fromhex("d9d505f920a163d7")
    for name in ("run.db", "run.db-wal"):
        (tmp_path / name).write_bytes(end)
    (tmp_path / "run.db-journal").write_bytes(end + b"x")
    check_files(tmp_path / "run.db")
    (tmp_path / "run.db-journal").write_bytes(b"x" + end)
    with pytest.raises(ForeignDatabaseError, match=r"^run\.db-journal names another file, which would be removed$"):
        check_files(tmp_path / "run.db")
