"""Failures explain themselves: what a run says of them on the terminal, in its records and in its logs."""

import json
from pathlib import Path
from typing import Any

from tests.eval.command_line import SUM, EvalCommand, Finished, attached, dataset, question

FAILING = ("system.tools.read_file=tests.eval.failing_tools.read_file", "tools.fail_fast=true", "run.concurrency=1")


def failing_rows(n: int) -> list[dict[str, Any]]:
    """Questions whose tool fails, with the same message for each."""
    return [attached(f"q{number}", "7", f"bad{number}.csv") for number in range(n)]


def read_entry_point(finished: Finished) -> list[dict[str, Any]]:
    return finished.lines("logs/entry_point.log")


def test_a_failure_says_type_stack_agent_step_and_retry_counts(sure_command: EvalCommand, tmp_path: Path) -> None:
    finished = sure_command(*dataset(tmp_path / "data", *failing_rows(1)), *FAILING)
    record = finished.records["q0"]
    details = record["error_details"]
    assert (details["type"], details["agent"], details["step"]) == ("RuntimeError", "researcher", "researcher")
    assert details["retry_counts"] == {"planner": 0, "researcher": 0, "expert": 0}
    *calls, message = details["stack"].splitlines()
    assert calls[-1].startswith("tests.eval.failing_tools:") and message == "RuntimeError: the disk is on fire"
    assert "first error, tool: RuntimeError: the disk is on fire" in finished.out
    assert finished.summary["first_errors"] == {"tool": record["error"]}
    (ended,) = [line for line in read_entry_point(finished) if line["event"] == "question finished"]
    assert {key: ended[key] for key in ("error_type", "agent", "step", "retry_counts", "stack")} == {
        "error_type": "RuntimeError", **{key: details[key] for key in ("agent", "step", "retry_counts", "stack")},
    }  # fmt: skip
    everything = json.dumps(details) + finished.out + (finished.folder / "logs/entry_point.log").read_text()
    assert str(tmp_path) not in everything.replace(str(finished.folder), "")


def test_five_answers_that_fail_alike_stop_the_run_and_it_can_be_resumed(
    sure_command: EvalCommand, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data", *failing_rows(9))
    finished = sure_command(*data, *FAILING)
    assert finished.code == 3
    out = " ".join(finished.out.split())
    assert "stopped: the first 5 answers all failed in the same way: RuntimeError: the disk is on fire" in out
    assert "run.resume=" in out and len(finished.records) == 5
    assert (finished.summary["n_not_run"], finished.summary["incomplete"]) == (4, True)
    again = sure_command(*data, *FAILING, "run.max_same_errors=null", "run.dir=null", f"run.resume={finished.folder}")
    assert again.code == 2 and "9" in again.out
    assert len(finished.records) == 9


def test_a_session_logs_what_it_is_made_of_and_each_answer(sure_command: EvalCommand, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", question("a", SUM, "5"), question("b", SUM, "5"))
    finished = sure_command(*data, "run.concurrency=1")
    lines = read_entry_point(finished)
    assert [line["event"] for line in lines] == [
        "application started", "configuration loaded", "loading prompts", "prompts loaded",
        "program built", "run started",
        "question started", "question finished", "question started", "question finished",
        "files written", "run ended",
    ]  # fmt: skip
    assert lines[0]["message"] == "entry_point: application started"
    loaded, _, prompts, built, _, started, ended, *_ = lines[1:]
    assert (loaded["system"], loaded["data"]) == ("gaia", "jsonl")
    assert prompts["prompts"] == "baseline" and len(prompts["sha256"]) == 64
    assert prompts["agents"] == built["agents"] and built["tools"]["expert"] == [
        "calculator",
        "unit_converter",
        "python_repl_tool",
    ]
    research = {"read_file", "tavily_tool", "read_page", "wikipedia_tool", "wikipedia_page", "youtube_transcript_tool"}
    assert set(built["tools"]["researcher"]) == research
    assert started["correlation_id"] == ended["correlation_id"] == finished.records["a"]["thread_id"]
    assert lines[-1]["peak_memory_mb"] == finished.summary["peak_memory_mb"] > 10


def test_a_log_has_the_lines_of_its_level_and_is_shown_where_that_is_asked_for(
    sure_command: EvalCommand, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data", question("a", SUM, "5"))
    shown = sure_command(*data, "log.terminal=true")
    assert "[INFO] entry_point: question started task_id='a'" in shown.err and "question started" not in shown.out
    quiet = sure_command(*data, "log.level=error")
    assert quiet.code == 0 and "question started" not in quiet.err
    assert (quiet.folder / "logs/entry_point.log").read_text() == ""
