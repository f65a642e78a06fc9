"""Bytes that go bad in a run's folder: everything is found again or named, and nothing ends in a traceback."""

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.store import RunStore, StoreError, list_pending

IDS = [f"q{n}" for n in range(1, 13)]
INFO = RunInfo(run_id="r", command=["limit=12"], config={"name": "x" * 3000})
STATE = RunState(sessions=[SessionInfo("2026-11-22T08:00:00+00:00")])


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


def fill(store: RunStore) -> None:
    store.write_plan([PlannedQuestion(sample_id, f"Which is {sample_id}?", target="17") for sample_id in IDS])
    store.write_info(INFO)
    store.write_state(STATE)
    for record in RECORDS:
        store.write(record)


def flip(path: Path, draw: random.Random, times: int = 1) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(times):
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    path.write_bytes(content)


def read_all(store: RunStore) -> tuple[list[Record], RunInfo, RunState, list[str]]:
    ordered = sorted(store.records(), key=lambda record: IDS.index(record.sample_id))
    assert len(ordered) == len(store.read_last_attempts()) == len(list(store.correlation_ids()))
    return ordered, store.read_info(), store.read_state(), [each.id for each in store.read_plan()]


WHOLE = (RECORDS, INFO, STATE, IDS)


def check_nothing_is_lost(folder: Path) -> list[str]:
    """Read the run, resume it and read it again; return the warnings of the first two."""
    warnings: list[str] = []
    for read_only in (True, False):
        with RunStore(folder / "run.db", read_only, warn=warnings.append) as store:
            assert read_all(store) == WHOLE, warnings
    with RunStore(folder / "run.db", read_only=True, warn=pytest.fail) as store:
        assert read_all(store) == WHOLE
    return warnings


def test_flipped_bytes_are_reported_and_cost_nothing(closed: Path, memory: Path) -> None:
    for number in range(20):
        folder = memory / str(number)
        shutil.copytree(closed, folder)
        flip(folder / "run.db", random.Random(number), times=20)
        read, resumed, kept = check_nothing_is_lost(folder)
        assert "made again from records.jsonl with 12 answers" in read and len(read) < 500
        assert read == resumed, "printed once by a process that does both"
        assert kept == f"the damaged file is kept as {folder}/run.db.damaged"
        assert (folder / "run.db.damaged").exists()


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_lost_database_is_made_again_from_its_copies(how: str, closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    (folder / "run.db").unlink() if how == "removed" else (folder / "run.db").write_bytes(b"")
    reason = "is gone" if how == "removed" else "is empty"
    read, resumed, *kept = check_nothing_is_lost(folder)
    assert read == resumed and len(kept) == (how == "emptied")
    assert read.startswith(f"{folder}/run.db {reason}: made again from records.jsonl with 12 answers; run.resume asks")


def test_damaged_copies_are_written_again(closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    before = (folder / "records.jsonl").read_bytes()
    lines = before.splitlines(keepends=True)
    (folder / "records.jsonl").write_bytes(b"".join([*lines[:4], b"\xff" + lines[4], lines[5][:99]]))
    (folder / "run.jsonl").write_bytes(b"{")
    assert check_nothing_is_lost(folder) == []
    assert (folder / "records.jsonl").read_bytes() == before
    assert (folder / "run.jsonl").read_bytes() == (closed / "run.jsonl").read_bytes()


def test_what_is_in_neither_is_asked_again(closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    for name in ("run.db", "records.jsonl"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content.replace(b"Which is q5", b"Which is \xffq", 2))
    with RunStore(folder / "run.db", warn=lambda message: None) as store:
        assert store.is_restored
        (left,) = list_pending(IDS, 1, store.read_last_attempts(), retry_errors=False)
        assert left.sample_id == "q5"
        store.write(make("q5"))
    assert check_nothing_is_lost(folder) == []


@pytest.mark.parametrize("how", ["indented", "removed", "with a line of a reader's own"])
def test_a_whole_database_is_kept_whatever_becomes_of_its_copy(how: str, closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    copy = folder / "records.jsonl"
    lines = copy.read_text("ascii").splitlines()
    if how == "indented":
        copy.write_text("\n".join(json.dumps(json.loads(line), indent=1) for line in lines) + "\n")
    elif how == "removed":
        copy.unlink()
    else:
        copy.write_text("\n".join([*lines, lines[0], "", '{"note": 1}', ""]))
    assert check_nothing_is_lost(folder) == []
    assert copy.read_bytes() == (closed / "records.jsonl").read_bytes()


def make_damaged(folder: Path, n_lines: int) -> list[str]:
    """Damage q5's row, and keep so many lines of the copy, of the last questions; return what is read then."""
    content = (folder / "run.db").read_bytes()
    assert content.count(b"Which is q5?") == 2  # its row, and its place in the plan
    at = content.index(b'"sample_id": "q5"')
    (folder / "run.db").write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "records.jsonl").write_bytes(b"".join(lines[len(lines) - n_lines :]))
    if not n_lines:
        (folder / "records.jsonl").unlink()
    with RunStore(folder / "run.db", warn=lambda message: None) as store:
        records, info, state, planned = read_all(store)
        assert all(record in RECORDS for record in records)
        assert (info, state, planned) == WHOLE[1:]
        return [record.sample_id for record in records]


@pytest.mark.parametrize("n_lines", [0, 2])
def test_rows_that_only_a_damaged_database_has_are_kept(n_lines: int, closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    assert make_damaged(folder, n_lines) == [sample_id for sample_id in IDS if sample_id != "q5"]


def test_an_answer_that_lacks_a_field_is_named_with_the_remedy(closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    content = (folder / "run.db").read_bytes()
    (folder / "run.db").write_bytes(content.replace(b'"thread_id"', b'"thread_ie"', 1))
    with RunStore(folder / "run.db", read_only=True) as store, pytest.raises(StoreError, match=r"made again from rec"):
        read_all(store)
    (folder / "run.db").unlink()
    check_nothing_is_lost(folder)
