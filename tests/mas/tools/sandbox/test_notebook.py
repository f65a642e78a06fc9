"""What the agent sees of a cell: as in a notebook, and always of bounded length."""

import linecache
import re
import sys
from collections.abc import Callable

import pytest

from mas.tools.sandbox.notebook import Notebook, Screen
from tests.mas.tools.sandbox.conftest import Sandbox


def test_variables_imports_and_functions_stay(jail: Sandbox) -> None:
    jail.value("import math\nx = 20\ndef double(n): return 2 * n")
    assert jail.value("double(x) + math.floor(1.5) + 1") == "42"
    assert jail.value("_") == "42"
    assert jail.value("None") == ""
    assert jail.value("y = 1") == ""


def test_what_is_printed_comes_in_order_whichever_way_it_was_printed(jail: Sandbox) -> None:
    code = "import sys\nprint(1)\nprint(2, file=sys.stderr)\nn = sys.stdout.buffer.write(b'3\\n')\nprint(4, end='')"
    assert jail.run(code).output == "1\n2\n3\n4"


def test_a_traceback_has_the_cells_own_lines_alone(jail: Sandbox) -> None:
    jail.open()
    jail.value("import json\ndef load(text):\n    return json.loads(text)")
    lines = jail.run("load('{')").error.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.strip() for line in lines if "File" in line] == [
        'File "<call 2>", line 1, in <module>',
        'File "<call 1>", line 3, in load',
    ]
    assert "    return json.loads(text)" in lines
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")
    chained = "try: 1 / 0\nexcept ZeroDivisionError as e: raise ValueError('chained') from e"
    assert jail.run(chained).error.count("File") == 2


def test_a_syntax_error_points_at_its_place(jail: Sandbox) -> None:
    error = jail.run("x = 1\ny = (").error
    assert "line 2" in error
    assert error.endswith("SyntaxError: '(' was never closed")
    assert "notebook" not in error


def test_output_is_cut_and_the_cut_is_counted(jail: Sandbox) -> None:
    reply = jail.run("for _ in range(1000): print('x' * 999)\n'v' * 5000")
    assert (len(reply.output), reply.output_cut) == (2_000, 998_000)
    assert (len(reply.value), reply.value_cut) == (2_003, 3_002)
    assert jail.run("raise ValueError('e' * 9_000)").error_cut > 7_000


def test_characters_that_utf8_cannot_hold_are_replaced(jail: Sandbox) -> None:
    reply = jail.run("print('a\\ud83db')\nclass R:\n    def __repr__(self): return '\\udfff'\nR()")
    assert (reply.output, reply.value, reply.error) == ("a?b\n", "?", "")
    assert jail.run("raise ValueError('\\ud83d')").error.endswith("ValueError: ?")
    assert jail.value("chr(0) + '😀é'") == "'\\x00😀é'"


def test_classes_of_a_cell_can_be_pickled_and_input_has_an_end(jail: Sandbox) -> None:
    jail.value("import pickle, dataclasses\n@dataclasses.dataclass\nclass Point:\n    x: int\n")
    assert jail.value("pickle.loads(pickle.dumps(Point(3)))") == "Point(x=3)"
    assert jail.error("input('name? ')").startswith("EOFError")


def test_a_number_too_long_to_print_is_an_error_of_the_code(jail: Sandbox) -> None:
    assert jail.error("10**5000").startswith("ValueError: Exceeds the limit")


