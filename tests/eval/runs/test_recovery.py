"""Bytes that go bad in a run's folder: everything is found again or named, and nothing ends in a traceback."""

import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.runs import recovery
from eval.runs.record import JournalContent, JournalRow, Record, Usage, encode_entry, read_plan, read_rows
from eval.runs.recovery import (
    Restored,
    are_copies_whole,
    find_damage,
    has_lines,
    is_damage,
    read_journal,
    read_lines,
    repair_copies,
    restore,
    set_aside,
)
from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.sqlite_file import compute_crc
from eval.runs.store import RunStore, list_pending

IDS = [f"q{n}" for n in range(1, 13)]
INFO = RunInfo(run_id="r", command=["limit=12"], config={"name": "x" * 3000})
STATE = RunState(sessions=[SessionInfo("2026-11-22T08:00:00+00:00")])
COPIES = ("run.journal", "records.jsonl")


def make(sample_id: str) -> Record:
    number = int(sample_id[1:])
    return Record(
        "r", sample_id, 1, 1, f"t-{sample_id}", f"Which is {sample_id}?", None, "1", "17",
        answer=str(number), score=1.0, usage=Usage(3, cost_usd=0.5), state={"é": "\ud800"},
        trajectory=[{"text": sample_id * 700 * (number % 4)}],
    )  # fmt: skip


