"""CSV and TSV: dialects, column names, row numbers, and tables that are not quite tables."""

import pytest

from mas.tools.files import document
from mas.tools.files.document import TOO_LONG, Document, Line, Source
from mas.tools.files.kinds import read_in_process


def made(text: str, name: str = "t.csv", encoding: str = "utf-8") -> Document:
    return read_in_process(Source(name, text.encode(encoding)))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    rows = [["city", "people"], ["Rome", "2.8"], ["Oslo", "0.7"], ["Paris", "2.1"]]
    found = made("\n".join(delimiter.join(row) for row in rows))
    assert found.summary == f"table with 2 columns and 3 rows below the column names, delimiter {delimiter!r}, utf-8"
    assert found.parts[0].heading == "row | city | people"
    assert found.parts[0].lines == [Line(1, "Rome | 2.8"), Line(2, "Oslo | 0.7"), Line(3, "Paris | 2.1")]


def test_quotes_commas_newlines_and_apostrophes() -> None:
    found = made('name,note\nO\'Neil,"a, b"\n"D\'Arcy","two\nlines"\nX,"say ""hi"" | bye"\n')
    assert [line.text for line in found.parts[0].lines] == [
        "O'Neil | a, b",
        r"D'Arcy | two\nlines",
        r'X | say "hi" \| bye',
    ]


def test_a_semicolon_table_in_utf_16() -> None:
    found = made("Größe;Zahl\n1,5;2\n3,5;4\n", encoding="utf-16")
    assert found.parts[0].lines == [Line(1, "1,5 | 2"), Line(2, "3,5 | 4")]
    spaced = made('city, note\nRome, "old, big"\nOslo, "cold, wet"\nParis, "wide, loud"\n')
    assert spaced.parts[0].lines[0] == Line(1, "Rome | old, big")


def test_uneven_rows_are_kept() -> None:
    found = made("a,b\n1,2\n3\n4,5,6\n")
    assert [line.text for line in found.parts[0].lines] == ["1 | 2", "3", "4 | 5 | 6"]


def test_very_many_column_names_become_a_row_of_their_own() -> None:
    names = [f"column number {number}" for number in range(500)]
    part = made(",".join(names) + "\n" + ",".join(["1"] * 500)).parts[0]
    assert part.lines[0] == Line(0, " | ".join(names))
    assert len(part.heading) < 100


def made_json(text: str) -> Document:
    return made(text, "a.json")


def test_json_is_indented_and_readable() -> None:
    found = made_json('{"city":"Z\\u00fcrich","n":[1,2.5,null]}')
    assert found.summary == "JSON, 2 items, 8 lines when indented"
    assert found.parts[0].lines[1] == Line(2, '  "city": "Zürich",')


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000])
def test_json_that_no_parser_takes_is_shown_as_text(text: str) -> None:
    found = made_json(text)
    assert "Not valid JSON" in found.notes[0] and found.parts[0].lines == [Line(1, text)]


def test_invalid_json_is_shown_as_text_with_the_place_of_the_error() -> None:
    found = made_json('{"a": 1,\n}')
    assert "Not valid JSON" in found.notes[0]
    assert "line" in found.notes[0]
    assert [line.text for line in found.parts[0].lines] == ['{"a": 1,', "}"]


def test_json_lines_under_the_name_of_json_are_shown_as_written() -> None:
    found = made_json('{"a":1}\n\n{"a":2}\n')
    assert "Not valid JSON" in found.notes[0]
    assert [line.text for line in found.parts[0].lines] == ['{"a":1}', "", '{"a":2}']


@pytest.mark.parametrize(
    ("name", "data", "summary"),
    [
        ("a.csv", b"n\n" + b"1\n" * 30, "table with 1 columns and 30 rows below the column names"),
        ("a.json", b"[" + b"1," * 30 + b"1]", "JSON, 31 items, 33 lines when indented"),
        ("a.txt", b"x\r\n" * 30, "text, utf-8, 30 lines, 90 characters"),
    ],
)
def test_of_a_long_file_the_first_lines_are_shown_and_the_note_says_so(
    name: str, data: bytes, summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MAX_LINES", 10)
    shown = read_in_process(Source(name, data))
    assert shown.summary.startswith(summary)
    assert [line.number for line in shown.parts[0].lines] == list(range(1, 11))
    assert shown.notes == [TOO_LONG]
