"""Each sealed answer is signed as it is written; what a kill has left between both is no edit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.folder import DATABASE, format_path
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, StoreError
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


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "18"},
        {"parts": {"format_loss": 1.0}},
        {"limit": "tokens"},
        {"run_id": "r2"},
        {"usage": Usage(lm_calls=1)},
        {"usage": Usage(input_tokens=1)},
        {"usage": Usage(output_tokens=1)},
        {"usage": Usage(cost_usd=0.5)},
    ],
    ids=str,
)
def test_all_that_the_gate_reads_of_an_answer_is_signed(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path, RECORDS)
    remove_database(tmp_path)
    write(tmp_path, [*RECORDS[:2], replace(RECORDS[2], **changes)], RunStore)
    with pytest.raises(UserError, match=r"\(the answer to q2\)"):
        check_answers(tmp_path, PROMPTS)


def test_what_the_gate_does_not_read_may_differ(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    remove_database(tmp_path)
    write(tmp_path, [*RECORDS[:2], replace(RECORDS[2], reasoning_trace="otherwise")], RunStore)
    check_answers(tmp_path, PROMPTS)


def test_an_answer_that_is_gone_is_named_unless_it_was_the_last_to_be_signed(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    remove_database(tmp_path)
    write(tmp_path, [RECORDS[2]])
    text = (tmp_path / SIGNATURES).read_text()
    with pytest.raises(UserError) as refused:
        check_answers(tmp_path, PROMPTS)
    assert str(refused.value) == (
        f"{format_path(tmp_path)}/{DATABASE} was changed since the run wrote it (the answer to q0): restore it, or "
        "start a new tuning run."
    )
    assert (tmp_path / SIGNATURES).read_text() == text


def test_signatures_without_an_answer_are_removed_by_the_check(tmp_path: Path) -> None:
    write(tmp_path, RECORDS[:2])
    kept = (tmp_path / SIGNATURES).read_text()
    assert [json.loads(line)[0] for line in kept.splitlines()] == [["q0", 1, 1], ["q1", 1, 1]]
    with (tmp_path / SIGNATURES).open("a") as file:
        file.write(f'7\n["q9"]\n{json.dumps([["q2", 1, 1], "00"])}\n[["q2", 1,')
    check_answers(tmp_path, PROMPTS)
    assert (tmp_path / SIGNATURES).read_text() == kept


def test_without_a_store_there_is_nothing_to_sign(tmp_path: Path) -> None:
    check_answers(tmp_path, PROMPTS)
    assert list(tmp_path.iterdir()) == [], "the check leaves nothing behind"


def test_signatures_that_cannot_be_read_or_written_are_told(tmp_path: Path) -> None:
    (tmp_path / SIGNATURES).mkdir()
    with pytest.raises(UserError, match=r"cannot be read \(.*\); check its permissions\.$"):
        check_answers(tmp_path, PROMPTS)
    with pytest.raises(StoreError, match=f"{SIGNATURES} cannot be written"):
        write(tmp_path, RECORDS)
    with RunStore(tmp_path / DATABASE, read_only=True) as store:
        assert list(store.records()) == [], "no answer without its signature"
