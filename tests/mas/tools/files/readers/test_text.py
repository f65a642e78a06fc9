"""Decoding: every usual encoding, line numbers as editors count them, no binary."""

import pytest

from mas.tools.files.document import Line, Source
from mas.tools.files.kinds import read_in_process
from mas.tools.results import ToolError

WORDS = "naïve café, “5 €” 日本"


@pytest.mark.parametrize(
    ("data", "text", "named"),
    [
        (WORDS.encode(), WORDS, "utf-8"),
        (WORDS.encode("utf-8-sig"), WORDS, "utf-8"),
        (WORDS.encode("utf-16"), WORDS, "utf-16"),
        (b"\xfe\xff" + WORDS.encode("utf-16-be"), WORDS, "utf-16"),
        (WORDS.encode("utf-32"), WORDS, "utf-32"),
        ("Müller, né à Genève".encode("latin-1"), "Müller, né à Genève", "windows-1252 (guessed)"),
        ("“5 €”".encode("cp1252"), "“5 €”", "windows-1252 (guessed)"),
        (b"caf\xe9 \x81", "café \x81", "latin-1 (guessed)"),
        ("äöüß äöüß".encode() + b"\xff", "äöüß äöüß\ufffd", "utf-8 with 1 damaged characters"),
    ],
)
def test_every_usual_encoding_is_read_and_named(data: bytes, text: str, named: str) -> None:
    document = read_in_process(Source("a.txt", data))
    assert [line.text for line in document.parts[0].lines] == [text]
    assert document.summary.startswith(f"text, {named}, ")


@pytest.mark.parametrize(
    "data",
    [b"a\x00b", bytes(range(256)) * 4, b"\x01\x02\x03\x04abc", b"\xff\xfe\x00\x00" + b"a\x00\x00\x00\x00\x00\x00\x00"],
)
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(ToolError, match="is binary"):
        read_in_process(Source("a.txt", data))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\r\n    return 1\r\n\r\n\tx = '\x0c'\n", ["def f():", "    return 1", "", "\tx = '\x0c'"]),
        ("a\u2028b\x0bc\rd\r\n\ne", ["a\u2028b\x0bc", "d", "", "e"]),
        ("", []),
    ],
)
def test_lines_are_numbered_as_in_an_editor_and_keep_their_indentation(text: str, lines: list[str]) -> None:
    found = read_in_process(Source("code.py", text.encode())).parts[0].lines
    assert found == [Line(number, line) for number, line in enumerate(lines, start=1)]
