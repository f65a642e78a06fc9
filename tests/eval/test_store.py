import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pydantic
import pytest

from eval.record import Record, Usage
from eval.store import RunStore, StoreError, plain


def make(example_id: str = "q1", epoch: int = 1, attempt: int = 1, **changes: Any) -> Record:
    known: dict[str, Any] = {"question": "Which?", "file": None, "level": "1", "target": "17", **changes}
    return Record(run_id="run-1", example_id=example_id, epoch=epoch, attempt=attempt, thread_id="t", **known)


def kept(path: Path) -> list[Record]:
    with RunStore(path) as store:
        return list(store.records())


def test_records_come_back_whole_and_in_the_order_written(tmp_path: Path) -> None:
    written = [
        make(f"q{n}", answer="17", score=1.0, usage=Usage(3, 1, 10, 5, 0.01), trajectory=[{"id": 0, "seconds": 0.5}])
        for n in range(250, 0, -1)  # more than one page, and not in the order of their keys
    ]
    with RunStore(tmp_path / "run" / "run.db") as store:
        for record in written:
            store.write(record)
        assert list(store.records()) == written
    assert kept(tmp_path / "run" / "run.db") == written


def test_finished_keys_name_every_row(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        assert store.finished_keys() == set()
        store.write(make("é\ud800\0'\"\\"))
        store.write(make("q1", epoch=2, attempt=3, error="it broke"))
        assert store.finished_keys() == {("é\ud800\0'\"\\", 1, 1), ("q1", 2, 3)}


def test_a_second_row_with_the_same_key_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write(make(answer="first"))
        with pytest.raises(StoreError, match="only once"):
            store.write(make(answer="second"))
        assert [record.answer for record in store.records()] == ["first"]


def test_lone_surrogates_and_nuls_survive(tmp_path: Path) -> None:
    odd = "a\ud83d\0\u202e\udfff"
    record = make(odd, answer=odd, state={odd: [odd]})
    with RunStore(tmp_path / "run.db") as store:
        store.write(record)
    assert kept(tmp_path / "run.db") == [record]


class Plan(pydantic.BaseModel):
    steps: list[str]
    file: Path


@dataclasses.dataclass
class Step:
    name: str


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


def test_what_systems_leave_in_their_state_becomes_json_without_folders() -> None:
    state = {
        "plan": Plan(steps=["look"], file=Path("/data/private/a.csv")),
        "step": Step("one"),
        "seen": {"b", "a"},
        "raw": b"\xff",
        3: (float("nan"), 1.5, None, True, Opaque()),
    }
    assert plain(state) == {
        "plan": {"steps": ["look"], "file": "a.csv"},
        "step": {"name": "one"},
        "seen": ["a", "b"],
        "raw": "b'\\xff'",
        "3": ["nan", 1.5, None, True, "<opaque>"],
    }


def test_a_state_that_contains_itself_is_written(tmp_path: Path) -> None:
    state: dict[str, Any] = {"name": "loop"}
    state["self"] = state
    with RunStore(tmp_path / "run.db") as store:
        store.write(make(state=state))
        assert next(store.records()).state["self"]["self"]["name"] == "loop"


WRITER = """
import sys
from pathlib import Path
from eval.record import Record
from eval.store import RunStore
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
    rows = [record.example_id for record in kept(path)]
    assert rows[: len(acknowledged)] == acknowledged
    assert len(rows) <= len(acknowledged) + 1  # the row being written may have made it
    with RunStore(path) as store:
        store.write(make("after"))


def test_threads_take_turns(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:

        def write_twenty(name: str) -> None:
            for n in range(20):
                store.write(make(f"{name}-{n}"))

        threads = [threading.Thread(target=write_twenty, args=[name]) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.finished_keys()) == len(list(store.records())) == 80


def test_the_database_survives_power_loss_by_its_settings(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        assert store._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert store._database.execute("PRAGMA user_version").fetchone() == (1,)


def test_facts_about_the_run_are_kept_and_replaced(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.set_meta("example_ids", '["a"]')
        store.set_meta("example_ids", '["a", "b\ud800"]')
    with RunStore(tmp_path / "run.db") as store:
        assert store.meta() == {"schema_version": "1", "example_ids": '["a", "b\ud800"]'}


def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "run.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match=r"schema version 99.*reads version 1"):
        RunStore(tmp_path / "run.db")


def test_what_is_no_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_text("no database " * 100)
    with pytest.raises(StoreError, match=r"run\.db cannot be opened"):
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
        assert store.finished_keys() == {("q1", 1, 1)}
