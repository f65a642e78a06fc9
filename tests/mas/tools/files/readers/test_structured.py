"""CSV and TSV: dialects, column names, row numbers, and tables that are not quite tables."""

import csv
from pathlib import Path

import pytest

from mas.tools.files.document import TOO_LONG, Document, Line, Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.readers import structured, text
from mas.tools.files.readers.structured import read_json, read_json_lines, read_table, read_xml
from mas.tools.files.zip_package import parse_xml


def made(folder: Path, text: str, name: str = "t.csv", encoding: str = "utf-8") -> Document:
    (folder / name).write_bytes(text.encode(encoding))
    return read_table(Source.read(folder / name))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [["city", "people"], ["Rome", "2.8"], ["Oslo", "0.7"], ["Paris", "2.1"]]
    document = made(tmp_path, "\n".join(delimiter.join(row) for row in rows))
    assert document.summary == f"table with 2 columns and 3 rows below the column names, delimiter {delimiter!r}, utf-8"
    assert document.parts[0].heading == "row | city | people"
    assert document.parts[0].lines == [Line(1, "Rome | 2.8"), Line(2, "Oslo | 0.7"), Line(3, "Paris | 2.1")]


def test_a_tsv_of_one_row_is_split_at_tabs(tmp_path: Path) -> None:
    assert made(tmp_path, "a, b\tc", name="t.tsv").parts[0].heading == "row | a, b | c"


def test_quotes_commas_newlines_and_apostrophes(tmp_path: Path) -> None:
    document = made(tmp_path, 'name,note\nO\'Neil,"a, b"\n"D\'Arcy","two\nlines"\nX,"say ""hi"" | bye"\n')
    assert [line.text for line in document.parts[0].lines] == [
        "O'Neil | a, b",
        r"D'Arcy | two\nlines",
        r'X | say "hi" \| bye',
    ]


def test_a_semicolon_table_in_utf_16(tmp_path: Path) -> None:
    document = made(tmp_path, "Größe;Zahl\n1,5;2\n3,5;4\n", encoding="utf-16")
    assert document.parts[0].lines == [Line(1, "1,5 | 2"), Line(2, "3,5 | 4")]


def test_uneven_rows_are_noted_and_kept(tmp_path: Path) -> None:
    document = made(tmp_path, "a,b\n1,2\n3\n4,5,6\n")
    assert document.notes == ["2 rows have more or fewer cells than there are column names."]
    assert [line.text for line in document.parts[0].lines] == ["1 | 2", "3", "4 | 5 | 6"]


def test_a_cell_beyond_the_csv_limit_is_shown_as_text(tmp_path: Path) -> None:
    before = csv.field_size_limit(100_000)
    try:
        document = made(tmp_path, 'a,b\n1,"' + "x" * 200_000 + '"\n')
    finally:
        csv.field_size_limit(before)
    assert "no valid table" in document.notes[0]
    assert len(document.parts[0].lines[1].text) > 200_000


def test_very_many_column_names_become_a_row_of_their_own(tmp_path: Path) -> None:
    names = [f"column number {number}" for number in range(500)]
    part = made(tmp_path, ",".join(names) + "\n" + ",".join(["1"] * 500)).parts[0]
    assert part.lines[0] == Line(0, " | ".join(names))
    assert len(part.heading) < 100


def test_an_empty_table_is_an_empty_text(tmp_path: Path) -> None:
    assert made(tmp_path, "\n\n").notes == ["It holds no rows."]


def test_a_space_after_the_delimiter_belongs_to_no_cell(tmp_path: Path) -> None:
    document = made(tmp_path, 'city, note\nRome, "old, big"\nOslo, "cold, wet"\nParis, "wide, loud"\n')
    assert document.parts[0].heading == "row | city | note"
    assert document.parts[0].lines[0] == Line(1, "Rome | old, big")


def made_json(folder: Path, text: str) -> Document:
    (folder / "a.json").write_text(text, encoding="utf-8")
    return read_json(Source.read(folder / "a.json"))


def test_json_is_indented_and_readable(tmp_path: Path) -> None:
    document = made_json(tmp_path, '{"city":"Z\\u00fcrich","n":[1,2.5,null]}')
    assert document.summary == "JSON, an object with 2 keys, 8 lines when indented"
    assert document.parts[0].lines[1] == Line(2, '  "city": "Zürich",')


def test_invalid_json_is_shown_as_text_with_the_place_of_the_error(tmp_path: Path) -> None:
    document = made_json(tmp_path, '{"a": 1,\n}')
    assert "Not valid JSON" in document.notes[0]
    assert "line" in document.notes[0]
    assert [line.text for line in document.parts[0].lines] == ['{"a": 1,', "}"]


def test_equal_keys_are_not_lost(tmp_path: Path) -> None:
    document = made_json(tmp_path, '{"a": 1, "a": 2}')
    assert "the same key twice" in document.notes[0]
    assert document.parts[0].lines == [Line(1, '{"a": 1, "a": 2}')]


