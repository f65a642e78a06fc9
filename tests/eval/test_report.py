"""`eval/report.py`: every file of a run from its database alone."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from eval.cli.command import FINISHED, STOPPED, USER_ERROR, run_cli
from eval.report import task
from mas.runtime.text import to_jsonable
from tests.eval.stored_run import SESSION, answered, stored_run
from tests.process import started
from tests.report_file import ReportFile

ODD = "a\nb\u2028c\ud800\0é"
FILES = {"answers.jsonl", "records.jsonl", "correlation_ids.jsonl", "summary.json", "report.html"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text("ascii"))
    return found


def reported(folder: Path) -> int:
    return run_cli(lambda: task([str(folder)]))


def test_all_files_come_back_from_the_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = answered("q1", "17"), answered("q2", "18")
    folder = stored_run(tmp_path / "run", [wrong, right], planned=["q1", "q2"], wall_seconds=12.5)
    assert reported(folder) == FINISHED
    assert {path.name for path in folder.iterdir()} == FILES | {"run.db", "run.lock", "run.jsonl"}
    out = capsys.readouterr().out
    assert all(text in out for text in ("50.0%", "toy · scorer exact · run", f"results: {folder}"))
    assert out.splitlines()[-1] == f"report: {folder / 'report.html'}"
    assert "stopped" not in out
    assert lines(folder / "records.jsonl") == [to_jsonable(wrong), to_jsonable(right)]
    assert lines(folder / "correlation_ids.jsonl")[0] == {
        "task_id": "q2", "thread_id": "thread-q2", "epoch": 1, "attempt": 1,
    }  # fmt: skip
    assert lines(folder / "answers.jsonl") == [  # in the order of the plan
        {"task_id": name, "model_answer": answer, "reasoning_trace": "because", "thread_id": f"thread-{name}"}
        for name, answer in (("q1", "17"), ("q2", "18"))
    ]
    numbers = summary(folder)
    assert (numbers["accuracy"], numbers["stopped"], numbers["wall_seconds"]) == (0.5, None, 12.5)


def test_questions_that_the_run_never_came_to_count_as_wrong_in_every_epoch(tmp_path: Path) -> None:
    records = [answered("q1", "17"), answered("q1", "17", epoch=2), answered("q2", "17")]
    folder = stored_run(
        tmp_path / "run", records, ["q1", "q2", "q3"], epochs=2, sessions=[{**SESSION, "stopped": "out of money"}]
    )
    assert reported(folder) == STOPPED
    numbers = summary(folder)
    assert (numbers["n"], numbers["n_correct"], numbers["accuracy"]) == (6, 3, 0.5)
    assert numbers["errors_by_class"] == {"not_run": 3}
    assert numbers["stopped"] == "out of money"
    assert [(line["task_id"]) for line in lines(folder / "answers.jsonl")] == ["q1", "q1", "q2"]


def test_only_the_last_attempt_is_answered_and_all_are_kept(tmp_path: Path) -> None:
    first, second = (
        [{"id": 0, "parent": None, "kind": "agent", "name": f"{each}-try"}] for each in ("first", "second")
    )
    failed = answered("q1", None, error="down", error_class="infrastructure", score=None, trajectory=first)
    odd = answered(
        "q1", ODD, attempt=2, thread_id="t2", trajectory=second, state={"folder": Path("/data/secret/x.csv")}
    )
    folder = stored_run(tmp_path / "run", [failed, odd])
    assert reported(folder) == FINISHED
    assert lines(folder / "answers.jsonl")[0]["model_answer"] == ODD
    assert lines(folder / "records.jsonl")[1]["state"] == {"folder": "x.csv"}
    page = ReportFile(folder / "report.html")
    assert page.details("q1")["steps"][0]["title"] == "second-try" and "first-try" not in page.text
    assert [line["thread_id"] for line in lines(folder / "answers.jsonl")] == ["t2"]
    assert [line["attempt"] for line in lines(folder / "correlation_ids.jsonl")] == [1, 2]
    assert len(lines(folder / "records.jsonl")) == 2


WRITER = """
import sys, time
from pathlib import Path
from tests.eval.stored_run import answered
from eval.runs.store import RunStore
store = RunStore(Path(sys.argv[1]))
store.write(answered("q1", "17"))
print("written", flush=True)
time.sleep(60)
"""


def test_a_run_that_is_going_on_can_be_looked_at_and_one_that_was_killed_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_session = {**SESSION, "ended_at": None}
    folder = stored_run(tmp_path / "run", [], ["q1", "q2"], sessions=[open_session])
    with started(folder, "-c", WRITER, folder / "run.db", script="") as writer:
        assert writer.wait_until(lambda: writer.out)
        assert reported(folder) == STOPPED
        writer.end(signal.SIGKILL)
    assert "still going on" in capsys.readouterr().out
    assert summary(folder)["accuracy"] == 0.5
    assert reported(folder) == STOPPED
    out = capsys.readouterr().out
    assert "ended without notice" in out
    assert "run.resume=" in out


def test_mistakes_are_told_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.db").write_text("no database " * 1000)
    for arguments, expected in (
        (["nope"], "nope is no run"),
        ([], "the following arguments are required: RUN"),
        (["a", "b"], "unrecognized arguments: b"),
        ([str(tmp_path)], "run.db is damaged (file is not a database), and its folder has no copy"),
    ):
        assert run_cli(lambda: task(arguments)) == USER_ERROR  # noqa: B023
        err = capsys.readouterr().err
        assert err.startswith("error: ")
        assert expected in err
        assert err.count("\n") == 1
