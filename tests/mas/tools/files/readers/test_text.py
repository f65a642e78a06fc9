"""Decoding: every usual encoding, line numbers as editors count them, no binary."""

from pathlib import Path

import pytest

from mas.tools.files.document import Line, Source
from mas.tools.files.readers.text import (
    decode,
    read,
    split_lines,
)
from mas.tools.results import ToolError

WORDS = "naïve café, “5 €”\n日本"


@pytest.mark.parametrize(
    ("codec", "mark", "named"),
    [
        ("utf-8", b"", "utf-8"),
        ("utf-8-sig", b"", "utf-8"),
        ("utf-16", b"", "utf-16"),
        ("utf-16-be", b"\xfe\xff", "utf-16"),
        ("utf-32", b"", "utf-32"),
    ],
)
def test_unicode_encodings(codec: str, mark: bytes, named: str) -> None:
    assert decode(mark + WORDS.encode(codec)) == (WORDS, named)


def test_latin_1_and_windows_1252() -> None:
    assert decode("Müller, né à Genève".encode("latin-1")) == ("Müller, né à Genève", "windows-1252 (guessed)")
    assert decode("“5 €”".encode("cp1252")) == ("“5 €”", "windows-1252 (guessed)")
    assert decode(b"caf\xe9 \x81") == ("café \x81", "latin-1 (guessed)")


def test_one_damaged_byte_does_not_spoil_a_utf_8_text() -> None:
    text, encoding = decode("äöüß äöüß".encode() + b"\xff")
    assert text == "äöüß äöüß\ufffd"
    assert encoding == "utf-8 with 1 damaged characters"


@pytest.mark.parametrize(
    "data",
    [b"a\x00b", bytes(range(256)) * 4, b"\x01\x02\x03\x04abc", b"\xff\xfe\x00\x00" + b"a\x00\x00\x00\x00\x00\x00\x00"],
)
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(ToolError, match="is binary"):
        decode(data, "x.bin")


def test_newlines_and_indentation_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_bytes(b"def f():\r\n    return 1\r\n\r\n\tx = '\x0c'\n")
    lines = read(Source.read(file)).parts[0].lines
    assert lines == [Line(1, "def f():"), Line(2, "    return 1"), Line(3, ""), Line(4, "\tx = '\x0c'")]


def test_lines_are_numbered_as_in_an_editor() -> None:
    assert split_lines("a\u2028b\x0bc\rd\r\n\ne") == [
        Line(1, "a\u2028b\x0bc"),
        Line(2, "d"),
        Line(3, ""),
        Line(4, "e"),
    ]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.touch()
    assert read(Source.read(file)).parts[0].lines == []
