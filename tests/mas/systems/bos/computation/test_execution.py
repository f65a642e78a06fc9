"""Code in the real sandbox: what is captured, and what the code cannot reach."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.computation import execution as module
from mas.systems.bos.computation.execution import Execution, _parse, _read_table, execute
from mas.systems.bos.contracts.result import TabularResult
from mas.tools.sandbox.interpreter import Cell
from mas.tools.sandbox.session import NotAvailableError, Reply, SessionLostError, SessionTimeoutError
from mas.tools.sandbox.settings import BUBBLEWRAP, UNSAFE_LOCAL, SandboxSettings

KIND = BUBBLEWRAP if shutil.which("bwrap") else UNSAFE_LOCAL
isolated = pytest.mark.skipif(KIND != BUBBLEWRAP, reason="bubblewrap is not installed")


def run(code: str, **settings: Any) -> Execution:
    return run_blocking(execute(code, SandboxSettings(kind=KIND, **settings)))


def test_c04_printed_text_variables_and_value_are_captured() -> None:
    found = run("import math\nprint('hi')\nx = [1, 2]\ny = math.inf\ndef f(): pass\nx[1] * 21")
    assert (found.output, found.value, found.error, found.table) == ("hi\n", 42, "", None)
    assert found.text == "hi\n42" and found.variables == {"x": "[1, 2]", "y": "inf"}
    assert run("result = 7").value == 7
    assert run("for _ in range(3):\n    pass").value is None, "a loop's variable is no value"
    assert run("from decimal import Decimal\nDecimal('2.50')").value == 2.5


@pytest.mark.parametrize(
    ("code", "columns", "rows"),
    [
        ("[{'a': 1, 'b': 'x'}, {'a': 2}]", ["a", "b"], [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        ("import datetime\nresult = [{'d': datetime.date(2026, 1, 2)}]", ["d"], [{"d": "2026-01-02"}]),
        ("{'a': [1, 2], 'b': [3.5, float('nan')]}", ["a", "b"], [{"a": 1, "b": 3.5}, {"a": 2, "b": None}]),
    ],
)
def test_c05_a_structured_value_is_a_table(code: str, columns: list[str], rows: list[dict[str, Any]]) -> None:
    table = run(code).table
    assert table is not None and (table.columns, table.rows, table.truncated) == (columns, rows, False)


def test_c05_data_frames_are_tables_and_long_ones_are_cut() -> None:
    code = "import pandas as pd\nf = pd.DataFrame({'k': ['a', 'b', 'a'], 'n': [1, 2, 4]})\nf.groupby('k')['n'].sum()"
    table = run(code, seconds_per_call=60.0).table
    assert table is not None and table.rows == [{"k": "a", "n": 5}, {"k": "b", "n": 2}]
    cut = run("[{'n': n} for n in range(100000)]").table
    assert cut is not None and cut.truncated and 100 < cut.row_count < 10_000
    assert run("[1, 2]").table is None and run("[]").table is None


def test_c08_an_error_has_its_last_line() -> None:
    found = run("print('before')\n1 / 0")
    assert found.error_line == "ZeroDivisionError: division by zero" and found.output == "before\n"
    assert run("x = ").error_line.startswith("SyntaxError")


def test_c02_each_execution_has_a_sandbox_of_its_own() -> None:
    run("leak = 1\nopen('left.txt', 'w').write('x')")
    assert run("leak").error_line.startswith("NameError")
    assert run("import os\nos.listdir('.')").value == "[]"


def test_c07_time_is_limited() -> None:
    with pytest.raises(SessionTimeoutError, match="longer than 1 s"):
        run("while True: pass", seconds_per_call=1.0)


@isolated
def test_c07_memory_is_limited() -> None:
    try:
        found = run("x = 'a' * (1 << 40)", memory_mb=256)
    except SessionLostError as error:
        assert "memory" in str(error)
    else:
        assert found.error_line.startswith("MemoryError")


def test_c07_output_is_limited() -> None:
    found = run("print('x' * 100000)\n'y' * 100000", max_output_chars=1000)
    assert len(found.text) < 3000 and "characters are missing" in found.text


@isolated
@pytest.mark.parametrize(
    "code",
    [
        "import socket\nsocket.create_connection(('127.0.0.1', 80), 1)",
        "import urllib.request\nurllib.request.urlopen('http://example.org', timeout=1)",
        "import subprocess\nsubprocess.run(['/bin/true'])",
        "import os\nos.fork()",
        "open('/etc/written', 'w')",
    ],
)
def test_c10_no_network_no_process_and_no_file_outside(code: str) -> None:
    assert run(code).error


@isolated
def test_c10_no_file_and_no_variable_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAS_TEST_SECRET", "canary-4711")
    secret = tmp_path / "secret.txt"
    secret.write_text("canary-4711")
    assert run(f"open({str(secret)!r}).read()").error_line.startswith(("FileNotFoundError", "PermissionError"))
    assert "canary-4711" not in run("import os\nprint(dict(os.environ))").text


def test_what_the_code_forges_is_data() -> None:
    """C10: the code shares the process with the capture."""
    found = run("import builtins\nbuiltins.print = lambda *a, **k: None\n6 * 7")
    assert found.value == "42" and found.table is None
    with pytest.raises(SessionLostError):
        run("import json\njson.dumps = lambda *a, **k: 1/0\n6 * 7")
    assert _parse("[" * 100_000) == _parse("3") == {}
    for forged in (3, {"columns": 1}, {"columns": ["a"], "rows": [1]}, {"columns": ["a"], "rows": [[1, 2]]}):
        assert _read_table(forged) is None


class ScriptedInterpreter:
    """Interpreter whose calls give these replies one after another, or raise them; it notes all."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies, self.codes = list(replies), list[str]()
        self.made: list[tuple[object, object]] = []
        self.closed = 0

    def __call__(self, settings: SandboxSettings, files: Mapping[str, Path]) -> "ScriptedInterpreter":
        self.made.append((settings, files))
        return self

    async def run(self, code: str) -> Cell:
        assert not self.closed
        self.codes.append(code)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Cell(reply, fresh_after_loss=False)

    def close(self) -> None:
        self.closed += 1


