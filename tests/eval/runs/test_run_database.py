import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from eval.runs import recovery, run_database
from eval.runs.folder import Holder, RunLock
from eval.runs.record import JournalContent, JournalRow, encode_entry
from eval.runs.recovery import (
    Restored,
    are_copies_whole,
    find_damage,
    has_lines,
    read_journal,
    read_lines,
    repair_copies,
    restore,
    rewrite_copies,
)
from eval.runs.run_database import EmptyStoreError, Journal, StoreError
from eval.runs.run_info import RunInfo
from eval.runs.sqlite_file import compute_crc
from eval.runs.store import RunStore
from tests.eval.stored_run import answered, stored_run

LINES = ['{"sample_id": "q1"}', '{"sample_id": "q2"}']
ROWS = [JournalRow(n, f"q{n}", 1, 1, "2026-11-22", compute_crc(line)) for n, line in enumerate(LINES, 1)]
PLAN = [("q1", "{}"), ("q2", "{}")]
WHOLE = JournalContent({"info": "new"}, PLAN, {1: ROWS[0], 2: ROWS[1]})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    assert (journal.exists(), read_journal(tmp_path), list(read_lines(tmp_path, {1}))) == (False, JournalContent(), [])
    journal.add_meta("info", "old")
    journal.add_plan(PLAN[:1])
    journal.add_meta("info", "new")
    journal.add_plan(PLAN)
    for row, line in zip(ROWS, LINES, strict=True):
        journal.add_row(row, line)
    return journal


def test_the_last_of_each_key_and_of_the_plan_counts_and_rows_add_up(journal: Journal, tmp_path: Path) -> None:
    assert journal.exists()
    assert read_journal(tmp_path) == WHOLE
    assert [line.strip() for line in read_lines(tmp_path, {ROWS[1].line_crc})] == LINES[1:]


def test_a_damaged_line_is_counted_and_one_that_was_cut_off_is_not(journal: Journal, tmp_path: Path) -> None:
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-10])
    assert (read_journal(tmp_path).n_damaged, list(read_journal(tmp_path).rows)) == (0, [1])
    journal.path.write_bytes(whole.replace(b'"q1", "epoch"', b'"qX", "epoch"'))
    assert (read_journal(tmp_path).n_damaged, list(read_journal(tmp_path).rows)) == (1, [2])
    journal.path.write_bytes(b"\xff\n[\n1 2\n" + whole)
    assert (read_journal(tmp_path).n_damaged, read_journal(tmp_path).rows) == (3, WHOLE.rows)


def test_a_journal_that_is_too_long_is_not_read(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = journal.path.stat().st_size
    monkeypatch.setattr(recovery, "_MAX_BYTES", size)
    assert read_journal(tmp_path) == WHOLE
    monkeypatch.setattr(recovery, "_MAX_BYTES", size - 1)
    assert read_journal(tmp_path) == JournalContent()


def test_both_files_are_compared_and_written_again(journal: Journal, tmp_path: Path) -> None:
    meta = {"info": "new"}
    assert are_copies_whole(tmp_path, meta, PLAN, ROWS)
    assert not are_copies_whole(tmp_path, {"info": "old"}, PLAN, ROWS)
    assert not are_copies_whole(tmp_path, meta, PLAN[:1], ROWS)
    assert not are_copies_whole(tmp_path, meta, PLAN, ROWS[:1])
    journal.records_path.write_text(f"{LINES[0]}\n")
    assert not are_copies_whole(tmp_path, meta, PLAN, ROWS)
    rewrite_copies(tmp_path, meta, PLAN, ROWS[:1], LINES[:1])
    assert are_copies_whole(tmp_path, meta, PLAN, ROWS[:1])
    assert read_journal(tmp_path) == JournalContent(meta, PLAN, {1: ROWS[0]})
    journal.records_path.unlink()
    assert not are_copies_whole(tmp_path, meta, PLAN, ROWS[:1])
    rewrite_copies(tmp_path, meta, [], [], [])
    journal.records_path.unlink()
    assert are_copies_whole(tmp_path, meta, [], [])


@pytest.mark.parametrize(
    ("text", "same"),
    [(LINES, True), (LINES[:1], False), ([*LINES, "more"], False), (LINES[::-1], False), ([LINES[0], "é"], False)],
)
def test_a_file_of_records_has_exactly_the_lines_with_these_checksums(
    text: list[str], same: bool, tmp_path: Path
) -> None:
    (tmp_path / "records.jsonl").write_text("".join(f"{line}\n" for line in text))
    assert has_lines(tmp_path / "records.jsonl", [row.line_crc for row in ROWS]) is same
    assert not has_lines(tmp_path / "missing", [])


class _FullDisk:
    """A file that takes a few bytes and then no more."""

    def __init__(self, file: object) -> None:
        self.file = file

    def __enter__(self) -> "_FullDisk":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)

    def write(self, data: memoryview) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "no room")
        return int(self.file.write(data[:10]))  # type: ignore[attr-defined]


