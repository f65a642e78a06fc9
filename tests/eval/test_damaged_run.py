"""A run's folder with bytes that went bad or files that are gone, as the commands meet it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval.cli.command import FINISHED, run_cli
from eval.compare import task as compare
from eval.report import task as report
from mas.runtime import terminal
from tests.eval.command_line import EvalCommand, dataset, question


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    rows = dataset(tmp_path / "data", *(question(f"q{n}", f"What is {n} + 1?", str(n + 1)) for n in range(6)))
    return ["system=toy", "model=offline", *rows]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def damage_answer(path: Path, thread_id: str) -> None:
    content = path.read_bytes()
    assert content.count(thread_id.encode()) >= 1
    path.write_bytes(content.replace(thread_id.encode(), b"\xff" * len(thread_id)))


def test_a_damaged_row_is_reported_and_asked_again_and_nothing_else_is(
    eval_command: EvalCommand, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = eval_command(*asked)
    assert whole.code in (0, 2)
    before = {line["task_id"]: line["thread_id"] for line in whole.lines("correlation_ids.jsonl")}
    third = whole.lines("correlation_ids.jsonl")[2]
    for name in ("run.db", "records.jsonl"):
        damage_answer(whole.folder / name, third["thread_id"])
    assert run_cli(lambda: report([str(whole.folder)])) != FINISHED
    err = capsys.readouterr().err
    assert "made again from records.jsonl with 5 answers; run.resume asks again what is missing" in err
    assert "Traceback" not in err
    terminal.print_warning.cache_clear()  # each is printed once by a process, and this one is two commands
    resumed = eval_command(f"run.resume={whole.folder}")
    assert resumed.code == whole.code
    assert "with 5 answers" in resumed.err and "run.db.damaged" in resumed.err
    assert "1 of 6 answers remaining" in resumed.out
    after = {line["task_id"]: line["thread_id"] for line in lines(whole.folder / "correlation_ids.jsonl")}
    assert {key for key in before if before[key] != after[key]} == {third["task_id"]}
    assert eval_command(f"run.resume={whole.folder}").err == ""


def test_a_lost_database_is_reported_and_the_run_compared_reported_and_resumed_all_the_same(
    eval_command: EvalCommand, asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = eval_command(*asked)
    lost, copy = whole.folder, tmp_path / "copy"
    shutil.copytree(lost, copy)
    (lost / "run.db").unlink()
    for command in (lambda: report([str(lost)]), lambda: compare([str(copy), str(lost)])):
        terminal.print_warning.cache_clear()  # each is printed once by a process, and this one is two commands
        run_cli(command)
        err = capsys.readouterr().err
        assert "run.db is gone: made again from records.jsonl with 6 answers" in err
    assert not (lost / "run.db").exists()
    resumed = eval_command(f"run.resume={lost}", f"run.dir={lost}")
    assert (lost / "run.db").exists()
    assert resumed.code == whole.code
