"""Runs too long for every change: many questions at once through the whole system."""

import json
from pathlib import Path

import pytest

from tests.eval.command_line import EvalCommand
from tests.over_http import write_questions
from tests.servers.running import RunningServer


@pytest.mark.slow
def test_two_hundred_questions_at_once_all_arrive_and_are_all_right(
    eval_command: EvalCommand, llm_server: RunningServer, tmp_path: Path
) -> None:
    folder = tmp_path / "questions"
    rows = write_questions(folder)
    many = [{**row, "task_id": f"{row['task_id']}-{number}"} for number in range(20) for row in rows]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in many))
    finished = eval_command(
        "model=openai_compatible",
        f"model.base_url={llm_server.base_url}",
        "data=jsonl",
        f"data.path={folder}",
        "run.concurrency=200",
    )
    assert (finished.code, finished.summary["n"], finished.summary["accuracy"]) == (0, len(many), 1.0)
    assert len({answer["thread_id"] for answer in finished.answers}) == len(many)