RECORDS = [make(sample_id) for sample_id in IDS]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder where nothing waits for a disk."""
    parent = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=parent if parent.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that ended."""
    folder = tmp_path_factory.mktemp("closed")
    with RunStore(folder / "run.db") as store:
        fill(store)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was killed: all of it is in the write-ahead log."""
    base = tmp_path_factory.mktemp("killed")
    with RunStore(base / "at-work" / "run.db") as store:
        fill(store)
        shutil.copytree(base / "at-work", base / "folder")
    return base / "folder"


def fill(store: RunStore) -> None:
    store.write_plan([Sample(sample_id, f"Which is {sample_id}?", target="17") for sample_id in IDS])
    store.write_info(INFO)
    store.write_state(STATE)
    for record in RECORDS:
        store.write(record)


def flip(path: Path, draw: random.Random, times: int = 1) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(times):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


class Found:
    """What a reader finds in a folder, and then what a writer finds who goes on with the run."""

    def __init__(self, folder: Path) -> None:
        self.warnings: list[str] = []
        with RunStore(folder / "run.db", read_only=True, warn=self.warnings.append) as store:
            self.read = self._look(store)
        with RunStore(folder / "run.db", warn=self.warnings.append) as store:
            self.resumed = self._look(store)
            for key in list_pending(IDS, 1, store.read_last_attempts(), retry_errors=False):
                store.write(make(key.sample_id))
        with RunStore(folder / "run.db", read_only=True, warn=self.warnings_after) as store:
            self.after = self._look(store)

    def warnings_after(self, message: str) -> None:
        raise AssertionError(f"it was restored, and is damaged again: {message}")

    def _look(self, store: RunStore) -> tuple[list[Record], RunInfo, RunState, list[str]]:
        ordered = sorted(store.records(), key=lambda record: IDS.index(record.sample_id))
        answers = [record.answer for record in store.records(without_trajectory=True)]
        assert len(answers) == len(ordered) == len(store.read_last_attempts()) == len(list(store.final_records()))
        assert len(list(store.correlation_ids())) == len(ordered)
        return ordered, store.read_info(), store.read_state(), store.list_planned_ids()


WHOLE = (RECORDS, INFO, STATE, IDS)


def check_nothing_is_lost(folder: Path) -> list[str]:
    found = Found(folder)
    assert found.read == found.resumed == found.after == WHOLE, found.warnings
    return found.warnings


@pytest.mark.parametrize("name", ["run.db", "run.db-wal", *COPIES])
def test_a_flipped_bit_anywhere_costs_nothing(name: str, closed: Path, killed: Path, memory: Path) -> None:
    draw, reported = random.Random(name), 0
    for number in range(25):
        folder = memory / str(number)
        shutil.copytree(killed if name == "run.db-wal" else closed, folder)
        flip(folder / name, draw)
        reported += bool(check_nothing_is_lost(folder))
    assert reported >= (10 if name.startswith("run.db") else 0)  # the others hit bytes that hold nothing


def test_a_hundred_flipped_bits_at_once_cost_nothing_if_the_copies_are_whole(closed: Path, memory: Path) -> None:
    for number in range(10):
        folder = memory / str(number)
        shutil.copytree(closed, folder)
        flip(folder / "run.db", random.Random(number), times=100)
        (warning, *_) = check_nothing_is_lost(folder)
        assert "12 of 12 answers were restored" in warning
        assert (folder / "run.db.damaged").exists()


def test_a_removed_or_shortened_write_ahead_log_is_reported_and_costs_nothing(killed: Path, tmp_path: Path) -> None:
    for number, length in enumerate([0, 32, 40_000, -5000, -1]):
        folder = tmp_path / str(number)
        shutil.copytree(killed, folder)
        log = folder / "run.db-wal"
        log.write_bytes(log.read_bytes()[:length])
        if length == 0:
            log.unlink()
        warnings = check_nothing_is_lost(folder)
        assert warnings[0].startswith(f"{folder}/run.db is damaged (")


def test_what_a_lost_write_ahead_log_held_is_named_if_there_is_no_copy(killed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed, folder)
    with RunStore(folder / "run.db", warn=never):
        pass  # all of it is now in the database
    with RunStore(folder / "run.db", warn=never) as store:
        store.write(make_again("q3", attempt=2))
        store.write(make_again("q4", attempt=2))
        shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "run.db-wal").unlink()
    (tmp_path / "copy" / "records.jsonl").unlink()
    warnings: list[str] = []
    with RunStore(tmp_path / "copy" / "run.db", warn=warnings.append) as store:
        assert list(store.records()) == RECORDS
    assert warnings == [
        f"{tmp_path}/copy/run.db is damaged (2 rows that were written to it are missing, as if its write-ahead log had "
        f"been shortened): 12 of 14 answers were restored; lost, and asked again by a resumed run: q3, q4; the damaged "
        f"file is kept as run.db.damaged"
    ]


def make_again(sample_id: str, attempt: int) -> Record:
    record = make(sample_id)
    record.attempt = attempt
    return record


def never(message: str) -> None:
    raise AssertionError(message)


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_vanished_database_is_restored_from_its_copies(how: str, closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    (folder / "run.db").unlink() if how == "removed" else (folder / "run.db").write_bytes(b"")
    warnings = check_nothing_is_lost(folder)
    assert warnings[0] == (
        f"{folder}/run.db has vanished, or is empty: 12 of 12 answers were restored, 12 of them from records.jsonl"
    )


def test_a_row_that_is_damaged_everywhere_is_named_and_asked_again_and_the_others_stay(
    closed: Path, tmp_path: Path
) -> None:
    for copies in (COPIES, ()):
        folder = tmp_path / str(len(copies))
        shutil.copytree(closed, folder)
        for name in ("run.db", "records.jsonl"):
            content = (folder / name).read_bytes()
            assert content.count(b"Which is q7?") >= 1
            (folder / name).write_bytes(content.replace(b't-q7", "question"', b't-q7", "questiom"'))
        for name in set(COPIES) - set(copies):
            (folder / name).unlink()
        warnings: list[str] = []
        for read_only in (True, False):
            with RunStore(folder / "run.db", read_only, warnings.append) as store:
                assert [record.sample_id for record in store.records()] == [each for each in IDS if each != "q7"]
                assert [key.sample_id for key in list_pending(IDS, 1, store.read_last_attempts(), False)] == ["q7"]
        name = "q7" if copies else "row 7"
        assert len(warnings) == 2
        assert all(
            f"run.db is damaged (row 7 has a wrong checksum): 11 of 12 answers were restored; lost, and asked again by "
            f"a resumed run: {name}" in warning
            for warning in warnings
        )


def test_a_killed_writers_copies_are_completed_and_its_log_is_folded_in_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.runs.run_database.CHECKPOINT_SECONDS", 0.05)
    with RunStore(tmp_path / "run.db") as store:
        fill(store)
        deadline = time.monotonic() + 10
        while b"Which is q12?" not in (tmp_path / "run.db").read_bytes():
            assert time.monotonic() < deadline, "the log is not folded in"
            time.sleep(0.02)
    records = (tmp_path / "records.jsonl").read_bytes()
    for name in COPIES:
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-10])
    with RunStore(tmp_path / "run.db", warn=never):
        pass
    assert (tmp_path / "records.jsonl").read_bytes() == records
    (tmp_path / "run.db").unlink()
    with RunStore(tmp_path / "run.db", read_only=True, warn=lambda message: None) as store:
        assert list(store.records()) == RECORDS


def test_without_copies_a_flipped_bit_costs_a_row_at_most_and_is_reported(closed: Path, memory: Path) -> None:
    lost = 0
    for number in range(25):
        folder = memory / str(number)
        shutil.copytree(closed, folder)
        for name in COPIES:
            (folder / name).unlink()
        flip(folder / "run.db", random.Random(number))
        warnings: list[str] = []
        with RunStore(folder / "run.db", warn=warnings.append) as store:
            left = list(store.records())
            assert (store.read_info(), store.read_state()) in ((INFO, STATE), (RunInfo(), STATE), (INFO, RunState()))
        assert [each for each in RECORDS if each in left] == left
        assert len(left) >= len(RECORDS) - 1
        assert len(left) == len(RECORDS) or "11 of 12 answers were restored; lost" in warnings[0]
        lost += len(RECORDS) - len(left)
    assert lost > 0


def test_a_database_without_its_journal_says_that_losses_cannot_be_noticed(closed: Path, tmp_path: Path) -> None:
    shutil.copy(closed / "run.db", tmp_path / "run.db")
    warnings: list[str] = []
    with RunStore(tmp_path / "run.db", warn=warnings.append):
        pass
    with RunStore(tmp_path / "run.db", warn=never):
        pass
    assert warnings == [
        f"{tmp_path}/run.db has no run.journal next to it: if answers were lost from it, nobody can tell"
    ]


@pytest.mark.parametrize("kind", ["missing", "a number", "a blob"])
def test_details_of_any_type_are_no_traceback(kind: str, closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    change = {
        "missing": "UPDATE details SET row = 99 WHERE row = 12",
        "a number": "UPDATE details SET data = 7 WHERE row = 12",
        "a blob": "UPDATE details SET data = CAST(data AS BLOB) WHERE row = 12",
    }[kind]
    with closing(sqlite3.connect(folder / "run.db")) as database, database:
        database.execute("PRAGMA ignore_check_constraints = 1")
        database.execute(change)
    (warning, *_) = check_nothing_is_lost(folder)
    assert "row 12 has a wrong checksum" in warning


def sqlite_error(kind: type[sqlite3.Error], code: int) -> sqlite3.Error:
    error = kind("x")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((sqlite_error(sqlite3.DatabaseError, code), True) for code in (1, 11, 26, 267, 522, 11 | 2 << 8)),
        *((sqlite_error(sqlite3.DatabaseError, code), False) for code in (5, 10, 13)),
        *((sqlite_error(sqlite3.OperationalError, code), False) for code in (5, 10, 13, 14, 266, 778, 1034)),
        (sqlite3.DatabaseError("its info has a wrong checksum"), True),
        (sqlite3.OperationalError("Could not decode to UTF-8"), True),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), True),
        (sqlite3.IntegrityError("x"), False),
        (sqlite3.ProgrammingError("closed"), False),
        (OSError("no room"), False),
        (ValueError(), False),
    ],
)
def test_an_error_is_damage_if_the_bytes_are_wrong(error: Exception, expected: bool) -> None:
    assert is_damage(error) is expected


@pytest.mark.parametrize(
    ("restored", "text"),
    [
        (Restored(), "0 of 0 answers were restored"),
        (Restored(3), "3 of 3 answers were restored"),
        (
            Restored(3, 1, ["q9"], ["info"]),
            "3 of 4 answers were restored, 1 of them from records.jsonl; lost, and asked again by a resumed run: q9; "
            "also lost: info",
        ),
        (Restored(3, 1), "3 of 3 answers were restored, 1 of them from records.jsonl"),
        (Restored(3, 0, ["a", "b"]), "3 of 5 answers were restored; lost, and asked again by a resumed run: a, b"),
        (Restored(3, 0, [], ["info", "state"]), "3 of 3 answers were restored; also lost: info, state"),
    ],
)
def test_the_outcome_is_told_in_words(restored: Restored, text: str) -> None:
    assert restored.describe() == text


def test_of_many_lost_answers_twenty_are_named() -> None:
    twenty = [f"q{number}" for number in range(20)]
    head = "1 of 21 answers were restored; lost, and asked again by a resumed run: "
    assert Restored(1, 0, twenty).describe() == head + ", ".join(twenty)
    assert Restored(1, 0, [*twenty, "q20"]).describe().endswith("q18, q19 and 1 more")
    many = Restored(1, 0, [*twenty, "q20", "q21"], ["info"]).describe()
    assert many == f"{head.replace('21', '23')}{', '.join(twenty)} and 2 more; also lost: info"


def test_what_is_left_nowhere_is_named_by_its_question_and_epoch(tmp_path: Path) -> None:
    rows = [JournalRow(1, "q1", 1, 1, "t", 7), JournalRow(2, "q2", 2, 1, "t", 8), JournalRow(13, "q2", 2, 1, "t", 9)]
    lines = [encode_entry({"row": vars(each)}) for each in rows]
    (tmp_path / "run.journal").write_text("".join(lines))
    with RunStore(tmp_path / "new" / "run.db"):
        pass
    database = sqlite3.connect(tmp_path / "new" / "run.db", isolation_level=None)
    with closing(database):
        database.execute("DELETE FROM meta")
        found = restore(None, tmp_path, database)
        assert found == Restored(0, 0, ["q1", "q2 (epoch 2)", "q2 (epoch 2)"], ["its list of questions"], False)
        database.execute("DELETE FROM meta")
        (tmp_path / "run.journal").write_text(lines[0] + encode_entry({"meta": ["info", "{}"]}))
        assert restore(None, tmp_path, database) == Restored(0, 0, ["q1"], ["its list of questions"], True)


def test_all_of_a_whole_database_is_restored_without_its_copies(closed: Path, tmp_path: Path) -> None:
    with RunStore(tmp_path / "new.db"):
        pass
    with (
        closing(sqlite3.connect(closed / "run.db")) as old,
        closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as new,
    ):
        new.execute("DELETE FROM meta")
        assert restore(old, tmp_path, new) == Restored(12, 0, [], [], True)
        assert (read_plan(new), read_rows(new)) == (read_plan(old), read_rows(old))
        content = read_journal(closed)
        assert (content.plan, content.rows, content.n_damaged) == (read_plan(old), read_rows(old), 0)
        for whole in (True, False):
            assert find_damage(new, content, whole) is None
        content.rows[99] = JournalRow(99, "q99", 1, 1, "t", 7)
        lost = "1 rows that were written to it are missing, as if its write-ahead log had been shortened"
        assert find_damage(new, content, whole=False) == lost
        content.meta["another"] = "x"
        assert find_damage(new, content, whole=False) == "its another is missing"
        new.execute("UPDATE details SET data = '{}' WHERE row = 3")
        assert find_damage(new, JournalContent(), whole=False) is None
        assert find_damage(new, JournalContent(), whole=True) == "row 3 has a wrong checksum"
        new.execute("DELETE FROM questions WHERE place = (SELECT max(place) FROM questions)")
        assert find_damage(new, JournalContent(), whole=False) == "its list of questions has a wrong checksum"


def test_a_journal_is_read_up_to_what_is_damaged_or_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_journal(tmp_path) == JournalContent()
    first, second = encode_entry({"meta": ["info", "1"]}), encode_entry({"meta": ["state", "2"]})
    row = JournalRow(1, "q1", 1, 1, "t", 7)
    path = tmp_path / "run.journal"
    path.write_text(first + "12 {}\n\n" + encode_entry({"row": vars(row)}) + "no number\n" + second.rstrip("\n"))
    whole = JournalContent({"info": "1", "state": "2"}, None, {1: row}, 2)
    assert read_journal(tmp_path) == whole, "a last line without its end may be whole"
    path.write_text(first + second[:-5])
    assert read_journal(tmp_path) == JournalContent({"info": "1"}), "a last line that was cut off is no damage"
    monkeypatch.setattr(recovery, "_MAX_BYTES", len(first))
    path.write_text(first)
    assert read_journal(tmp_path) == JournalContent({"info": "1"})
    path.write_text(first + "x")
    assert read_journal(tmp_path) == JournalContent()


def test_lines_are_found_by_their_checksums(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    one, two, three = (compute_crc(text) for text in ("one", "two", "three"))
    assert list(read_lines(tmp_path, {one})) == []
    assert not has_lines(path, [])
    path.write_text("one\ntwo\nthree")
    assert list(read_lines(tmp_path, {one, three, 5})) == ["one\n", "three"]
    for checksums, same in (
        ([one, two, three], True),
        ([one, two], False),
        ([one, two, three, 5], False),
        ([two, one, three], False),
        ([], False),
    ):
        assert has_lines(path, checksums) is same
    path.write_text("")
    assert has_lines(path, []) is True
    assert has_lines(path, [one]) is False


def test_copies_are_whole_if_they_hold_the_same_and_nothing_else(closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    content = read_journal(folder)
    plan, rows = content.plan or [], list(content.rows.values())

    def whole(**changes: object) -> bool:
        given = {"meta": content.meta, "plan": plan, "rows": rows, **changes}
        return are_copies_whole(folder, **given)  # type: ignore[arg-type]

    assert whole()
    assert not whole(meta={**content.meta, "info": "another"})
    assert not whole(plan=plan[1:])
    assert not whole(rows=rows[1:])
    journal = (folder / "run.journal").read_bytes()
    (folder / "run.journal").write_bytes(journal + b"damaged\n")
    assert not whole(), "the journal has a damaged line"
    (folder / "run.journal").write_bytes(journal)
    (folder / "records.jsonl").unlink()
    assert not whole()
    for path in ("run.journal", "records.jsonl"):
        (folder / path).unlink(missing_ok=True)
    assert whole(meta={}, plan=[], rows=[])
    (folder / "records.jsonl").write_text("a line\n")
    assert not whole(meta={}, plan=[], rows=[])


def test_copies_that_are_not_whole_are_written_again(closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    kept = {name: (folder / name).read_bytes() for name in COPIES}
    before = {name: (folder / name).stat().st_ino for name in COPIES}
    with closing(sqlite3.connect(folder / "run.db")) as database:
        repair_copies(database, folder)
        assert {name: (folder / name).stat().st_ino for name in COPIES} == before, "they are whole"
        (folder / "records.jsonl").write_bytes(kept["records.jsonl"][:-20])
        repair_copies(database, folder)
    assert (folder / "records.jsonl").read_bytes() == kept["records.jsonl"]
    assert read_journal(folder) == read_journal(closed)


def test_a_damaged_database_is_kept_with_its_log_and_without_its_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    for name in ("run.db", "run.db-wal", "run.db-shm"):
        (tmp_path / name).write_text(name)
    set_aside(path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "run.db.damaged": "run.db", "run.db-wal.damaged": "run.db-wal",
    }  # fmt: skip
    set_aside(path)
    path.write_text("again")
    set_aside(path)
    assert (tmp_path / "run.db.damaged").read_text() == "again"
