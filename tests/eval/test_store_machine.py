"""Any course of writing, reading, killing and opening again, against a dictionary that says what must be there."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eval.runs import folder as run_lock
from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, StoreError

MEMORY = Path("/dev/shm")  # waiting for a disk would teach nothing here
IDS = st.sampled_from(["q1", "q2", "é\ud800\0'\"\\", ""])
NUMBERS = st.integers(1, 2)
TEXTS = st.text(st.characters(codec=None), max_size=20) | st.just("x" * 20_000)
ERRORS = st.sampled_from([None, None, "infrastructure", "limit"])


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.generation = 0
        self.path = self.base / "0" / "run.db"
        self.rows: dict[tuple[str, int, int], Record] = {}  # in the order of writing
        self.info = RunInfo()
        self.planned: list[str] = []
        self.store: RunStore | None = None

    @initialize()
    def begin(self) -> None:
        self.store = RunStore(self.path)

    def teardown(self) -> None:
        if self.store:
            self.store.close()
        shutil.rmtree(self.base)

    @precondition(lambda self: self.store)
    @rule(sample_id=IDS, epoch=NUMBERS, attempt=NUMBERS, text=TEXTS, error=ERRORS)
    def write(self, sample_id: str, epoch: int, attempt: int, text: str, error: str | None) -> None:
        assert self.store
        record = Record(
            "r", sample_id, epoch, attempt, f"t{len(self.rows)}", "Which?", None, None, "17",
            answer=text, error=error, error_class=error, usage=Usage(cost_usd=0.5), state={"text": text},
        )  # fmt: skip
        if (sample_id, epoch, attempt) in self.rows:
            with pytest.raises(StoreError, match="only once"):
                self.store.write(record)
        else:
            self.store.write(record)
            self.rows[(sample_id, epoch, attempt)] = record

    @precondition(lambda self: self.store)
    @rule(system=TEXTS)
    def write_info(self, system: str) -> None:
        assert self.store
        self.info = RunInfo(run_id="r", system=system)
        self.store.write_info(self.info)

    @precondition(lambda self: self.store)
    @rule(ids=st.lists(IDS, min_size=1, unique=True))
    def plan(self, ids: list[str]) -> None:
        assert self.store
        self.store.write_plan([PlannedQuestion(sample_id, "Which?") for sample_id in ids])
        self.planned = ids

    @precondition(lambda self: self.store)
    @rule()
    def second_writer_is_refused(self) -> None:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StoreError, match="in use by another process"):
            patch.setattr(run_lock, "WAIT_SECONDS", 0.0)
            RunStore(self.path)

    @rule()
    def reader_sees_everything(self) -> None:
        with RunStore(self.path, read_only=True) as reader:
            self.compare(reader)

    @precondition(lambda self: self.store)
    @rule()
    def close(self) -> None:
        assert self.store
        self.store.close()
        self.store = None

    @precondition(lambda self: not self.store)
    @rule()
    def open_again(self) -> None:
        self.store = RunStore(self.path)

    @precondition(lambda self: self.store)
    @rule(read_first=st.booleans())
    def kill(self, read_first: bool) -> None:
        """What lies on the disk just now is all that a kill -9 leaves; copied by a process of its own, because SQLite
        loses its locks when this one closes the file."""
        assert self.store
        self.generation += 1
        left = self.base / str(self.generation)
        subprocess.run(["cp", "-r", str(self.path.parent), str(left)], check=True)
        self.store.close()
        self.path, self.store = left / "run.db", None
        if read_first:
            self.reader_sees_everything()
        self.open_again()

    @invariant()
    def holds_what_was_acknowledged(self) -> None:
        if self.store:
            self.compare(self.store)

    def compare(self, store: RunStore) -> None:
        assert list(store.records()) == list(self.rows.values())
        assert [(each["task_id"], each["epoch"], each["attempt"]) for each in store.correlation_ids()] == [*self.rows]
        finals = {key[:2]: max(key2[2] for key2 in self.rows if key2[:2] == key[:2]) for key in self.rows}
        assert store.read_last_attempts() == {
            key: (attempt, self.rows[(*key, attempt)].error_class) for key, attempt in finals.items()
        }
        assert {(each.sample_id, each.epoch): each.attempt for each in store.final_records()} == finals
        assert store.cost_usd() == 0.5 * len(self.rows)
        assert [each.id for each in store.read_plan()] == self.planned
        assert store.read_info() == self.info


TestStore = StoreMachine.TestCase
TestStore.settings = settings(stateful_step_count=25, deadline=None)
