import json
import logging
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

from eval.runs.logs import FLUSH_SECONDS, RunLogs
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


def test_a_question_of_its_own_can_be_bound_to_the_entry_point(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        logs.entry_point.bind(correlation_id="thread-1").info("question started")
    assert lines(tmp_path / "logs" / "entry_point.log")[0]["correlation_id"] == "thread-1"


def test_lines_reach_the_file_while_the_run_goes_on(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        logs.entry_point.info("question started")
        until = time.monotonic() + 20 * FLUSH_SECONDS
        while not (written := lines(tmp_path / "logs" / "entry_point.log")) and time.monotonic() < until:
            time.sleep(FLUSH_SECONDS / 10)
    assert [line["event"] for line in written] == ["question started"]


def test_a_resumed_run_goes_on_in_the_same_files(tmp_path: Path) -> None:
    for number in range(2):
        with RunLogs(tmp_path) as logs:
            logs.entry_point.info(f"start {number}")
    assert [line["event"] for line in lines(tmp_path / "logs" / "entry_point.log")] == ["start 0", "start 1"]


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


def test_long_fields_are_cut_and_short_structures_kept(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        fields = {"text": "x" * 5000, "rows": list(range(5000)), "few": {"a": [1, None]}, "fits": "y" * 500}
        logs.listener("t", {"task_id": "q1"})("info", "seen", fields)
    (line,) = system_lines(tmp_path)
    assert line["text"] == "x" * 499 + "…"
    assert len(str(line["rows"])) == 500
    assert line["few"] == {"a": [1, None]}
    assert line["fits"] == "y" * 500


def test_a_systems_fields_cannot_replace_those_of_every_line(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        fields = {"event": "forged", "level": "debug", "correlation_id": "other", "timestamp": 0, "self": 1}
        logs.listener("t", {"task_id": "q1"})("warning", "real", fields)
    (line,) = system_lines(tmp_path)
    assert (line["event"], line["level"], line["correlation_id"]) == ("real", "warning", "t")
    assert line["event_"] == "forged"


def test_any_text_and_object_can_be_logged(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        logs.listener("t\ud800", {"task_id": "q\0"})(
            "info", "odd\ud800\n", {"path": Path("/private/x.csv"), "object": object}
        )
    (line,) = system_lines(tmp_path)
    assert (line["event"], line["path"]) == ("odd\ud800\n", "x.csv")


def test_the_applications_own_logging_is_left_alone(tmp_path: Path) -> None:
    handlers = list(logging.getLogger().handlers)
    with RunLogs(tmp_path) as logs:
        logs.entry_point.info("start")
    assert not structlog.is_configured()
    assert logging.getLogger().handlers == handlers