def script(monkeypatch: pytest.MonkeyPatch, *replies: Reply | Exception) -> ScriptedInterpreter:
    interpreter = ScriptedInterpreter(*replies)
    monkeypatch.setattr(module, "Interpreter", interpreter)
    return interpreter


@pytest.mark.parametrize(
    ("reply", "captured", "expected"),
    [
        (
            Reply("hi\n", 0, "42"),
            '{"locals": {"x": 1}, "value": 42, "table": null}',
            Execution("hi\n42", output="hi\n", value=42, variables={"x": 1}),
        ),
        (Reply("", 0, "0"), '{"value": 0}', Execution("0", value=0)),
        (Reply("", 0, "[]"), '{"value": null}', Execution("[]", value="[]")),
        (Reply("hi"), '{"value": null, "locals": [1]}', Execution("hi", output="hi")),
        (Reply("hi"), "no JSON", Execution("hi", output="hi")),
        (
            Reply(),
            '{"table": {"columns": ["n", 2], "rows": [[1, "x"]], "truncated": true}}',
            Execution(
                "(no output: print a value, or end the code with an expression)",
                table=TabularResult.from_lists(["n", "2"], [[1, "x"]], truncated=True),
            ),
        ),
    ],
)
def test_the_outcome_is_what_the_code_printed_and_what_is_captured(
    monkeypatch: pytest.MonkeyPatch, reply: Reply, captured: str, expected: Execution
) -> None:
    interpreter = script(monkeypatch, reply, Reply(captured))
    settings, files = SandboxSettings(max_output_chars=2_000), {"a.csv": Path("a.csv")}
    assert run_blocking(execute("code", settings, files)) == expected
    assert interpreter.made == [(settings, files)] and interpreter.closed == 1
    first, capture = interpreter.codes
    program = Path(module.__file__).with_name("capture.py").read_text("utf-8")
    assert first == "code"
    assert capture == f"{program}\nprint(_mas_capture(globals(), {bool(reply.value)}, 1500))"


def test_what_is_captured_has_no_room_in_a_short_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for max_chars, room in ((501, 1), (500, 0), (100, 0)):
        interpreter = script(monkeypatch, Reply("x" * 102, 3), Reply("{}"))
        found = run_blocking(execute("code", SandboxSettings(max_output_chars=max_chars)))
        assert interpreter.codes[1].endswith(f"print(_mas_capture(globals(), False, {room}))")
        assert interpreter.made[0][1] == {}
        missing = max(102 - max_chars, 0) + 3
        assert found.text == f"{'x' * min(102, max_chars)}\n[cut: {missing} characters are missing]"


def test_code_that_fails_is_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = script(monkeypatch, Reply("hi\n", 0, "7", 0, "Traceback\nValueError: x"))
    assert run_blocking(execute("code", SandboxSettings())) == Execution(
        "hi\n7\nTraceback\nValueError: x", error="Traceback\nValueError: x", output="hi\n"
    )
    assert interpreter.codes == ["code"] and interpreter.closed == 1


def test_code_that_leaves_something_running_keeps_what_it_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = script(monkeypatch, Reply("hi", 0, "42"), SessionLostError("busy"))
    assert run_blocking(execute("code", SandboxSettings())) == Execution("hi\n42", output="hi", value="42")
    assert interpreter.closed == 1
    for raised in (SessionTimeoutError("too long"), SessionLostError("killed"), NotAvailableError("none")):
        interpreter = script(monkeypatch, raised)
        with pytest.raises(type(raised), match=str(raised)):
            run_blocking(execute("code", SandboxSettings()))
        assert interpreter.closed == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [("", ""), ("ValueError: x", "ValueError: x"), ("Traceback\n  File\n  ValueError: x \n\n", "ValueError: x")],
)
def test_the_line_of_an_error_is_its_last_one(error: str, line: str) -> None:
    assert Execution("text", error=error).error_line == line


@pytest.mark.parametrize(
    ("found", "table"),
    [
        ({"columns": ["a", "a"], "rows": [[1, 2]]}, TabularResult.from_lists(["a", "a"], [[1, 2]])),
        ({"columns": [], "rows": [], "truncated": 1}, TabularResult.from_lists([], [], truncated=True)),
        ({"columns": ["a"], "rows": {"a": 1}}, None),
        ({"columns": "a", "rows": []}, None),
        ({"columns": ["a"], "rows": [[1], {"a": 1}]}, None),
        (None, None),
    ],
)
def test_only_a_table_of_ours_is_one(found: object, table: TabularResult | None) -> None:
    assert _read_table(found) == table
