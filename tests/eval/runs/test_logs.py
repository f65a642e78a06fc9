import json
from contextlib import closing
from pathlib import Path

import pytest

from eval.runs.logs import Log, RunLogs
from mas.runtime.sample_context import SampleKey

SECRET = "sk-abcdef123456"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def system_lines(folder: Path) -> list[dict[str, object]]:
    return lines(folder / "logs" / "multi_agent_system.log")


def test_secrets_are_nowhere_in_the_logs(tmp_path: Path) -> None:
    with RunLogs(tmp_path, [SECRET, SECRET[:6], ""]) as logs:
        logs.begin("t", SampleKey("q1"))(
            "error", f"refused {SECRET}", {"error": f"key {SECRET} is bad", "deep": [{SECRET: SECRET}]}
        )
        logs.begin("t", SampleKey("q1"))("info", "long", {"text": "x" * 490 + SECRET})
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            logs.entry_point.write("error", "failed", exception=error)
    written = "".join(path.read_text() for path in (tmp_path / "logs").iterdir())
    assert SECRET[:6] not in written
    first = system_lines(tmp_path)[0]
    assert (first["event"], first["error"], first["deep"]) == ("refused ***", "key *** is bad", [{"***": "***"}])
    assert "ValueError: ***" in str(lines(tmp_path / "logs" / "entry_point.log")[-1]["exception"])


@pytest.mark.parametrize(
    ("secret", "value", "written"),
    [
        ("12345678", {"order": 12345678}, '{"order": ***}'),
        ("12345678", 0.1234567891, "0.***91"),
        ("nabcdefgh", {"text": "a\nabcdefgh"}, '{"text": "a\\***"}'),
        ("sk-1/23456789", {"body": r'{"key": "sk-1\/23456789"}'}, {"body": '{"key": "***"}'}),
    ],
)
def test_a_secret_is_taken_out_of_values_that_are_no_texts(
    tmp_path: Path, secret: str, value: object, written: object
) -> None:
    with RunLogs(tmp_path, [secret]) as logs:
        logs.begin("t", SampleKey("q1"))("info", "called", {"value": value})
    assert system_lines(tmp_path)[0]["value"] == written


def test_a_value_neither_begins_a_line_nor_controls_a_terminal(tmp_path: Path) -> None:
    with RunLogs(tmp_path, [SECRET]) as logs:
        logs.begin("t", SampleKey("q1"))("error", "tool failed", {"error": f"\x1b[31m{SECRET}\nagent finished \ud800"})
    text = (tmp_path / "logs" / "multi_agent_system.log").read_text("utf-8")
    assert text.count("\n") == 1, "a value cannot begin a line of its own"
    assert "\x1b" not in text and SECRET not in text and "tool failed" in text and "q1" in text


def test_a_stack_in_a_log_has_neither_code_nor_folders(tmp_path: Path) -> None:
    with RunLogs(tmp_path) as logs:
        try:
            raise ValueError(f"cannot read {tmp_path}/a.csv")
        except ValueError as error:
            logs.entry_point.write("error", "failed", exception=error)
    (line,) = lines(tmp_path / "logs" / "entry_point.log")
    call, message = str(line["exception"]).splitlines()
    assert call.startswith("tests.eval.runs.test_logs:") and message == "ValueError: cannot read a.csv"


def test_the_newest_exception_of_a_long_chain_is_in_the_log(tmp_path: Path) -> None:
    newest: Exception | None = None
    for number in range(50):
        newest, cause = ValueError(f"{number} {'x' * 1_000}"), newest
        newest.__cause__ = cause
    with RunLogs(tmp_path) as logs:
        logs.entry_point.write("error", "failed", exception=newest)
    assert "ValueError: 49 x" in str(lines(tmp_path / "logs" / "entry_point.log")[0]["exception"])


@pytest.mark.parametrize("before", ["", "[]\n", '[]\n{"event'], ids=["new", "whole", "cut off by a kill"])
def test_new_lines_begin_on_a_line_of_their_own(before: str, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "entry_point.log"
    path.parent.mkdir()
    path.write_text(before)
    with closing(Log(tmp_path, "entry_point")) as log:
        log.write("info", "begun")
    *kept, last = path.read_text().splitlines()
    assert (kept, json.loads(last)["event"]) == (before.splitlines(), "begun")


@pytest.mark.parametrize("level", ["WARN", "warn", "warning"])
def test_warnings_alone_are_written_with_the_level_warn(tmp_path: Path, level: str) -> None:
    with RunLogs(tmp_path, level=level) as logs:
        logs.begin("t", SampleKey("q1"))("info", "agent started", {})
        logs.begin("t", SampleKey("q1"))("warning", "unusable reply", {})
    assert [line["level"] for line in system_lines(tmp_path)] == ["WARN"]


def test_a_session_that_fails_says_so_in_its_log(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="disk"), RunLogs(tmp_path, [SECRET]):
        raise ValueError(f"disk {SECRET}")
    (line,) = lines(tmp_path / "logs" / "entry_point.log")
    assert (line["message"], line["level"]) == ("entry_point: application failed: disk ***", "ERROR")
    assert "ValueError" in str(line["exception"])
