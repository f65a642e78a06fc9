import json
import logging
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from eval.config.evaluation import LOG_FORMATS, LOG_LEVELS, LogSettings
from eval.runs.logs import FLUSH_SECONDS, LogFile, RunLogs, measure_memory_mb, measure_peak_memory_mb
from mas.runtime.errors import UserError
from mas.runtime.trace import Trace, event, record_trace, span

SECRET = "sk-abcdef123456"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def system_lines(folder: Path) -> list[dict[str, object]]:
    return lines(folder / "logs" / "multi_agent_system.log")


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "{}\n"), ("[]\n", "[]\n{}\n"), ('[]\n{"event', '[]\n{"event\n{}\n')],
    ids=["new", "whole", "cut off by a kill"],
)
def test_new_lines_begin_on_a_line_of_their_own(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "entry_point.log"
    path.write_text(before)
    with LogFile(path) as log:
        log.write("{}\n")
    assert path.read_text() == after


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
        fields |= {"fit": ["z" * 496], "longer": ["z" * 497]}
        logs.listener("t", {"task_id": "q1"})("info", "seen", fields)
    (line,) = system_lines(tmp_path)
    assert line["text"] == "x" * 499 + "…"
    assert len(str(line["rows"])) == 500
    assert line["few"] == {"a": [1, None]}
    assert line["fits"] == "y" * 500
    assert line["fit"] == ["z" * 496]  # 500 characters of JSON
    assert line["longer"] == '["' + "z" * 497 + "…"


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


@pytest.mark.parametrize("level", LOG_LEVELS)
def test_lines_below_the_level_are_left_out(tmp_path: Path, level: str) -> None:
    with RunLogs(tmp_path, settings=LogSettings(level=level)) as logs:
        for each in LOG_LEVELS:
            getattr(logs.entry_point, each)(f"a line of {each}")
    written = [line["level"] for line in lines(tmp_path / "logs" / "entry_point.log")]
    assert written == list(LOG_LEVELS[LOG_LEVELS.index(level) :])


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


def test_the_terminal_gets_the_same_lines_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunLogs(tmp_path, redact=[SECRET], settings=LogSettings(terminal=True)) as logs:
        logs.entry_point.debug("not this one")
        logs.entry_point.info("question started", note=f"\x1b[2J{SECRET}")
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert "question started" in err and "\x1b" not in err and SECRET not in err and "not this one" not in err
    assert lines(tmp_path / "logs" / "entry_point.log")[0]["event"] == "question started"


def test_a_stack_in_a_log_has_neither_code_nor_folders(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        try:
            raise ValueError(f"cannot read {tmp_path}/a.csv")
        except ValueError:
            logs.entry_point.exception("failed")
    (line,) = lines(tmp_path / "logs" / "entry_point.log")
    call, message = str(line["exception"]).splitlines()
    assert call.startswith("tests.eval.runs.test_logs:") and message == "ValueError: cannot read a.csv"


def test_a_line_of_work_that_outlives_the_run_is_dropped(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        listen = logs.listener("t", {"task_id": "q1"})
    listen("info", "agent finished", {})
    assert system_lines(tmp_path) == []


@pytest.mark.parametrize(("key", "value"), [("level", "loud"), ("format", "xml"), ("level", "INFO")])
def test_unknown_settings_are_one_sentence(key: str, value: str) -> None:
    with pytest.raises(UserError, match=rf"log\.{key}={value} is not known; choose one of: "):
        LogSettings(**{key: value}).check()


def read_kilobytes(name: str) -> int:
    """A line of this process's status, as the kernel has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's own numbers are read from /proc")
def test_memory_is_what_the_kernel_counts_in_megabytes() -> None:
    peak, now = measure_peak_memory_mb(), measure_memory_mb()
    assert peak == pytest.approx(read_kilobytes("VmHWM") / 1024, rel=0.02)
    assert now == pytest.approx(read_kilobytes("VmRSS") / 1024, rel=0.02)
    assert (round(peak, 1), round(now, 1)) == (peak, now)


def test_where_the_system_does_not_say_what_is_used_now_the_peak_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.runs.logs._STATM", tmp_path / "nothing")
    assert measure_memory_mb() == pytest.approx(measure_peak_memory_mb(), rel=0.01)
