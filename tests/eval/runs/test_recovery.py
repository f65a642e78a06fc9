"""Bytes that go bad in a run's folder: everything is found again or named, and nothing ends in a traceback."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo, RunState, SessionInfo
from eval.runs.store import RunStore, list_pending

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


def test_a_hundred_flipped_bits_at_once_cost_nothing_if_the_copies_are_whole(closed: Path, memory: Path) -> None:
    for number in range(10):
        folder = memory / str(number)
        shutil.copytree(closed, folder)
        flip(folder / "run.db", random.Random(number), times=100)
        (warning, *_) = check_nothing_is_lost(folder)
        assert "12 of 12 answers were restored" in warning
        assert (folder / "run.db.damaged").exists()


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_vanished_database_is_restored_from_its_copies(how: str, closed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(closed, folder)
    (folder / "run.db").unlink() if how == "removed" else (folder / "run.db").write_bytes(b"")
    warnings = check_nothing_is_lost(folder)
    assert warnings[0] == (
        f"{folder}/run.db has vanished, or is empty: 12 of 12 answers were restored, 12 of them from records.jsonl"
    )
