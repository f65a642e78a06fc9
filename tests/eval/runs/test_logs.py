import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.config.evaluation import LOG_FORMATS, LogSettings
from eval.runs.logs import LogFile, RunLogs
from mas.runtime.trace import Trace, event, record_trace, span

SECRET = "sk-abcdef123456"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def system_lines(folder: Path) -> list[dict[str, object]]:
    return lines(folder / "logs" / "multi_agent_system.log")


def test_a_question_becomes_lines_with_its_correlation_id(tmp_path: Path) -> None:
    with (
        RunLogs(tmp_path / "run-1") as logs,
        record_trace(Trace("thread-1", logs.listener("thread-1", {"task_id": "q1", "epoch": 2, "attempt": 1}))),
        span("agent", "planner"),
    ):
        event("plan rejected", level="warning", retries=1)
        logs.entry_point.info("question finished", correct=True)
    started, rejected, finished = system_lines(tmp_path / "run-1")
    for line in (started, rejected, finished):
        assert (line["correlation_id"], line["task_id"], line["epoch"], line["attempt"]) == ("thread-1", "q1", 2, 1)
        assert line["component"] == "planner"
        assert datetime.fromisoformat(str(line["timestamp"])).tzinfo == UTC
    assert (started["event"], started["level"]) == ("agent started", "info")
    assert (rejected["event"], rejected["level"], rejected["retries"]) == ("plan rejected", "warning", 1)
    (entry,) = lines(tmp_path / "run-1" / "logs" / "entry_point.log")
    assert (entry["component"], entry["correlation_id"], entry["correct"]) == ("entry_point", "run-1", True)
    assert {(line["task_id"], line["epoch"], line["attempt"]) for line in (started, finished)} == {("q1", 2, 1)}


def test_lines_are_in_the_file_at_once(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        logs.entry_point.info("question started")
        logs.listener("t", {"task_id": "q1"})("info", "agent started", {})
        written = [lines(path)[0]["event"] for path in sorted((tmp_path / "logs").iterdir())]
    assert written == ["question started", "agent started"]


def test_secrets_are_nowhere_in_the_logs(tmp_path: Path) -> None:
    with RunLogs(tmp_path, redact=[SECRET, SECRET[:6], ""]) as logs:
        logs.listener("t", {"task_id": "q1"})(
            "error", f"refused {SECRET}", {"error": f"key {SECRET} is bad", "deep": [{SECRET: SECRET}]}
        )
        logs.listener("t", {"task_id": "q1"})("info", "long", {"text": "x" * 490 + SECRET})
        try:
            raise ValueError(SECRET)
        except ValueError:
            logs.entry_point.exception("failed")
    written = "".join(path.read_text() for path in (tmp_path / "logs").iterdir())
    assert SECRET[:6] not in written
    first = system_lines(tmp_path)[0]
    assert (first["event"], first["error"], first["deep"]) == ("refused ***", "key *** is bad", [{"***": "***"}])
    assert "ValueError: ***" in str(lines(tmp_path / "logs" / "entry_point.log")[0]["exception"])


@pytest.mark.parametrize("format", LOG_FORMATS)
def test_lines_for_people_are_text_without_anything_that_a_terminal_obeys(tmp_path: Path, format: str) -> None:
    with RunLogs(tmp_path, redact=[SECRET], settings=LogSettings(format=format)) as logs:
        logs.listener("t", {"task_id": "q1"})(
            "error", "tool failed", {"error": f"\x1b[31m{SECRET}\nagent finished \ud800"}
        )
    text = (tmp_path / "logs" / "multi_agent_system.log").read_text("utf-8")
    assert text.count("\n") == 1, "a value cannot begin a line of its own"
    assert "\x1b" not in text and SECRET not in text and "tool failed" in text and "q1" in text
    assert text.startswith("{") == (format == "json")


def test_a_stack_in_a_log_has_neither_code_nor_folders(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        try:
            raise ValueError(f"cannot read {tmp_path}/a.csv")
        except ValueError:
            logs.entry_point.exception("failed")
    (line,) = lines(tmp_path / "logs" / "entry_point.log")
    call, message = str(line["exception"]).splitlines()
    assert call.startswith("tests.eval.runs.test_logs:") and message == "ValueError: cannot read a.csv"


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "{}\n"), ("[]\n", "[]\n{}\n"), ('[]\n{"event', '[]\n{"event\n{}\n')],
    ids=["new", "whole", "cut off by a kill"],
)
def test_new_lines_begin_on_a_line_of_their_own(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "entry_point.log"
    path.write_text(before)
    with closing(LogFile(path)) as log:
        log.write("{}\n")
    assert path.read_text() == after
