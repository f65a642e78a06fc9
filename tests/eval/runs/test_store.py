import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.runs.folder import is_in_use
from eval.runs.record import PlannedQuestion, Record, Usage, build_missing_record
from eval.runs.run_info import VERSION, RunInfo
from eval.runs.store import RunStore, StoreError

FILES = {"run.db", "run.lock", "records.jsonl"}


def make(sample_id: str = "q1", epoch: int = 1, attempt: int = 1, **changes: Any) -> Record:
    known: dict[str, Any] = {"question": "Which?", "file": None, "level": "1", "target": "17", **changes}
    return Record(run_id="run-1", sample_id=sample_id, epoch=epoch, attempt=attempt, thread_id="t", **known)


def kept(path: Path) -> list[Record]:
    with RunStore(path) as store:
        return list(store.records())


def test_records_come_back_whole_and_in_the_order_written(tmp_path: Path) -> None:
    written = [
        make(
            f"q{n}",
            answer="17",
            score=1.0,
            usage=Usage(3, tool_calls=1, cost_usd=0.01),
            trajectory=[{"id": 0, "seconds": 0.5}],
        )
        for n in range(250, 0, -1)  # more than one page, and not in the order of their keys
    ]
    with RunStore(tmp_path / "run" / "run.db") as store:
        for record in written:
            store.write(record)
        assert list(store.records()) == written
    assert kept(tmp_path / "run" / "run.db") == written


WRITER = """
import sys
from pathlib import Path
from eval.runs.record import Record
from eval.runs.store import RunStore
store = RunStore(Path(sys.argv[1]))
for n in range(100_000):
    store.write(Record("r", f"q{n}", 1, 1, "t", "x" * 5000, None, None, None))
    print(f"q{n}", flush=True)
"""


def test_every_acknowledged_row_outlives_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline().strip() for _ in range(30)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    rows = [record.sample_id for record in kept(path)]
    assert rows[: len(acknowledged)] == acknowledged
    assert len(rows) <= len(acknowledged) + 1  # the row being written may have made it
    with RunStore(path) as store:
        store.write(make("after"))


def test_a_run_of_another_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_info(RunInfo(version=0))
        words = f"RunInfo of version 0, this program reads version {VERSION}: start a new run"
        with pytest.raises(StoreError, match=words):
            store.read_info()


def test_what_is_no_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_text("no database " * 100)
    with pytest.raises(StoreError, match=r"run\.db is damaged \(file is not a database\), and its folder has no copy"):
        RunStore(tmp_path / "run.db")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        RunStore(tmp_path / "file" / "run.db")


def test_a_full_disk_is_a_sentence_and_earlier_rows_stay(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write(make("q1"))
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own stand-in for ENOSPC
        with pytest.raises(StoreError, match="disk has room"):
            store.write(make("q2", answer="x" * 100_000))
        assert store.read_last_attempts() == {("q1", 1): (1, None)}


def test_a_question_that_was_not_run_is_an_error_with_the_gold_answer_of_its_plan() -> None:
    record = build_missing_record("r", PlannedQuestion("a", "A?", "a.csv", "17", "2"), epoch=3)
    assert (record.error_class, record.scored, record.correct, record.epoch) == ("not_run", True, False, 3)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with RunStore(path) as store:
        assert is_in_use(path)
        with pytest.raises(StoreError, match=r"run\.db is in use by another process; wait"):
            RunStore(path)
        store.write(make())  # the holder is not disturbed
    assert not is_in_use(path)
    RunStore(path).close()


def test_readers_need_no_lock_see_new_rows_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with RunStore(path) as writer, RunStore(path, read_only=True) as reader:
        writer.write(make("q1"))
        assert reader.read_last_attempts() == {("q1", 1): (1, None)}
        with pytest.raises(StoreError, match="cannot be written"):
            reader.write(make("q2"))
    before = path.read_bytes()
    with RunStore(path, read_only=True) as reader:
        assert len(list(reader.records())) == 1
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == FILES
