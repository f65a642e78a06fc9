"""Records in a text: rows of a ` | ` table, objects of JSON, XML elements, blocks of `key: value` lines.

find_records("City | Code\nParis | 17")[0].cells       # (Cell("City", "Paris", "A1"), Cell("Code", "17", "B1"))
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from xml.etree import ElementTree

from tests.servers.markings import marked, sheet_facts

_KEY_VALUES = tuple(  # of the first separator that the line has
    re.compile(
        rf"\A\s*(?:[-*•]\s+)?[\"']?([^{excluded}|]{{1,80}}?)[\"']?\s*{separator}[\"']?(.{{1,200}}?)[\"']?,?\s*\Z"
    )
    for excluded, separator in ((":", r":\s+"), ("=", r"=\s"), ("", r"\s[\u2013\u2014-]\s"))
)
_JSON_LINE = re.compile(r"^(?:\d+ \| )?(\{.*\})$", re.MULTILINE)
_REMARK = re.compile(r"REMARK\s+\d+\s+([A-Z][A-Z ]+)\.\s{2,}(-?\d+(?:\.\d+)?)\b.*")  # of a PDB file
_OPENING = re.compile(r"\s*[\"']?([\w .-]{1,80}?)[\"']?\s*[:=]\s*[\[{(]\s*")  # of a block, as in source code
_RULE = re.compile(r"[\s|:+=-]+")
_ADDRESSED = re.compile(r"([A-Z]{1,3})(\d+)\s*[:=]\s*(.*)", re.DOTALL)
_SENTENCE_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|will)\b")


@dataclass(frozen=True)
class Cell:
    label: str
    value: str
    address: str = ""  # "B2" in a table whose columns have letters


@dataclass(frozen=True)
class Record:
    cells: tuple[Cell, ...]
    about: tuple[str, ...] = ()  # headings, sheet names, the keys and facts of what encloses it


def find_records(text: str) -> list[Record]:
    """All records of `text`: of JSON or XML if it is that, else tables, then `key: value` lines."""
    document = json_document(text)
    if document is not None:
        return list(_json_records(document, ()))
    if marked_up := [*_json_lines(text), *_xml_records(text)]:
        return marked_up
    return [*_table_records(text), *_line_records(text)]


def json_document(text: str) -> Any:
    """The JSON object or list that the text is, or that begins on a line of its own in it; None if there is none."""
    start = re.search(r"^\s*[\[{]", text, re.MULTILINE)
    if start is None:
        return None
    try:
        document, _ = json.JSONDecoder().raw_decode(text[start.end() - 1 :])
    except ValueError:
        return None
    return document if document and isinstance(document, (dict, list)) else None


def _json_lines(text: str) -> Iterator[Record]:
    """An object on each line, numbered or not."""
    for line in _JSON_LINE.findall(text):
        try:
            yield from _json_records(json.loads(line), ())
        except ValueError:
            continue


def xml_root(text: str) -> ElementTree.Element | None:
    """The element that the text is; None if it is no XML."""
    start, end = text.find("<"), text.rfind(">")
    if "</" not in text[start : end + 1]:
        return None
    try:
        return ElementTree.fromstring(text[start : end + 1])
    except ElementTree.ParseError:
        return None


def _xml_records(text: str) -> Iterator[Record]:
    """Each element with attributes, or with children that hold nothing but text."""
    root = xml_root(text)
    for element in root.iter() if root is not None else ():
        cells = [Cell(name, value) for name, value in element.items()]
        cells += [Cell(child.tag, child.text.strip()) for child in element if not len(child) and child.text]
        if cells:
            yield Record(tuple(cells), (element.tag,))


def is_table_line(line: str) -> bool:
    return " | " in line or (line.count("|") > 1 and line.strip().startswith("|")) or line.rstrip().endswith(" |")


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json_records(node: Any, about: tuple[str, ...]) -> Iterator[Record]:
    if isinstance(node, list):
        for item in node:
            yield from _json_records(item, about)
        return
    if not isinstance(node, dict):
        return
    nested = {key: value for key, value in node.items() if _is_nested(value)}
    cells = tuple(Cell(key, _leaf(value)) for key, value in node.items() if key not in nested and value is not None)
    if cells:
        yield Record(cells, about)
    facts = tuple(f"{cell.label} {cell.value}" for cell in cells)
    for key, value in nested.items():
        yield from _json_records(value, (*about, key, *facts))


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)
    )


def _leaf(value: Any) -> str:
    return ", ".join(_scalar(item) for item in value) if isinstance(value, list) else _scalar(value)


def _table_records(text: str) -> Iterator[Record]:
    heading, block = "", list[list[str]]()
    for line in [*text.splitlines(), ""]:
        if is_table_line(line):
            if not _RULE.fullmatch(line):
                block.append(_split_row(line))
            continue
        yield from _block_records(block, heading)
        block = []
        heading = line.strip() or heading
        if facts := sheet_facts(heading):
            yield Record(tuple(Cell(name, value) for name, value in facts.items()), (heading,))


def _split_row(line: str) -> list[str]:
    line = line.strip()
    if line.startswith("|") and line.endswith("|"):
        line = line[1:-1]
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]


def _block_records(block: list[list[str]], heading: str) -> Iterator[Record]:
    """The rows below the header; rows above it with a single filled cell are titles."""
    grid = _grid(block)
    titles = [heading]
    while len(grid) > 1 and sum(bool(value) for _, value in grid[0]) < 2 <= max(len(row) for row in grid):
        titles += [value for _, value in grid.pop(0) if value]
    if not grid:
        return
    header = [value for _, value in grid[0]]
    for row in grid[1:]:
        labels = header + [""] * (len(row) - len(header))
        filled = [(label, *cell) for label, cell in zip(labels, row, strict=False) if cell[1]]
        if filled:
            yield _row_record(filled, titles)


def _row_record(filled: list[tuple[str, str, str]], titles: list[str]) -> Record:
    """Of (label, address, value): what is marked behind a value has a cell of its own."""
    cells, about = list[Cell](), [title for title in titles if title]
    for label, address, shown in filled:
        found = marked(shown)
        cells += [Cell(label, found.value, address)] if found.value else []
        cells += [Cell(f"{label} {name}", value) for name, value in found.facts.items()]
        about += found.words
    return Record(tuple(cells), tuple(about))


def _grid(block: list[list[str]]) -> list[list[tuple[str, str]]]:
    """Rows of (address, value); a line of column letters and a column of row numbers become addresses."""
    if not block:
        return []
    letters = _column_letters(block[0])
    if letters is None:
        return [[_addressed(value) for value in row] for row in block]
    first = letters.index(next(filter(None, letters)))
    rows = []
    for number, row in zip(count(1), block[1:], strict=False):
        shown = row[0] if first and re.search(r"\d", row[0]) else str(number)
        name = re.sub(r"\D", "", shown)
        rows.append([(f"{letter}{name}", value) for letter, value in zip(letters[first:], row[first:], strict=False)])
    return rows


def _column_letters(row: list[str]) -> list[str] | None:
    """The letters of a spreadsheet's columns, if that is what this row is; what stands before them is blanked."""
    first = 0 if row[0] == "A" else 1
    wanted = row[first:]
    if wanted[:1] != ["A"] or not all(re.fullmatch(r"[A-Z]{1,3}", cell) for cell in wanted):
        return None
    return [""] * first + wanted


