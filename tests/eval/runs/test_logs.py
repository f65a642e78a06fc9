import errno
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from eval.config.evaluation import LOG_FORMATS, LOG_LEVELS, LogSettings
from eval.runs import logs as logs_of_runs
from eval.runs.logs import (
    FLUSH_SECONDS,
    AnswerLog,
    LogFile,
    RunLogs,
    log_parts,
    measure_memory_mb,
    measure_peak_memory_mb,
    open_log,
)
from eval.runs.record import ErrorDetails
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey
from mas.runtime.trace import Trace, event, record_trace, span
from mas.system import Program
from tests.eval.stored_run import answered

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


def test_lines_are_in_the_file_at_once_where_that_is_asked_for(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        logs.entry_point.info("question started")
        logs.listener("t", {"task_id": "q1"})("info", "agent started", {})
        logs.write_out()
        written = [lines(path)[0]["event"] for path in sorted((tmp_path / "logs").iterdir())]
    assert written == ["question started", "agent started"]


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


class Sink:
    """LogSink in memory."""

    def __init__(self, kept: "Kept", name: str) -> None:
        self.kept, self.name = kept, name

    def write(self, text: str) -> None:
        if self.name in self.kept.full:
            raise OSError(errno.ENOSPC, self.name)
        self.kept.texts.setdefault(self.name, []).append(text)

    def flush(self) -> None: ...

    def write_out(self) -> None: ...

    def close(self) -> None:
        self.kept.closed.append(self.name)


@dataclass
class Kept:
    """What two logs were given; a disk that is full refuses every line."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    closed: list[str] = field(default_factory=list)

    def open(self, path: Path) -> Sink:
        assert path.parent.name == "logs" and path.suffix == ".log"
        return Sink(self, path.stem)

    def read(self, name: str) -> list[dict[str, Any]]:
        """The lines without what is never the same."""
        found = [json.loads(line) for line in "".join(self.texts.get(name, [])).splitlines()]
        return [{name: each for name, each in line.items() if name not in ("timestamp", "memory_mb")} for line in found]


def kept_logs(tmp_path: Path, **settings: Any) -> tuple[Kept, RunLogs]:
    kept = Kept()
    return kept, RunLogs(tmp_path / "run-7", (), LogSettings(**settings), kept.open)


def fail_never(error: OSError) -> None:
    raise AssertionError(error)


NAMES = {"task_id": "q1", "epoch": 2, "attempt": 3}
ENTRY = {"component": "entry_point", "correlation_id": "thread-q1", **NAMES}


def test_the_lines_of_an_answer_say_what_it_is_and_how_it_ended(tmp_path: Path) -> None:
    kept, logs = kept_logs(tmp_path)
    answers = AnswerLog(logs, fail_never)
    listen = answers.begin("thread-q1", SampleKey("q1", 2, 3), prompts_sha256="abc")
    for level in ("info", "warning", "error"):
        listen(level, f"it is {level}", {"correlation_id": "own", "n": 1})
    record = answered("q1", "17", epoch=2, attempt=3, wall_seconds=1.23456)
    answers.finish(record, prompts_sha256="abc")
    record.error, record.error_class, record.error_component = "it broke", "internal", "planner"
    answers.finish(record)
    record.error_details = ErrorDetails("ValueError", "", "planner", None, {"planner": 2})
    answers.finish(record)
    answers.note("worker ready", pid=7)
    label = {"prompts_sha256": "abc"}
    ended = {"event": "question finished", "seconds": 1.235, "error": None, **ENTRY}
    failed = {**ended, "level": "error", "error": "it broke", "error_class": "internal", "error_component": "planner"}
    assert kept.read("entry_point") == [
        {"event": "question started", "level": "info", **ENTRY, **label},
        {**ended, "level": "info", **label},
        failed,
        {**failed, "error_type": "ValueError", "agent": "planner", "retry_counts": {"planner": 2}},
        {"event": "worker ready", "level": "info", "pid": 7, "component": "entry_point", "correlation_id": "run-7"},
    ]
    system = {"component": "multi_agent_system", "correlation_id": "thread-q1", **NAMES, **label}
    assert kept.read("multi_agent_system") == [
        {"event": f"it is {level}", "level": level, "correlation_id_": "own", "n": 1, **system}
        for level in ("info", "warning", "error")
    ]
    assert "memory_mb" in kept.texts["entry_point"][1]
    logs.close()
    assert kept.closed == ["entry_point", "multi_agent_system"]


def test_lines_of_another_machine_are_added_as_they_are_to_the_log_that_is_named(tmp_path: Path) -> None:
    kept, logs = kept_logs(tmp_path)
    for name in ("multi_agent_system", "entry_point", "entry_point"):
        AnswerLog(logs, fail_never).write(name, f"{name}\n")
    assert kept.texts == {"entry_point": ["entry_point\n"] * 2, "multi_agent_system": ["multi_agent_system\n"]}


@pytest.mark.parametrize(
    ("full", "write"),
    [
        ("entry_point", lambda answers: answers.note("x")),
        ("entry_point", lambda answers: answers.write("entry_point", "x")),
        ("multi_agent_system", lambda answers: answers.write("multi_agent_system", "x")),
        ("entry_point", lambda answers: answers.begin("t", SampleKey("q1"))("info", "a line", {})),
        ("multi_agent_system", lambda answers: answers.begin("t", SampleKey("q1"))("info", "a line", {})),
        ("entry_point", lambda answers: answers.finish(answered("q1", "17"))),
    ],
)
def test_a_log_that_cannot_be_written_stops_the_session_and_breaks_nothing(
    full: str, write: Callable[[AnswerLog], None], tmp_path: Path
) -> None:
    kept, logs = kept_logs(tmp_path)
    errors: list[OSError] = []
    kept.full.add(full)
    write(AnswerLog(logs, errors.append))
    assert [str(error) for error in errors] == [f"[Errno 28] {full}"]


def test_the_parts_of_a_session_are_logged_with_the_configuration_at_the_level_debug(tmp_path: Path) -> None:
    config = {"system": {"name": "toy", "n": 1}, "run": {"dir": None}, "data": {"name": None}, "limit": 5}
    prompts = PromptSet("mine", "toy", {"solve": "Solve.", "check": "Check it."}, Path("mine"))
    toolbox = SimpleNamespace(tools={"search": 1, "read": 2})
    program = SimpleNamespace(toolboxes={"solve": toolbox}, named_predictors=lambda: [("solve", None), ("check", None)])
    for given, level in ((prompts, "debug"), (prompts, "info"), (None, "debug")):
        kept, logs = kept_logs(tmp_path, level=level)
        log_parts(logs.entry_point, config, given, cast(Program, program))
        sha256 = digest(prompts)
        expected: list[dict[str, Any]] = [
            {"event": "configuration loaded", "level": "info", "system": "toy"},
            *(
                {"event": "configuration", "level": "debug", "part": name, "values": config[name]}
                for name in ("system", "run", "data")
            ),
            {"event": "prompts loaded", "level": "info", "prompts": "mine", "agents": ["solve", "check"],
             "sha256": sha256},
            {"event": "prompt loaded", "level": "debug", "agent": "solve", "characters": 6},
            {"event": "prompt loaded", "level": "debug", "agent": "check", "characters": 9},
            {"event": "program built", "level": "info", "agents": ["solve", "check"],
             "tools": {"solve": ["search", "read"]}},
        ]  # fmt: skip
        expected = [
            {**each, "component": "entry_point", "correlation_id": "run-7"}
            for each in expected
            if level == "debug" or each["level"] == "info"
            if given is not None or not str(each["event"]).startswith("prompt")
        ]
        assert kept.read("entry_point") == expected


@pytest.mark.parametrize("name", ["exception", "stack"])
def test_stacks_may_have_twenty_thousand_characters(name: str, tmp_path: Path) -> None:
    kept, logs = kept_logs(tmp_path)
    for length in (20_000, 20_001):
        logs.listener("t", {})("error", "failed", {name: "x" * length})
    assert [line[name] for line in kept.read("multi_agent_system")] == ["x" * 20_000, "x" * 19_999 + "…"]


def test_another_process_writes_a_log_of_its_own_in_the_run_s_folder(tmp_path: Path) -> None:
    for number in range(2):
        log, file = open_log(tmp_path, "rescore", ["secret"])
        with file:
            log.info(f"line {number}", key="secret")
    expected = {"level": "info", "component": "rescore", "correlation_id": tmp_path.name, "key": "***"}
    found = lines(tmp_path / "logs" / "rescore.log")
    assert [{name: each for name, each in line.items() if name != "timestamp"} for line in found] == [
        {"event": "line 0", **expected}, {"event": "line 1", **expected}
    ]  # fmt: skip
    assert (tmp_path / "logs" / "rescore.log").stat().st_mode & 0o777 == 0o600


class Disk:
    """os.write of a disk that takes so many bytes at a time, and refuses once when it is told to."""

    def __init__(self, most: int) -> None:
        self.most, self.refuses, self.write_really = most, False, os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if self.refuses and len(data) <= 4:
            raise OSError(errno.ENOSPC, "no room")
        return self.write_really(descriptor, data[: self.most])


@pytest.fixture
def slow_flush(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A log whose thread never flushes, and that holds ten bytes."""
    monkeypatch.setattr(logs_of_runs, "FLUSH_SECONDS", 600.0)
    monkeypatch.setattr(logs_of_runs, "BUFFER_BYTES", 10)
    disk = Disk(3)
    monkeypatch.setattr(logs_of_runs.os, "write", disk.write)
    return disk


def test_a_log_holds_its_lines_until_the_buffer_is_full_or_it_is_closed(slow_flush: Disk, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = LogFile(path)
    (thread,) = [each for each in threading.enumerate() if each.name == "flush a.log"]
    assert thread.daemon
    log.write("12345")
    log.write("6789\n")
    log.flush()
    assert path.read_text() == ""
    log.write("\u00e9")
    assert path.read_text() == "123456789\n\u00e9"
    log.write("1234567890")
    assert path.read_text() == "123456789\n\u00e9"
    log.close()
    log.close()
    log.write("later")
    assert path.read_text() == "123456789\n\u00e91234567890"
    thread.join(10)


def test_what_a_disk_refuses_is_written_when_it_has_room(slow_flush: Disk, tmp_path: Path) -> None:
    log = LogFile(tmp_path / "a.log")
    slow_flush.refuses = True
    with pytest.raises(OSError, match="no room"):
        log.write("12345678901")
    assert (tmp_path / "a.log").read_text() == "123456789"
    slow_flush.refuses = False
    log.write("x" * 8)
    assert (tmp_path / "a.log").read_text() == "123456789", "ten bytes are in the buffer"
    log.write("y")
    assert (tmp_path / "a.log").read_text() == "12345678901xxxxxxxxy"
    log.close()


def test_a_log_that_its_thread_could_not_write_is_refused_at_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_of_runs, "FLUSH_SECONDS", 0.001)
    disk = Disk(100)
    monkeypatch.setattr(logs_of_runs.os, "write", disk.write)
    log = LogFile(tmp_path / "a.log")
    disk.refuses = True
    log.write("abc\n")
    until = time.monotonic() + 10
    while log._failure is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    with pytest.raises(OSError, match="no room"):
        log.write("more\n")
    disk.refuses = False
    log.close()
    assert (tmp_path / "a.log").read_text() == "abc\n"


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    (tmp_path / "a.log").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError):
        LogFile(tmp_path / "a.log")