def test_bottomless_nesting_and_endless_numbers_are_shown_as_text(tmp_path: Path) -> None:
    assert "Not valid JSON" in made_json(tmp_path, "[" * 100_000).notes[0]
    assert "Not valid JSON" in made_json(tmp_path, "9" * 5_000).notes[0]


def test_json_lines_under_the_name_of_json(tmp_path: Path) -> None:
    document = made_json(tmp_path, '{"a":1}\n\n{"a":2}\n')
    assert document.summary == "JSON Lines, 2 values"
    assert document.parts[0].lines == [Line(1, '{"a": 1}'), Line(3, '{"a": 2}')]


def test_json_lines_keep_a_bad_line_and_name_it(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": "\\u00e9"}\n{"a": \n{"a": 3}\n', encoding="utf-8")
    document = read_json_lines(Source.read(file))
    assert document.notes == ["1 lines are not valid JSON, the first is line 2."]
    assert document.parts[0].lines == [Line(1, '{"a": "é"}'), Line(2, '{"a": '), Line(3, '{"a": 3}')]


def test_json_that_indentation_makes_too_long_is_shown_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"[" * 50 + b"1," * 50 + b"1" + b"]" * 50
    assert read_json(Source("a.json", data)).summary.startswith("JSON, a list of 1 items, 151 lines")
    monkeypatch.setattr(structured, "MAX_CHARS", 5_000)
    document = read_json(Source("a.json", data))
    assert document.parts[0].lines == [Line(1, data.decode())]
    assert document.notes == [f"JSON, a list of 1 items; {structured.TOO_LONG_INDENTED}"]
    xml = b"<a>" * 100 + b"<b/>" * 200 + b"</a>" * 100
    assert read_xml(Source("a.xml", xml)).notes == [f"XML; {structured.TOO_LONG_INDENTED}"]


@pytest.mark.parametrize(
    ("name", "data", "summary"),
    [
        ("a.csv", b"n\n" + b"1\n" * 30, "table with 1 columns and 30 rows below the column names"),
        ("a.json", b"[" + b"1," * 30 + b"1]", "JSON, a list of 31 items, more than 10 lines when indented"),
        ("a.json", b"{}\n" * 30, "JSON Lines, more than 10 values"),
        ("a.jsonl", b"{}\n" * 30, "JSON Lines, 30 lines"),
        ("a.txt", b"x\r\n" * 30, "text, utf-8, 30 lines, 90 characters"),
    ],
)
def test_of_a_long_file_the_first_lines_are_shown_and_the_note_says_so(
    name: str, data: bytes, summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured, "MAX_LINES", 10)
    monkeypatch.setattr(text, "MAX_LINES", 10)
    document = read_in_process(Source(name, data))
    assert document.summary.startswith(summary)
    assert [line.number for line in document.parts[0].lines] == list(range(1, 11))
    assert document.notes == [TOO_LONG]


def test_a_file_of_just_as_many_lines_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "MAX_LINES", 10)
    monkeypatch.setattr(text, "MAX_LINES", 10)
    for name, data in (("a.csv", b"n\n" + b"1\n" * 10), ("a.txt", b"x\n" * 10), ("a.txt", b"x\n" * 9 + b"x")):
        document = read_in_process(Source(name, data))
        assert (len(document.parts[0].lines), document.notes) == (10, [])


def test_a_tsv_keeps_the_spaces_of_its_cells_and_one_without_tabs_is_looked_at(tmp_path: Path) -> None:
    assert made(tmp_path, "a\t b\n1\t 2\n", name="t.tsv").parts[0].lines == [Line(1, "1 |  2")]
    document = made(tmp_path, "a;b\n1;2\n3;4\n", name="t.tsv")
    assert document.summary == "table with 2 columns and 2 rows below the column names, delimiter ';', utf-8"


def test_a_table_keeps_the_first_rows_up_to_either_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "MAX_LINES", 2)
    exact = structured.build_table(["a"], [["1"], ["2"]], "f")
    assert (exact.parts[0].lines, exact.notes) == ([Line(1, "1"), Line(2, "2")], [])
    longer = structured.build_table(["a"], [["1"], ["2"], ["3"]], "f")
    assert (longer.parts[0].lines, longer.notes) == (exact.parts[0].lines, [structured.TOO_LONG])
    assert longer.summary == "table with 1 columns and 3 rows below the column names, f"
    monkeypatch.setattr(structured, "MAX_LINES", 100)
    monkeypatch.setattr(structured, "MAX_CHARS", 3)
    wide = structured.build_table(["a"], [["123"], ["4"], ["5"]], "f", count=9)
    assert (wide.parts[0].lines, wide.notes) == ([Line(1, "123"), Line(2, "4")], [structured.TOO_LONG])
    assert wide.summary == "table with 1 columns and 9 rows below the column names, f"