def _addressed(value: str) -> tuple[str, str]:
    found = _ADDRESSED.fullmatch(value)
    return (found[1] + found[2], found[3].strip()) if found else ("", value)


def _line_records(text: str) -> Iterator[Record]:
    """`key: value` lines; those without a blank line between them describe one thing."""
    heading, cells = "", list[Cell]()
    for line in [*text.splitlines(), ""]:
        pairs = [] if is_table_line(line) or _OPENING.fullmatch(line) else _pairs(line)
        if len(pairs) > 1:
            yield Record(tuple(pairs), (heading,) if heading else ())
        elif pairs:
            cells += pairs
        else:
            if cells:
                yield Record(tuple(cells), (heading,) if heading else ())
                cells = []
            if line.strip():
                heading = line.strip(" #*:=-")
    if cells:
        yield Record(tuple(cells), (heading,) if heading else ())


def _pairs(line: str) -> list[Cell]:
    for separator in (r"[;,]\s+", r"\Z"):
        parts = [_key_value(part) for part in re.split(separator, line.strip()) if part]
        cells = [part for part in parts if part]
        if cells and len(cells) == len(parts):
            return cells
    return []


def _key_value(text: str) -> Cell | None:
    if remark := _REMARK.fullmatch(text):
        return Cell(remark[1], remark[2])
    found = next(filter(None, (pattern.match(text) for pattern in _KEY_VALUES)), None)
    return None if found is None or _SENTENCE_VERB.search(found[1]) else Cell(found[1].strip(), found[2].strip())
