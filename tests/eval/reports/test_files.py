import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.reports.files import write_reports, write_summary
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore

Make = Callable[..., Record]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(folder: Path, records: list[Record], *sample_ids: str) -> None:
    with RunStore(folder / "run.db") as store:
        planned = sample_ids or dict.fromkeys(each.sample_id for each in records)
        store.write_plan([PlannedQuestion(sample_id, "Which?") for sample_id in planned])
        store.write_info(RunInfo(run_id="r", epochs=2))
        for record in records:
            store.write(record)
        write_reports(folder, store)


def test_answers_have_exactly_the_documented_keys_and_no_gold(tmp_path: Path, record: Make) -> None:
    write(tmp_path, [record("a", reasoning_trace="because")])
    assert lines(tmp_path / "answers.jsonl") == [
        {"task_id": "a", "model_answer": "another", "reasoning_trace": "because", "thread_id": "thread-a"}
    ]
    assert "SECRET-GOLD" not in (tmp_path / "answers.jsonl").read_text()
    assert "SECRET-GOLD" not in (tmp_path / "summary.json").read_text()


def test_answers_stand_in_the_plans_order_and_only_its_last_attempts(tmp_path: Path, record: Make) -> None:
    failed = record("b", answer="half", score=None, error="it broke")
    finished = [record("c"), failed, record("a", epoch=2), record("b", attempt=2, answer="whole"), record("a")]
    write(tmp_path, finished, "a", "b", "never run")
    answers = [(line["task_id"], line["model_answer"]) for line in lines(tmp_path / "answers.jsonl")]
    assert answers == [("a", "another"), ("a", "another"), ("b", "whole")], "the plan has no c"
    assert [line["epoch"] for line in lines(tmp_path / "records.jsonl")] == [1, 1, 2, 1, 1]


def test_a_question_in_error_has_an_empty_answer(tmp_path: Path, record: Make) -> None:
    write(tmp_path, [record("a", answer="half", score=None, error="it broke"), record("b", answer=None)])
    assert [line["model_answer"] for line in lines(tmp_path / "answers.jsonl")] == ["", ""]


def test_any_text_survives_on_one_line(tmp_path: Path, record: Make) -> None:
    odd = "a\nb\u2028c\ud800\0é"
    write(tmp_path, [record("a", answer=odd, state={"folder": Path("/data/secret/x.csv")})])
    assert lines(tmp_path / "answers.jsonl")[0]["model_answer"] == odd
    assert lines(tmp_path / "records.jsonl")[0]["state"] == {"folder": "x.csv"}


def test_records_read_back_as_they_were(tmp_path: Path, record: Make) -> None:
    original = record("a", parts={"format_loss": 1.0}, trajectory=[{"name": "planner", "seconds": 0.5}])
    write(tmp_path, [original])
    assert Record.from_dict(lines(tmp_path / "records.jsonl")[0]) == original


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, record: Make) -> None:
    write(tmp_path, [record("a")])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = summarise([record("a")], RunDetails(run_id="run-1", stopped={"not JSON"}))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_summary(tmp_path, broken)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
