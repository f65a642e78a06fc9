"""Lines that are printed hold no character that controls a terminal, and nothing else may print."""

import pytest

from mas.runtime.terminal import print_line, shorten_line

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


@pytest.mark.parametrize(
    ("text", "line"),
    [("abcde", "abcde"), ("abcdef", "abcd…"), ("a\n b", "a b"), ("a\x1b", "a\\u0…"), ("", "")],
)
def test_a_shortened_line_is_one_line_of_at_most_its_length(text: str, line: str) -> None:
    assert shorten_line(text, 5) == line
