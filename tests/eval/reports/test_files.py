import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import read_summary
from eval.reports.files import write_reports, write_summary
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from tests.report_file import ReportFile

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


def test_an_answer_that_only_could_not_be_scored_is_an_answer(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", answer=17, score=None, error="no verdict", error_component="scorer"),
        record("b", answer=None, score=None, error="no verdict", error_component="scorer"),
        record("c", answer="half", score=None, error="it broke", error_component="expert"),
    ]
    write(tmp_path, records)
    assert [line["model_answer"] for line in lines(tmp_path / "answers.jsonl")] == ["17", "", ""]


def test_every_file_is_written_and_the_summary_returned(tmp_path: Path, record: Make) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([PlannedQuestion(each, "Which?") for each in ("a", "b")])
        store.write_info(RunInfo(run_id="r", epochs=1))
        for each in (record("a"), record("a", attempt=2), record("a", epoch=2)):
            store.write(each)
        summary = write_reports(tmp_path, store)
    assert {each.name for each in tmp_path.iterdir()} == {
        "answers.jsonl", "records.jsonl", "correlation_ids.jsonl", "summary.json", "report.html", "run.db", "run.lock",
        "run.journal",
    }  # fmt: skip
    assert lines(tmp_path / "correlation_ids.jsonl") == [
        {"task_id": "a", "thread_id": "thread-a", "epoch": epoch, "attempt": attempt}
        for epoch, attempt in ((1, 1), (1, 2), (2, 1))
    ]
    assert read_summary(tmp_path / "summary.json") == summary
    assert (summary.n, summary.n_not_run, summary.n_outside_plan, summary.mlflow) == (2, 1, 1, None)
    assert (tmp_path / "summary.json").read_text("utf-8").startswith('{\n  "')
    assert [row["id"] for row in ReportFile(tmp_path / "report.html").rows] == ["a", "b"]


def test_a_file_of_records_that_is_right_is_left_and_one_that_is_wrong_is_written_anew(
    tmp_path: Path, record: Make
) -> None:
    write(tmp_path, [record("a")])
    path = tmp_path / "records.jsonl"
    text, place = path.read_text("utf-8"), path.stat().st_ino
    with RunStore(tmp_path / "run.db", read_only=True) as store:
        write_reports(tmp_path, store)
        assert (path.read_text("utf-8"), path.stat().st_ino) == (text, place)
        path.write_text("{}\n", "utf-8")
        write_reports(tmp_path, store)
    assert path.read_text("utf-8") == text


def test_while_a_run_goes_on_its_file_of_records_is_left_to_it(tmp_path: Path, record: Make) -> None:
    write(tmp_path, [record("a")])
    path = tmp_path / "records.jsonl"
    with RunStore(tmp_path / "run.db") as own:
        path.write_text("half a li", "utf-8")
        with RunStore(tmp_path / "run.db", read_only=True) as store:
            write_reports(tmp_path, store)
        assert path.read_text("utf-8") == "half a li"
        write_reports(tmp_path, own)
        assert lines(path)[0]["sample_id"] == "a", "the run itself writes it"


def test_the_link_to_mlflow_is_kept_in_the_summary(tmp_path: Path, record: Make) -> None:
    summary = replace(summarise([record("a")], RunDetails(run_id="r")), mlflow={"uri": "x"})
    write_summary(tmp_path, summary)
    assert read_summary(tmp_path / "summary.json") == summary
