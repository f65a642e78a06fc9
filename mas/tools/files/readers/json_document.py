"""Readers of JSON, which is indented, and JSON Lines. Invalid JSON is shown as written.

read(Source("a.json", b"…")).parts[0].lines[1]        # Line(2, '  "city": "Rome"')
"""

import json

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import build_text_document, decode, split_lines


def read(source: Source) -> Document:
    """Return a JSON value, indented."""
    text, encoding = decode(source.data, source.name)
    try:
        value = _parse(text)
    except (ValueError, RecursionError) as error:
        return _several_values(text) or build_text_document(
            text, encoding, [f"Not valid JSON ({error}), so it is shown as text."]
        )
    lines = split_lines(json.dumps(value, indent=2, ensure_ascii=False))
    return Document(f"JSON, {_describe_size(value)}, {len(lines)} lines when indented", [Part(lines)])


def read_lines(source: Source) -> Document:
    """Return JSON Lines, one value a line."""
    text, _ = decode(source.data, source.name)
    lines, bad = [], []
    for number, written in split_lines(text):
        try:
            lines.append(Line(number, json.dumps(_parse(written), ensure_ascii=False)))
        except (ValueError, RecursionError):
            lines.append(Line(number, written))
            if written.strip():
                bad.append(number)
    notes = [f"{len(bad)} lines are not valid JSON, the first is line {bad[0]}."] if bad else []
    return Document(f"JSON Lines, {len(lines)} lines", [Part(lines, numbered=True)], notes)


def _several_values(text: str) -> Document | None:
    """Return JSON Lines with the extension of JSON: at least two lines, each of which is a value."""
    lines = [line for line in split_lines(text) if line.text.strip()]
    try:
        values = [Line(line.number, json.dumps(_parse(line.text), ensure_ascii=False)) for line in lines]
    except (ValueError, RecursionError):
        return None
    return Document(f"JSON Lines, {len(values)} values", [Part(values, numbered=True)]) if len(values) > 1 else None


def _parse(text: str) -> object:
    return json.loads(text, object_pairs_hook=_refuse_duplicates)


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; refuse equal keys, of which Python keeps the last: the text as written loses none."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _describe_size(value: object) -> str:
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    return f"a list of {len(value)} items" if isinstance(value, list) else "a single value"
