"""Code in the real sandbox: what is captured, and what the code cannot reach."""

import json
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.computation.agent import Execution, execute, read_capture
from mas.tools.sandbox.session import SessionLostError
from mas.tools.settings import BUBBLEWRAP, SandboxSettings
from tests.needs import needs

pytestmark = needs("bubblewrap")


def run(code: str, **settings: Any) -> Execution:
    return run_blocking(execute(code, SandboxSettings(kind=BUBBLEWRAP, **settings)))


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
        ("[{'a': 3.5}, {'a': float('nan')}]", ["a"], [{"a": 3.5}, {"a": None}]),
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


def test_c07_output_is_limited() -> None:
    found = run("print('x' * 100000)\n'y' * 100000")
    assert len(found.text) < 25_000 and "characters are missing" in found.text


def test_c10_no_file_and_no_variable_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAS_TEST_SECRET", "canary-4711")
    secret = tmp_path / "secret.txt"
    secret.write_text("canary-4711")
    assert run(f"open({str(secret)!r}).read()").error_line.startswith(("FileNotFoundError", "PermissionError"))
    assert "canary-4711" not in run("import os\nprint(dict(os.environ))").text
    assert run("import os\nos.fork()").error and run("open('/etc/written', 'w')").error


def test_what_the_code_forges_is_data() -> None:
    """C10: the code shares the process with the capture."""
    found = run("import builtins\nbuiltins.print = lambda *a, **k: None\n6 * 7")
    assert found.value == "42" and found.table is None
    with pytest.raises(SessionLostError):
        run("import json\njson.dumps = lambda *a, **k: 1/0\n6 * 7")
    for forged in (3, {"columns": 1}, {"columns": ["a"], "rows": [1]}, {"columns": ["a"], "rows": [[1, 2]]}):
        text = json.dumps({"locals": {}, "value": 1, "table": forged})
        assert read_capture(text) == read_capture("[" * 100_000) == read_capture("3") == (None, {}, None)
