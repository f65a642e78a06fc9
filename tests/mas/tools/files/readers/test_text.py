"""Decoding: every usual encoding, line numbers as editors count them, no binary."""

from pathlib import Path

import pytest

from mas.tools.files.document import TOO_LONG, Line, Part, Source
from mas.tools.files.readers import text as text_reader
from mas.tools.files.readers.text import (
    build_text_document,
    count_lines,
    decode,
    find_declared_encoding,
    format_row,
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


@pytest.mark.parametrize(
    ("data", "declared"),
    [
        (b"<?xml version='1.0' encoding='ISO-8859-2'?>", "iso-8859-2"),
        (b'<html><meta charset="windows-1250">', "windows-1250"),
        (b"# -*- coding: latin-1 -*-\n", "latin-1"),
        (b"#!/usr/bin/python\n# coding=utf-8\n", "utf-8"),
        (b"1\n2\n# coding: latin-1\n", None),
        (b"<?xml encoding='no-such'?>", None),
        (b"<?xml encoding='rot13'?>", None),
        (b" " * 1_010 + b"<meta charset=latin-1>", None),
        (b"plain", None),
    ],
)
def test_a_declared_encoding_is_taken_if_it_is_one_of_texts(data: bytes, declared: str | None) -> None:
    assert find_declared_encoding(data) == declared


def test_a_declaration_counts_where_the_bytes_are_no_utf_8() -> None:
    data = "\N{LATIN SMALL LETTER L WITH STROKE}".encode("iso-8859-2")
    assert decode(data, declared="iso-8859-2") == ("\N{LATIN SMALL LETTER L WITH STROKE}", "iso-8859-2")
    assert decode(b"caf\xe9", declared="ascii") == ("caf\xe9", "windows-1252 (guessed)")
    assert decode("\xe9".encode(), declared="latin-1") == ("\xe9", "utf-8")


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("\xe9\xe9\xe9".encode() + b"\xff", "utf-8 with 1 damaged characters"),
        ("\xe9\xe9".encode() + b"\xff", "utf-8 with 1 damaged characters"),
        ("\xe9".encode() + b"\xff", "windows-1252 (guessed)"),
    ],
)
def test_damaged_utf_8_has_more_good_letters_than_bad_bytes(data: bytes, encoding: str) -> None:
    assert decode(data)[1] == encoding


@pytest.mark.parametrize(
    ("text", "is_text"),
    [("x" * 98 + "\x01" * 2, True), ("x" * 97 + "\x01" * 3, False), ("x" * 10_000 + "\x01" * 3_000, True),
     ("\x1b[0m", True), ("x" * 10_000 + "\x00", False)],
)  # fmt: skip
def test_a_few_control_characters_are_still_text(text: str, is_text: bool) -> None:
    if is_text:
        assert decode(text.encode())[0] == text
        return
    with pytest.raises(ToolError) as refused:
        decode(text.encode(), "x.bin")
    assert str(refused.value) == ("x.bin is binary, not text, and of no kind that read_file knows; it cannot be shown.")


@pytest.mark.parametrize(
    ("written", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\r\nb", 2), ("a\rb\r", 2), ("\n\n", 2), ("a\n\rb", 3)]
)
def test_lines_are_counted_as_they_are_split(written: str, count: int) -> None:
    assert count_lines(written) == len(split_lines(written)) == count


@pytest.mark.parametrize(("most", "kept", "notes"), [(2, 2, []), (1, 1, [TOO_LONG])])
def test_a_text_has_its_facts_and_as_many_lines_as_a_document_keeps(
    most: int, kept: int, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_reader, "MAX_LINES", most)
    for written in ("ab\ncd", "ab\ncd\n"):
        document = build_text_document(written, "utf-8", ["first"])
        assert document.summary == f"text, utf-8, 2 lines, {len(written)} characters"
        assert document.parts == [Part([Line(1, "ab"), Line(2, "cd")][:kept])]
        assert document.notes == ["first", *notes]


def test_cells_never_break_a_row() -> None:
    assert format_row(["a|b", "c\r\nd\ne\rf", ""]) == "a\\|b | c\\nd\\ne\\nf | "
