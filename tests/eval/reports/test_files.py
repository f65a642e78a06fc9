import json
from collections.abc import Callable
from pathlib import Path

from eval.reports.files import write_reports
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


def test_a_question_in_error_has_an_empty_answer(tmp_path: Path, record: Make) -> None:
    write(tmp_path, [record("a", answer="half", score=None, error="it broke"), record("b", answer=None)])
    assert [line["model_answer"] for line in lines(tmp_path / "answers.jsonl")] == ["", ""]


def test_any_text_survives_on_one_line(tmp_path: Path, record: Make) -> None:
    odd = "a\nb\u2028c\ud800\0é"
    write(tmp_path, [record("a", answer=odd, state={"folder": Path("/data/secret/x.csv")})])
    assert lines(tmp_path / "answers.jsonl")[0]["model_answer"] == odd
    assert lines(tmp_path / "records.jsonl")[0]["state"] == {"folder": "x.csv"}
