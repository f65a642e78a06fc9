"""What the agent sees of a cell: as in a notebook, and always of bounded length."""

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