def test_the_order_of_a_set_is_always_the_same(jail: Sandbox) -> None:
    first = jail.value("set('abcdefgh')")
    jail.close()
    assert jail.value("set('abcdefgh')") == first


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Notebook]:
    """Return a maker of notebooks in this process, whose streams and main module are put back afterwards."""
    for name in ("stdin", "stdout", "stderr", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    return lambda max_chars=1_000: Notebook(max_chars)


def texts(**changed: str | int) -> dict[str, str | int]:
    """What a cell gives: nothing, but for `changed`."""
    return {"output": "", "output_cut": 0, "value": "", "value_cut": 0, "error": "", "error_cut": 0, **changed}


def test_a_cell_gives_what_it_prints_and_the_value_of_its_last_expression(notebook: Callable[..., Notebook]) -> None:
    made = notebook()
    assert sys.modules["__main__"] is made.module and made.cells == 0
    for cell, expected in (
        ("x = 20", texts()),
        ("print('hi'); x + 1", texts(output="hi\n", value="21")),
        ("_", texts(value="21")),
        ("None", texts()),
        ("_", texts(value="21")),
        ("7\ny = 1", texts()),
        ("", texts()),
        ("# nothing", texts()),
        ("'a'", texts(value="'a'")),
        ("(__name__, x, y)", texts(value="('__main__', 20, 1)")),
    ):
        assert made.run(cell) == expected, cell
    assert made.cells == 10


def test_both_streams_of_a_cell_are_its_screen_and_its_input_is_empty(notebook: Callable[..., Notebook]) -> None:
    code = (
        "import sys\n"
        "for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__): print(stream.encoding, file=stream)\n"
        "(sys.stdin.read(), sys.stdout.writable(), sys.stdout.buffer.writable(), sys.stdout.buffer.write(b'\\xff!'))"
    )
    assert notebook().run(code) == texts(output="utf-8\n" * 4 + "\ufffd!", value="('', True, True, 2)")


def test_a_screen_keeps_the_first_characters_and_counts_the_others() -> None:
    screen = Screen(5)
    assert [screen.write(text) for text in ("", "abc", "de", "f", "ghi")] == [0, 3, 2, 1, 3]
    assert (screen.parts, screen.room, screen.dropped) == (["abc", "de"], 0, 4)
    screen = Screen(2)
    assert screen.write("abc") == 3
    assert (screen.parts, screen.room, screen.dropped) == (["ab"], 0, 1)


@pytest.mark.parametrize(
    ("most", "shown", "cut"),
    [(10, "'abcdefgh'", 0), (9, "'abc\n…\nfgh'", 2), (8, "'abc\n…\nfgh'", 2), (7, "'ab\n…\ngh'", 4), (1, "\n…\n", 10)],
)
def test_of_a_value_that_is_too_long_the_middle_is_left_out(
    most: int, shown: str, cut: int, notebook: Callable[..., Notebook]
) -> None:
    assert notebook(most).run("'abcdefgh'") == texts(value=shown, value_cut=cut)


def test_an_error_shows_the_line_of_its_own_cell(notebook: Callable[..., Notebook]) -> None:
    made = notebook()
    made.run("def divide(a):\n    return a / 0")
    error = (
        'Traceback (most recent call last):\n  File "<call 2>", line 2, in <module>\n    divide(1)\n'
        '  File "<call 1>", line 2, in divide\n    return a / 0\n           ~~^~~\n'
        "ZeroDivisionError: division by zero"
    )
    assert made.run("print('so far')\ndivide(1)") == texts(output="so far\n", error=error)
    ended = 'Traceback (most recent call last):\n  File "<call 3>", line 1, in <module>\nSystemExit: 3'
    assert made.run("raise SystemExit(3)")["error"] in (
        ended, ended.replace("\nSystemExit", "\n    raise SystemExit(3)\nSystemExit")
    )  # fmt: skip
    whole = (
        'Traceback (most recent call last):\n  File "<call 1>", line 1, in <module>\n    1 / 0\n    ~~^~~\n'
        "ZeroDivisionError: division by zero"
    )
    assert notebook().run("1 / 0") == texts(error=whole)
    short = notebook(40).run("1 / 0")
    assert short == texts(error=f"{whole[:20]}\n…\n{whole[-20:]}", error_cut=len(whole) - 40)


@pytest.mark.parametrize(
    "raised",
    [
        "raise KeyError('k') from saved",
        "try:\n    load()\nexcept ValueError:\n    raise KeyError('k')",
        "raise ExceptionGroup('two', [KeyError('k'), saved])",
        "try:\n    raise ExceptionGroup('two', [saved])\nexcept Exception as two:\n    raise KeyError('k') from two",
    ],
)
def test_no_error_behind_an_error_shows_a_library(raised: str, notebook: Callable[..., Notebook]) -> None:
    made = notebook(10_000)
    made.run("import json\ndef load(): json.loads('{')\ntry: load()\nexcept ValueError as error: saved = error")
    error = str(made.run(raised)["error"])
    files = re.findall(r'File "(.*?)"', error)
    assert set(files) == {"<call 1>", "<call 2>"}, error
    assert "JSONDecodeError: Expecting property name" in error and "'k'" in error


def test_an_error_that_cannot_be_shown_is_named(notebook: Callable[..., Notebook]) -> None:
    code = "class Odd(Exception):\n    @property\n    def __traceback__(self): raise KeyError('no')\nraise Odd()"
    assert notebook().run(code) == texts(error="Odd (and its traceback cannot be shown: KeyError)")
