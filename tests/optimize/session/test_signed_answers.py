"""Each sealed answer is signed as it is written; what a kill has left between both is no edit."""

from dataclasses import replace
from pathlib import Path

import pytest

from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from optimize.session.signed_answers import SIGNATURES, SignedStore, check_answers, sign_answers

PROMPTS = PromptSet("parent", "toy", {"plan": "Plan."}, Path("parent"))
INFO = RunInfo(run_id="r1", started_at="2026-11-22T10:00:00+00:00", prompts_sha256=digest(PROMPTS))
RECORDS = [
    Record("r1", f"q{n}", 1, 1, "thread", "What?", None, None, "17", answer="17 \ud83d", score=n / 3, wall_seconds=0.1)
    for n in range(3)
]


def write(folder: Path, records: list[Record], kind: type[RunStore] = SignedStore, info: RunInfo = INFO) -> None:
    folder.mkdir(exist_ok=True)
    with kind(folder / DATABASE) as store:
        store.write_info(info)
        for record in records:
            store.write(record)


def remove_database(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != SIGNATURES:
            path.unlink()


def test_answers_are_those_that_were_written(tmp_path: Path) -> None:
    check_answers(tmp_path / "not there yet", PROMPTS)
    write(tmp_path, RECORDS)
    check_answers(tmp_path, PROMPTS)
    write(tmp_path, [replace(RECORDS[0], attempt=2)])
    check_answers(tmp_path, PROMPTS)


@pytest.mark.parametrize(
    "records",
    [
        [*RECORDS[:2], replace(RECORDS[2], score=1.0)],
        [*RECORDS[:2], replace(RECORDS[2], answer="18")],
        [*RECORDS[:2], replace(RECORDS[2], error_class="model")],
        [*RECORDS[:2], replace(RECORDS[2], wall_seconds=0.0)],
        [*RECORDS, replace(RECORDS[0], attempt=2)],
        RECORDS[1:],
        [],
    ],
    ids=["score", "answer", "error", "time", "added", "removed", "all removed"],
)
def test_answers_that_were_edited_are_refused(tmp_path: Path, records: list[Record]) -> None:
    write(tmp_path, RECORDS)
    remove_database(tmp_path)
    write(tmp_path, records, RunStore)
    with pytest.raises(UserError, match=r"run.db was changed since the run wrote it \(the answer to q\d\): restore it"):
        check_answers(tmp_path, PROMPTS)
    sign_answers(tmp_path)
    check_answers(tmp_path, PROMPTS)


def test_answers_to_other_prompts_are_refused(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    with pytest.raises(UserError, match="its prompts are "):
        check_answers(tmp_path, replace(PROMPTS, texts={"plan": "Cheat."}))


def test_a_kill_leaves_a_signature_without_answer_or_half_of_one(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    remove_database(tmp_path)
    write(tmp_path, RECORDS[:2], RunStore)
    check_answers(tmp_path, PROMPTS)
    with (tmp_path / SIGNATURES).open("a") as file:
        file.write('[["q2", 1,')
    check_answers(tmp_path, PROMPTS)
    write(tmp_path, [replace(RECORDS[2], score=0.5)])
    check_answers(tmp_path, PROMPTS)
