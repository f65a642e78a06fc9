"""Lines that are printed hold no character that controls a terminal, and nothing else may print."""

import io
import subprocess
import sys

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.runtime import terminal
from mas.runtime.terminal import print_line, print_warning, shorten_line

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
TURNS = [*"\u061c\u200e\u200f\u202a\u202e\u2066\u2069"]


@pytest.mark.parametrize("error", [False, True])
def test_controls_are_written_out_and_line_breaks_stay(capsys: pytest.CaptureFixture[str], error: bool) -> None:
    print_line("a\tb\r\n" + "".join([*CONTROLS, *TURNS, "\ud800"]), error=error)
    out, err = capsys.readouterr()
    printed = err if error else out
    assert (out == "") is error
    assert printed.startswith("a\tb\r\n\\u0000\\u0001")
    rest = printed.removeprefix("a\tb\r\n").removesuffix("\n")
    assert rest.count("\\u") == len(CONTROLS) + len(TURNS) + 1 and rest.isascii() and rest.isprintable()


def test_a_line_goes_to_standard_output_unless_it_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a")
    print_line()
    assert capsys.readouterr() == ("a\n\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "print('a')",
        "import sys\n\nsys.stdout.write('a')",
        "import sys\n\nsys.stderr.write('a')",
        "import rich\n\nrich.print('a')",
        "from rich.console import Console",
    ],
)
@pytest.mark.parametrize("package", ["mas/runtime", "eval/reports", "optimize"])
def test_the_linter_refuses_every_other_way_to_print(line: str, package: str) -> None:
    if package != "optimize" and not line.startswith("print"):
        return  # the rule is the same for all folders: each line once, and `print` in each
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "--stdin-filename", f"{package}/x.py"]
    checked = subprocess.run([*command, "-"], input=f"{line}\n", cwd=PROJECT_ROOT, capture_output=True, text=True)
    assert checked.returncode == 1 and ("T201" in checked.stdout or "TID251" in checked.stdout), checked.stdout


def test_a_line_reaches_a_file_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "utf-8"))
    print_line("12/66 done")
    assert raw.getvalue() == b"12/66 done\n"


def test_a_warning_is_said_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_WARNINGS", set())
    for text in ("first", "first", "second"):
        print_warning(text)
    assert capsys.readouterr() == ("", "warning: first\nwarning: second\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [("abcde", "abcde"), ("abcdef", "abcd…"), ("a\n b", "a b"), ("a\x1b", "a\\u0…"), ("", "")],
)
def test_a_shortened_line_is_one_line_of_at_most_its_length(text: str, line: str) -> None:
    assert shorten_line(text, 5) == line
