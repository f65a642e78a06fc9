"""JSON and JSON Lines, valid or not."""

from pathlib import Path

from mas.tools.files.document import Document, Line, Source
from mas.tools.files.readers.structured import read_json, read_json_lines


def made(folder: Path, text: str) -> Document:
    (folder / "a.json").write_text(text, encoding="utf-8")
    return read_json(Source.read(folder / "a.json"))


def test_json_is_indented_and_readable(tmp_path: Path) -> None:
    document = made(tmp_path, '{"city":"Z\\u00fcrich","n":[1,2.5,null]}')
    assert document.summary == "JSON, an object with 2 keys, 8 lines when indented"
    assert document.parts[0].lines[1] == Line(2, '  "city": "Zürich",')


def test_invalid_json_is_shown_as_text_with_the_place_of_the_error(tmp_path: Path) -> None:
    document = made(tmp_path, '{"a": 1,\n}')
    assert "Not valid JSON" in document.notes[0]
    assert "line" in document.notes[0]
    assert [line.text for line in document.parts[0].lines] == ['{"a": 1,', "}"]


def test_equal_keys_are_not_lost(tmp_path: Path) -> None:
    document = made(tmp_path, '{"a": 1, "a": 2}')
    assert "the same key twice" in document.notes[0]
    assert document.parts[0].lines == [Line(1, '{"a": 1, "a": 2}')]


def test_bottomless_nesting_and_endless_numbers_are_shown_as_text(tmp_path: Path) -> None:
    assert "Not valid JSON" in made(tmp_path, "[" * 100_000).notes[0]
    assert "Not valid JSON" in made(tmp_path, "9" * 5_000).notes[0]


def test_json_lines_under_the_name_of_json(tmp_path: Path) -> None:
    document = made(tmp_path, '{"a":1}\n\n{"a":2}\n')
    assert document.summary == "JSON Lines, 2 values"
    assert document.parts[0].lines == [Line(1, '{"a": 1}'), Line(3, '{"a": 2}')]


def test_json_lines_keep_a_bad_line_and_name_it(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": "\\u00e9"}\n{"a": \n{"a": 3}\n', encoding="utf-8")
    document = read_json_lines(Source.read(file))
    assert document.notes == ["1 lines are not valid JSON, the first is line 2."]
    assert document.parts[0].lines == [Line(1, '{"a": "é"}'), Line(2, '{"a": '), Line(3, '{"a": 3}')]
