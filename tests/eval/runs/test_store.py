import dataclasses
import json
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

from eval.benchmarks.dataset import Sample
from eval.runs.folder import is_in_use
from eval.runs.record import PlannedQuestion, Record, Usage, build_missing_record
from eval.runs.recovery import read_journal
from eval.runs.run_info import RunInfo, RunState, SessionInfo, SweepJob, TaskInfo, TuningUse
from eval.runs.sqlite_file import compute_crc
from eval.runs.store import RunStore, StoreError, check_free, list_pending, read_run_info
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey
from mas.runtime.text import to_jsonable

FILES = {"run.db", "run.lock", "run.journal", "records.jsonl"}


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


def test_finished_keys_name_every_row(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        assert store.list_finished_keys() == set()
        store.write(make("é\ud800\0'\"\\"))
        store.write(make("q1", epoch=2, attempt=3, error="it broke"))
        assert store.list_finished_keys() == {("é\ud800\0'\"\\", 1, 1), ("q1", 2, 3)}


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
    assert to_jsonable(state) == {
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
        assert len(store.list_finished_keys()) == len(list(store.records())) == 80


def test_the_database_survives_power_loss_by_its_settings(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        assert store._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert store._database.execute("PRAGMA user_version").fetchone() == (4,)


def test_facts_about_the_run_are_kept_and_replaced(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        assert (store.read_info(), store.read_state()) == (RunInfo(), RunState())
        store.write_info(RunInfo(run_id="a"))
        info = RunInfo(
            run_id="b\ud800",
            config={"model": {"name": "m"}},
            command=["limit=1"],
            task=TaskInfo("d", file_sha256={"q1": "f"}),
            sweep=SweepJob("s", "night", "2026-11-21T08:00:00+00:00", "host", 1, 0, ["a=1"]),
            tuning_use=TuningUse("mine", ["q1"], [], {}),
        )
        state = RunState(sessions=[SessionInfo("2026-11-21T08:00:00+00:00", changes={"limit": "1 → 2"})])
        store.write_info(info)
        store.write_state(state)
    with RunStore(tmp_path / "run.db", read_only=True) as store:
        assert (store.read_info(), store.read_state()) == (info, state)


def test_a_run_of_another_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_info(RunInfo(version=0))
        with pytest.raises(StoreError, match="RunInfo of version 0, this program reads version 4: start a new run"):
            store.read_info()


@pytest.mark.parametrize("version", [2, 99])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_another_version_is_refused(tmp_path: Path, version: int, read_only: bool) -> None:
    database = sqlite3.connect(tmp_path / "run.db")
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    with pytest.raises(StoreError, match=rf"schema version {version}.*reads version 4"):
        RunStore(tmp_path / "run.db", read_only)
    assert not is_in_use(tmp_path / "run.db")


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
        assert store.list_finished_keys() == {("q1", 1, 1)}


def test_after_a_full_disk_has_room_again_the_same_row_can_be_written(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store._database.execute("PRAGMA max_page_count = 30")
        with pytest.raises(StoreError, match="disk has room"):
            store.write(make("q1", answer="17", trajectory=[{"text": "x" * 500_000}]))
        assert list(store.records(without_trajectory=True)) == []  # nor half of it
        store._database.execute("PRAGMA max_page_count = 1000000")
        store.write(make("q1", answer="17"))
    assert [record.answer for record in kept(tmp_path / "run.db")] == ["17"]


def test_without_trajectory_everything_else_is_there(tmp_path: Path) -> None:
    whole = make(answer="17", score=1.0, parts={"rule": 1.0}, state={"a": 1}, trajectory=[{"id": 0}])
    with RunStore(tmp_path / "run.db") as store:
        store.write(whole)
        (bare,) = store.records(without_trajectory=True)
    assert bare == dataclasses.replace(whole, state={}, trajectory=[])


def test_lines_are_the_records_as_json_and_their_checksums_are_known(tmp_path: Path) -> None:
    odd = make("é\ud800", answer='"}{', state={"x": [float("nan"), {1, 2}]}, trajectory=[{"é": "\udfff\n"}])
    with RunStore(tmp_path / "run.db") as store:
        assert (list(store.lines()), store.line_checksums()) == ([], [])
        store.write(odd)
        store.write(make("q2"))
        lines = list(store.lines())
        assert [compute_crc(line) for line in lines] == store.line_checksums()
    assert [json.loads(line) for line in lines] == [to_jsonable(vars(odd)), to_jsonable(vars(make("q2")))]
    assert list(json.loads(lines[0])) == list(vars(odd))  # in the record's own order


def test_keys_and_final_records_follow_the_last_attempt_in_the_plans_order(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([Sample("b", "B?"), Sample("a", "A?")])
        store.write(make("a", 1, 1, error="down", error_class="infrastructure"))
        store.write(make("a", 2, 1, answer="a2"))
        store.write(make("unplanned", answer="u"))
        store.write(make("b", 1, 1, error="odd"))
        store.write(make("a", 1, 2, answer="a1"))
        assert store.read_last_attempts() == {
            ("a", 1): (2, None),
            ("a", 2): (1, None),
            ("b", 1): (1, "unknown"),
            ("unplanned", 1): (1, None),
        }
        final = [(record.sample_id, record.epoch, record.attempt) for record in store.final_records()]
        assert final == [("b", 1, 1), ("a", 1, 2), ("a", 2, 1), ("unplanned", 1, 1)]


def test_costs_add_up_over_attempts_and_judging(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        assert store.cost_usd() == 0
        store.write(make("a", 1, 1, usage=Usage(cost_usd=0.25), error="down"))
        store.write(make("a", 1, 2, usage=Usage(cost_usd=0.5), scorer_usage=Usage(cost_usd=1.0)))
        store.write(make("b", usage=Usage(cost_usd=None)))
        assert store.cost_usd() == 1.75


def test_the_plan_is_kept_once_and_in_order(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([Sample("z\ud800", "Z?", Path("/data/z.csv"), "17", "2", {"kind": "csv"}), Sample("a", "A?")])
        with pytest.raises(StoreError, match="already has its questions"):
            store.write_plan([Sample("c", "C?")])
    with RunStore(tmp_path / "run.db", read_only=True) as store:
        assert store.read_plan() == [
            PlannedQuestion("z\ud800", "Z?", "z.csv", "17", "2", {"kind": "csv"}),
            PlannedQuestion("a", "A?"),
        ]


def test_a_plan_is_replaced_whole_when_that_is_asked_for(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([Sample("a", "A?"), Sample("b", "B?")])
        store.write_plan([Sample("b", "B!"), Sample("c", "C?")], replace=True)
        assert store.list_planned_ids() == ["b", "c"]
        assert [each.question for each in store.read_plan()] == ["B!", "C?"]


def test_a_plan_with_an_id_twice_leaves_nothing_behind(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        with pytest.raises(StoreError):
            store.write_plan([Sample("a", "A?"), Sample("a", "B?")])
        assert store.read_plan() == []


def test_a_question_that_was_not_run_is_an_error_with_the_gold_answer_of_its_plan() -> None:
    record = build_missing_record("r", PlannedQuestion("a", "A?", "a.csv", "17", "2"), epoch=3)
    assert (record.error_class, record.scored, record.correct, record.epoch) == ("not_run", True, False, 3)


def test_a_second_writer_is_told_who_holds_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with RunStore(path) as store:
        assert is_in_use(path)
        with pytest.raises(StoreError, match=rf"run\.db is in use by process {os.getpid()} on .+ since 20.+; wait"):
            RunStore(path)
        store.write(make())  # the holder is not disturbed
    assert not is_in_use(path)
    RunStore(path).close()


def test_readers_need_no_lock_see_new_rows_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with RunStore(path) as writer, RunStore(path, read_only=True) as reader:
        writer.write(make("q1"))
        assert reader.list_finished_keys() == {("q1", 1, 1)}
        with pytest.raises(StoreError, match="cannot be written"):
            reader.write(make("q2"))
    before = path.read_bytes()
    with RunStore(path, read_only=True) as reader:
        assert len(list(reader.records())) == 1
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == FILES


def test_a_run_in_a_folder_that_cannot_be_written_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write(make())
    monkeypatch.setattr(os, "access", lambda *arguments: False)  # root may write everywhere
    with RunStore(tmp_path / "run.db", read_only=True) as store:
        assert len(list(store.records())) == 1
        assert {each.name for each in tmp_path.iterdir()} == FILES


def test_what_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not there"):
        RunStore(tmp_path / "run.db", read_only=True)
    (tmp_path / "run.db").touch()
    with pytest.raises(StoreError, match="holds nothing yet"):
        RunStore(tmp_path / "run.db", read_only=True)
    assert [each.name for each in tmp_path.iterdir()] == ["run.db"]


def test_a_killed_writer_frees_the_lock_and_its_rows_can_be_read_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(StoreError, match=f"in use by process {writer.pid} on"):
            RunStore(path)
        os.kill(writer.pid, signal.SIGKILL)
    with RunStore(path, read_only=True) as reader:
        n_rows = len(reader.list_finished_keys())
    with RunStore(path) as store:
        store.write(make("after"))
        assert len(store.list_finished_keys()) == n_rows + 1 >= 2


def test_a_transaction_that_is_interrupted_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        with pytest.raises(KeyboardInterrupt), store._transaction():
            store._database.execute("DELETE FROM meta")
            raise KeyboardInterrupt
        assert store.read_holder() is not None, "what was begun is taken back"
        store.write(make("q1"))
        assert store.list_finished_keys() == {("q1", 1, 1)}


@pytest.mark.parametrize(
    ("kind", "retry_errors", "attempt"),
    [
        (None, True, None), ("unknown", True, None), ("limit", True, None), ("infrastructure", False, None),
        ("infrastructure", True, 4), ("quota_or_key", False, 4), ("quota_or_key", True, 4),
    ],
)  # fmt: skip
def test_an_answer_is_asked_again_by_its_error(kind: str | None, retry_errors: bool, attempt: int | None) -> None:
    found = list_pending(["q1"], 1, {("q1", 1): (3, kind)}, retry_errors)
    assert found == ([] if attempt is None else [SampleKey("q1", 1, attempt)])


def test_what_is_left_of_a_run_comes_epoch_by_epoch_in_the_order_of_the_plan() -> None:
    done = {("b", 1): (1, None), ("a", 2): (2, "quota_or_key"), ("z", 1): (1, "quota_or_key"), ("a", 4): (1, None)}
    assert list_pending(["b", "a"], 3, done, retry_errors=False) == [
        SampleKey("a", 1, 1), SampleKey("b", 2, 1), SampleKey("a", 2, 3), SampleKey("b", 3, 1), SampleKey("a", 3, 1),
    ]  # fmt: skip
    assert list_pending(["a"], 0, {}, retry_errors=True) == []


def test_rows_are_read_from_any_row_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.runs.store._PAGE_ROWS", 2)
    with RunStore(tmp_path / "run.db") as store:
        assert store.last_finished_at() is None
        for name in "abcde":
            store.write(make(name, state={"a": 1}))
        assert [(row, each.sample_id) for row, each in store.records_after(0)] == list(enumerate("abcde", 1))
        assert [(row, each.sample_id, each.state) for row, each in store.records_after(3)] == [
            (4, "d", {}), (5, "e", {}),
        ]  # fmt: skip
        assert list(store.records_after(5)) == list(store.lines_after(5)) == []
        found = [(row, json.loads(line)["sample_id"]) for row, line in store.lines_after(2)]
        assert found == [(3, "c"), (4, "d"), (5, "e")]
        following = store.records_after(3)
        next(following)
        store.write(make("f", epoch=2))
        assert [row for row, _ in following] == [5, 6], "what is written meanwhile is read, too"
        finished_at = store._all("SELECT finished_at FROM records WHERE row = 6")[0][0]
        assert store.last_finished_at() == finished_at
        assert list(store.correlation_ids())[-1] == {
            "task_id": "f", "thread_id": make("f").thread_id, "epoch": 2, "attempt": 1
        }  # fmt: skip


def test_what_an_epoch_lacks_is_listed_in_the_order_of_the_plan(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([Sample("c", "C?"), Sample("a\ud800", "A?", Path("x/a.csv"), "17"), Sample("b", "B?")])
        store.write(make("c", epoch=1, error="down", error_class="infrastructure"))
        store.write(make("a\ud800", epoch=2))
        assert [each.id for each in store.list_missing(1)] == ["a\ud800", "b"]
        assert store.list_missing(2) == [PlannedQuestion("c", "C?"), PlannedQuestion("b", "B?")]
        assert store.list_planned_ids() == ["c", "a\ud800", "b"]


def refusal_of(folder: Path) -> str:
    with pytest.raises(UserError) as refused:
        check_free(folder)
    return str(refused.value)


def test_a_folder_is_free_until_a_run_has_begun_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    check_free(folder)
    with RunStore(folder / "run.db") as store:
        store.write_plan([Sample("q1", "?")])
    check_free(folder)
    (folder / "mine.txt").touch()
    assert refusal_of(folder).startswith(f"run.dir={folder} has files that are no run (mine.txt")
    (folder / "mine.txt").unlink()
    with RunStore(folder / "run.db") as store:
        store.write(make("q1"))
    held = f"run.dir={folder} already holds a run; resume it with run.resume={folder}, or name a new folder."
    assert refusal_of(folder) == held
    with RunStore(folder / "run.db") as store:
        store.write_info(RunInfo(run_id="r", rescored_from="other"))
    assert refusal_of(folder) == (
        f"run.dir={folder} already holds a run, one that was scored again; name a new folder."
    )


def test_a_run_without_an_answer_yet_has_its_folder_and_so_has_one_that_cannot_be_read(tmp_path: Path) -> None:
    begun, broken, empty = tmp_path / "begun", tmp_path / "broken", tmp_path / "empty"
    with RunStore(begun / "run.db") as store:
        store.write_info(RunInfo(run_id="r"))
    for folder in (broken, empty):
        folder.mkdir()
    (broken / "run.db").write_bytes(b"no database" * 500)
    for folder in (begun, broken):
        assert refusal_of(folder).startswith(f"run.dir={folder} already holds a run; resume it with")
    (empty / "run.db").touch()
    check_free(empty)
    (empty / "mine.txt").touch()
    assert "has files that are no run (mine.txt" in refusal_of(empty)
    (tmp_path / "mine.txt").touch()
    assert "has files that are no run" in refusal_of(tmp_path)


def test_what_is_known_of_a_run_is_read_from_its_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        read_run_info(tmp_path)
    assert str(refused.value) == f"{tmp_path}/run.db is not there; name the folder of a run that has been started."
    with RunStore(tmp_path / "run.db") as store:
        assert not store.is_signed()
        store.write_info(RunInfo(run_id="r", epochs=2))
        assert store.is_signed()
        store.write_state(RunState(wall_seconds=2.5, finished=True))
        assert store.read_state() == RunState(wall_seconds=2.5, finished=True)
        store._write_meta("info", RunInfo(run_id="r", epochs=3).to_json())
        assert not store.is_signed(), "it was changed"
        store._write_meta("info", "{")
        assert not store.is_signed()
        with pytest.raises(StoreError, match=r"run\.db holds .*: start a new run, or use the program that wrote it$"):
            store.read_info()
        store.write_info(RunInfo(run_id="r", epochs=2), signed=False)
        assert not store.is_signed()
    assert read_run_info(tmp_path) == RunInfo(run_id="r", epochs=2)
    content = read_journal(tmp_path).meta
    assert content["signature"] == "" and content["info"] == RunInfo(run_id="r", epochs=2).to_json()