def test_a_line_that_does_not_fit_leaves_no_half_of_it_and_raises_nothing(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fdopen = run_database.os.fdopen
        patch.setattr(run_database.os, "fdopen", lambda *args, **options: _FullDisk(fdopen(*args, **options)))
        journal.add_meta("info", "x" * 100)
        journal.add_row(ROWS[0], "y" * 100)
    journal.add_meta("more", "fits")
    assert read_journal(tmp_path) == JournalContent({"info": "new", "more": "fits"}, PLAN, WHOLE.rows)
    assert journal.records_path.read_text().splitlines() == LINES


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run.journal").symlink_to(tmp_path / "mine")
    Journal(tmp_path).add_meta("info", "x")
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_copies_have_a_line_for_each_entry(journal: Journal, tmp_path: Path) -> None:
    entries: list[dict[str, object]] = [
        {"meta": ["info", "old"]}, {"plan": PLAN[:1]}, {"meta": ["info", "new"]}, {"plan": PLAN},
        *({"row": asdict(row)} for row in ROWS),
    ]  # fmt: skip
    assert journal.path.read_text() == "".join(map(encode_entry, entries))
    assert journal.records_path.read_text() == "".join(f"{line}\n" for line in LINES)
    assert (journal.path, journal.records_path) == (tmp_path / "run.journal", tmp_path / "records.jsonl")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = [answered("q1", "17"), answered("q2", "18"), answered("q2", "17", epoch=2)]
    return stored_run(tmp_path / "run", records, planned=["q1", "q2"], epochs=2)


@pytest.fixture
def database(run: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(run / "run.db", isolation_level=None)) as opened:
        yield opened


@pytest.fixture
def target() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.executescript(run_database._SCHEMA)
        yield opened


@pytest.mark.parametrize(
    ("change", "found", "only_whole"),
    [
        ("SELECT 1", None, False),
        ("UPDATE records SET cost_usd = 9 WHERE row = 2", "row 2 has a wrong checksum", False),
        ("UPDATE questions SET data = '{}' WHERE place = 1", "its list of questions has a wrong checksum", False),
        ("DELETE FROM questions WHERE place = 2", "its list of questions has a wrong checksum", False),
        ("DELETE FROM meta WHERE key = 'info'", "its info is missing", False),
        (
            "DELETE FROM records WHERE row > 1",
            "2 rows that were written to it are missing, as if its write-ahead log had been shortened",
            False,
        ),
        ("UPDATE details SET data = '{}' WHERE row = 3", "row 3 has a wrong checksum", True),
        ("DELETE FROM details WHERE row = 1", "row 1 has a wrong checksum", True),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_damage_is_named_where_it_is_looked_for(
    change: str, found: str | None, only_whole: bool, whole: bool, run: Path, database: sqlite3.Connection
) -> None:
    database.execute(change)
    content = read_journal(run)
    assert find_damage(database, content, whole) == (None if only_whole and not whole else found)


def test_what_no_journal_has_is_not_missed(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM records WHERE row = 1")
    database.execute("DELETE FROM meta WHERE key = 'info'")
    assert find_damage(database, JournalContent(), True) is None
    database.execute("DELETE FROM meta WHERE key = 'plan'")
    assert find_damage(database, JournalContent(), True) is None, "a run that died before it had one"


def list_answers(target: sqlite3.Connection) -> list[tuple[int, str, int]]:
    return target.execute("SELECT row, sample_id, epoch FROM records ORDER BY row").fetchall()


ALL = [(1, "q1", 1), (2, "q2", 1), (3, "q2", 2)]


def test_all_that_is_intact_is_taken_from_the_database_and_the_rest_from_its_copies(
    run: Path, database: sqlite3.Connection, target: sqlite3.Connection
) -> None:
    database.execute("UPDATE records SET cost_usd = 9 WHERE row = 3")
    database.execute("UPDATE meta SET value = '{}' WHERE key = 'state'")
    restored = restore(database, run, target)
    assert (restored.n_rows, restored.n_from_copy, restored.lost, restored.other) == (3, 1, [], [])
    assert restored.found_any and list_answers(target) == ALL
    repair_copies(target, run)
    assert find_damage(target, read_journal(run), True) is None


def test_what_is_nowhere_is_named(run: Path, database: sqlite3.Connection, target: sqlite3.Connection) -> None:
    database.execute("UPDATE records SET cost_usd = 9 WHERE row > 1")
    (run / "records.jsonl").unlink()
    restored = restore(database, run, target)
    assert (restored.n_rows, restored.n_from_copy, restored.lost) == (1, 0, ["q2", "q2 (epoch 2)"])
    assert list_answers(target) == ALL[:1]


def test_without_a_journal_damaged_parts_are_named_by_their_keys_and_numbers(
    run: Path, database: sqlite3.Connection, target: sqlite3.Connection
) -> None:
    for change in (
        "UPDATE records SET cost_usd = 9 WHERE row = 2", "UPDATE meta SET value = '{}' WHERE key = 'info'",
        "UPDATE questions SET data = '{}' WHERE place = 1",
    ):  # fmt: skip
        database.execute(change)
    (run / "run.journal").unlink()
    restored = restore(database, run, target)
    assert restored == Restored(2, 0, ["row 2"], ["info", "its list of questions"], True)
    assert list_answers(target) == [ALL[0], ALL[2]]
    assert target.execute("SELECT count(*) FROM questions").fetchone() == (0,)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_single_answer_is_enough_to_go_on_with(
    n_rows: int, run: Path, database: sqlite3.Connection, target: sqlite3.Connection
) -> None:
    for name in ("run.journal", "records.jsonl"):
        (run / name).unlink()
    for change in ("DELETE FROM meta", f"DELETE FROM records WHERE row > {n_rows}"):
        database.execute(change)
    restored = restore(database, run, target)
    assert (restored.n_rows, restored.found_any) == (n_rows, n_rows == 1)
    assert restored.describe() == f"{n_rows} of {n_rows} answers were restored; also lost: its list of questions"


def test_a_database_that_is_gone_is_restored_from_its_copies_or_there_is_nothing(
    run: Path, target: sqlite3.Connection, tmp_path: Path
) -> None:
    restored = restore(None, run, target)
    assert (restored.n_rows, restored.n_from_copy, restored.lost, restored.found_any) == (3, 3, [], True)
    assert list_answers(target) == ALL
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
        other.executescript(run_database._SCHEMA)
        assert restore(None, tmp_path / "none", other) == Restored(other=["its list of questions"])


def test_copies_that_are_whole_are_not_written_again(run: Path, database: sqlite3.Connection) -> None:
    before = [(run / name).stat().st_ino for name in ("run.journal", "records.jsonl")]
    repair_copies(database, run)
    assert [(run / name).stat().st_ino for name in ("run.journal", "records.jsonl")] == before
    text = (run / "records.jsonl").read_text()
    (run / "records.jsonl").write_text(text[:-5])
    repair_copies(database, run)
    assert (run / "records.jsonl").read_text() == text


def test_a_run_is_opened_by_one_process_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.db"
    with pytest.raises(StoreError) as refused:
        RunStore(path, read_only=True)
    assert str(refused.value) == f"{path} is not there; name the folder of a run that has been started"
    before = {*threading.enumerate()}
    with RunStore(path) as store:
        holder, found = Holder.this_process(), store.read_holder()
        assert found is not None and (found.pid, found.host) == (os.getpid(), holder.host)
        (thread,) = [each for each in {*threading.enumerate()} - before if each.name == "checkpoint run.db"]
        assert thread.daemon
        with pytest.raises(StoreError) as refused:
            RunStore(path)
        assert str(refused.value) == f"{path} is in use by {found}; wait for it, or stop it"
    thread.join(10)
    assert not thread.is_alive()
    store.close()
    with pytest.raises(StoreError, match=r"run\.db cannot be read \(.*closed.*\): check that the disk has room"):
        store.read_info()
    (tmp_path / "run.db").touch()
    with pytest.raises(EmptyStoreError) as empty:
        RunStore(tmp_path / "run.db", read_only=True)
    assert str(empty.value) == (f"{tmp_path}/run.db holds nothing yet; the run ended before it began, start a new one")
    with RunStore(path, read_only=True) as reader:
        assert reader.read_info() == RunInfo() and not reader.is_restored
        with pytest.raises(StoreError, match=r"readonly|read-only|query_only"):
            reader.write_info(RunInfo())


def test_a_file_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "mine.db").touch()
    (tmp_path / "run.db").symlink_to(tmp_path / "mine.db")
    with pytest.raises(StoreError) as refused:
        RunStore(tmp_path / "run.db")
    assert str(refused.value) == (
        f"{tmp_path}/run.db is not opened: run.db is a link or another special file, which is not followed"
    )
    assert not (tmp_path / "run.lock").exists()


def test_a_damaged_database_without_copies_is_refused_and_left(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_bytes(b"no database " * 1000)
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"and its folder has no copy to restore it from: start a new run$"):
            RunStore(tmp_path / "run.db", read_only, warn=lambda message: None)
    assert (tmp_path / "run.db").read_bytes() == b"no database " * 1000
    assert not (tmp_path / "run.db.restored").exists()


def test_answers_without_a_journal_are_warned_of_and_nothing_else_is(run: Path, tmp_path: Path) -> None:
    warnings: list[str] = []
    with RunStore(run / "run.db", warn=warnings.append):
        pass
    with RunStore(tmp_path / "new" / "run.db", warn=warnings.append):
        pass
    (tmp_path / "new" / "run.journal").unlink()
    with RunStore(tmp_path / "new" / "run.db", warn=warnings.append):
        pass
    assert warnings == []
    (run / "run.journal").unlink()
    with RunStore(run / "run.db", warn=warnings.append):
        pass
    assert warnings == [f"{run}/run.db has no run.journal next to it: if answers were lost from it, nobody can tell"]


def test_copies_of_another_run_do_not_stay_next_to_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("of another run\n")
    with RunStore(tmp_path / "run.db", warn=lambda message: None):
        assert (tmp_path / "records.jsonl").read_text() == ""


@pytest.mark.parametrize("read_only", [True, False])
def test_what_is_whole_in_a_damaged_database_is_kept_also_without_copies(read_only: bool, run: Path) -> None:
    with closing(sqlite3.connect(run / "run.db", isolation_level=None)) as database:
        database.execute("UPDATE records SET cost_usd = 9 WHERE row = 2")
    (run / "records.jsonl").unlink()
    warnings: list[str] = []
    with RunStore(run / "run.db", read_only, warn=warnings.append) as store:
        assert [(each.sample_id, each.epoch) for each in store.records()] == [("q1", 1), ("q2", 2)]
        assert store.is_restored
    kept = "" if read_only else "; the damaged file is kept as run.db.damaged"
    assert warnings == [
        f"{run}/run.db is damaged (row 2 has a wrong checksum): 2 of 3 answers were restored; lost, and asked again by "
        f"a resumed run: q2{kept}"
    ]
    assert (run / "run.db.damaged").exists() is not read_only
    assert not (run / "run.db.restored").exists()


def test_a_row_is_written_once(run: Path) -> None:
    with RunStore(run / "run.db") as store:
        with pytest.raises(StoreError) as refused:
            store.write(answered("q1", "18"))
        assert str(refused.value).startswith(
            f"{run}/run.db already has this row, and a row is written only once: UNIQUE constraint failed"
        )
        assert [each.answer for each in store.records()] == ["17", "18", "17"]
        store.write(answered("q1", "19", attempt=2))
        assert len(list(store.records())) == 4


def test_damage_to_a_run_that_is_written_now_is_told_and_not_restored(run: Path) -> None:
    with closing(sqlite3.connect(run / "run.db", isolation_level=None)) as database:
        database.execute("UPDATE details SET data = '{}' WHERE row = 2")
    lock = RunLock(run / "run.db")
    lock.take()
    try:
        with RunStore(run / "run.db", read_only=True, warn=lambda message: None) as store:
            with pytest.raises(StoreError) as refused:
                list(store.lines())
            assert str(refused.value) == f"{run}/run.db is damaged (row 2 has a wrong checksum)"
            assert not store.is_restored
    finally:
        lock.release()


def test_the_log_is_folded_into_the_file_every_five_seconds_if_something_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    statements: list[str] = []

    class Closed:
        """Each wait ends at once, the fourth one with the end of the store; before the second a row is written."""

        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            if len(waits) == 2:
                store.write(answered("q1", "17"))
            statements.append(f"wait {len(waits)}")
            return len(waits) == 4

    with RunStore(tmp_path / "run.db") as store:
        with monkeypatch.context() as patch:
            patch.setattr(store, "_closed", Closed())
            store._database.set_trace_callback(statements.append)
            store._checkpoint_regularly()
            store._database.set_trace_callback(None)
        kept = [each for each in statements if each.startswith(("wait", "PRAGMA wal_checkpoint"))]
        fold = "PRAGMA wal_checkpoint(PASSIVE)"
        assert kept == ["wait 1", fold, "wait 2", fold, "wait 3", "wait 4"]
        assert waits == [5.0] * 4
    waits.clear()
    monkeypatch.setattr(store, "_closed", Closed())
    monkeypatch.setattr(store, "write", lambda record: None)
    store._checkpoint_regularly()
    assert len(waits) == 4, "a database that cannot be used now may be later"


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_reader_sees_what_is_written_now_also_in_a_folder_that_it_cannot_write(
    is_writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.db"
    addresses: list[str] = []
    connect = run_database._connect_to

    def note(address: str) -> sqlite3.Connection:
        addresses.append(address.removeprefix(path.as_uri()))
        return connect(address)

    monkeypatch.setattr(run_database, "_connect_to", note)
    monkeypatch.setattr(os, "access", lambda *given: is_writable)  # root may write everywhere
    with RunStore(path) as writer:
        writer.write(answered("q1", "17"))
        with RunStore(path, read_only=True) as reader:
            assert [each.sample_id for each in reader.records()] == ["q1"]
    with RunStore(path, read_only=True) as reader:
        assert [each.sample_id for each in reader.records()] == ["q1"]
    assert addresses == ["", "?mode=rw", "?mode=rw" if is_writable else "?immutable=1"]


def test_what_is_begun_and_fails_is_taken_back_and_told_with_what_to_check(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with RunStore(path) as store:
        with pytest.raises(StoreError) as refused, store._transaction():
            store._database.execute("DELETE FROM meta")
            raise OSError("no room")
        assert str(refused.value) == (
            f"{path} cannot be written (no room): check that the disk has room, the folder is writable and the file is "
            "a run's database; rows already written are kept"
        )
        assert not store._database.in_transaction and store.read_holder() is not None
        with pytest.raises(ZeroDivisionError), store._transaction():
            store._database.execute("ROLLBACK")  # as a full disk does
            raise ZeroDivisionError
        with store._transaction():
            store._database.execute("DELETE FROM meta WHERE key = 'holder'")
        assert store.read_holder() is None