def test_a_heading_of_exactly_the_limit_stays_a_heading() -> None:
    name = "n" * structured.MAX_HEADING_CHARS
    part = structured.build_table([name], [["1"]], "f").parts[0]
    assert (part.heading, part.numbered, part.lines) == (f"row | {name}", True, [Line(1, "1")])
    part = structured.build_table([name + "n"], [["1"]], "f").parts[0]
    assert part.heading == "row | (the column names are row 0)"
    assert part.lines == [Line(0, name + "n"), Line(1, "1")]


def test_a_table_that_cannot_be_sniffed_has_commas_and_keeps_spaces() -> None:
    for data, lines in (
        (b"a\n1\n", [Line(1, "1")]),
        (b"a,b\nx,  y\nz,w\n", [Line(1, "x |   y"), Line(2, "z | w")]),
        (b"name\n x\n", [Line(1, " x")]),
    ):
        document = read_table(Source("a.csv", data))
        assert document.parts[0].lines == lines and "delimiter ','" in document.summary
    empty = read_table(Source("a.csv", b"\n\n"))
    assert (empty.summary, empty.notes) == ("text, utf-8, 2 lines, 2 characters", ["It holds no rows."])


@pytest.mark.parametrize(
    ("data", "summary", "lines"),
    [
        (b'{"a": 1, "b": [2]}', "JSON, an object with 2 keys, 6 lines when indented",
         ["{", '  "a": 1,', '  "b": [', "    2", "  ]", "}"]),
        (b"[]", "JSON, a list of 0 items, 1 lines when indented", ["[]"]),
        ('"\xe9"'.encode(), "JSON, a single value, 1 lines when indented", ['"\xe9"']),
        (b'1\n\n{"a": "\xc3\xa9"}\n', "JSON Lines, 2 values", ["1", '{"a": "\xe9"}']),
    ],
)  # fmt: skip
def test_json_is_described_by_its_size(data: bytes, summary: str, lines: list[str]) -> None:
    document = read_json(Source("a.json", data))
    assert (document.summary, document.notes) == (summary, [])
    assert [line.text for line in document.parts[0].lines] == lines
    assert document.parts[0].numbered is summary.startswith("JSON Lines")


def test_one_line_that_is_no_json_is_a_text() -> None:
    document = read_json(Source("a.json", b'{"a": 1'))
    assert document.summary == "text, utf-8, 1 lines, 7 characters"
    (note,) = document.notes
    assert note.startswith("Not valid JSON (Expecting") and note.endswith("), so it is shown as text.")


def test_json_lines_are_numbered_and_those_that_are_none_are_counted() -> None:
    document = read_json_lines(Source("a.jsonl", b'{"a":1}\n\nno\n{"a":1,"a":2}\n"\xc3\xa9"\n'))
    (part,) = document.parts
    assert part.numbered and document.summary == "JSON Lines, 5 lines"
    texts = ['{"a": 1}', "", "no", '{"a":1,"a":2}', '"\xe9"']
    assert part.lines == [Line(number, written) for number, written in enumerate(texts, start=1)]
    assert document.notes == ["2 lines are not valid JSON, the first is line 3."]


@pytest.mark.parametrize(
    ("chars", "is_indented"), [(structured.LONG_LINE_CHARS + 1, True), (structured.LONG_LINE_CHARS, False)]
)
def test_xml_is_indented_if_a_line_of_it_is_too_long_to_read(chars: int, is_indented: bool) -> None:
    xml = f"<a><b>{'x' * (chars - 14)}</b></a>"
    assert len(xml) == chars
    document = read_xml(Source("a.xml", xml.encode()))
    lines = ["<a>", f"  {xml[3:-4]}", "</a>"] if is_indented else [xml]
    assert [line.text for line in document.parts[0].lines] == lines
    assert document.notes == (["It is shown with line ends between its elements."] if is_indented else [])
    assert document.summary.startswith(f"XML, utf-8, {len(lines)} lines, ")


def test_xml_that_declares_or_breaks_something_is_shown_as_it_is_written() -> None:
    long = "<b/>" * 300
    for xml, note in (
        (
            f"<!doctype a><a>{long}</a>",
            "It declares a document type or entities; references to them are shown, not followed.",
        ),
        (f"<a>{long}", "It is no well-formed XML (XMLSyntaxError), so it is shown as it is written."),
    ):
        document = read_xml(Source("a.xml", xml.encode()))
        assert (document.parts[0].lines, document.notes) == ([Line(1, xml)], [note])


@pytest.mark.parametrize(("most", "exceeds"), [(8, False), (7, True)])
def test_the_length_of_indented_xml_is_known_before_it_is_made(
    most: int, exceeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured, "MAX_CHARS", most)
    root = parse_xml(b"<a><b/></a>")  # two spaces a level: in a 1, in b 2, out of b 1, out of a 0
    assert structured._exceeds_when_indented(root) is exceeds


@pytest.mark.parametrize(("most", "found"), [(9, "[\n  1\n]"), (7, "[\n  1\n]"), (6, None)])
def test_indented_json_may_be_as_long_as_a_document(
    most: int, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured, "MAX_CHARS", most)
    assert structured._indent_json([1]) == found
