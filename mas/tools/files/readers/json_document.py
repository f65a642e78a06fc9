"""JSON, indented; JSON Lines, one value a line. What does not parse is shown as it is written.

read(Source("a.json", b"…")).parts[0].lines[1]        # Line(2, '  "city": "Rome"')
"""

import json
from typing import Any

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import build_text_document, decode, split_lines


def read(source: Source) -> Document:
    text, encoding = decode(source.data, source.name)
    try:
        value = _parsed(text)
    except (ValueError, RecursionError) as error:
        return _several_values(text) or build_text_document(
            text, encoding, [f"Not valid JSON ({error}), so it is shown as text."]
        )
    lines = split_lines(json.dumps(value, indent=2, ensure_ascii=False))
    return Document(f"JSON, {_size(value)}, {len(lines)} lines when indented", [Part(lines)])


def read_lines(source: Source) -> Document:
    text, _ = decode(source.data, source.name)
    lines, bad = [], []
    for number, written in split_lines(text):
        try:
            lines.append(Line(number, json.dumps(_parsed(written), ensure_ascii=False)))
        except (ValueError, RecursionError):
            lines.append(Line(number, written))
            if written.strip():
                bad.append(number)
    notes = [f"{len(bad)} lines are not valid JSON, the first is line {bad[0]}."] if bad else []
    return Document(f"JSON Lines, {len(lines)} lines", [Part(lines, numbered=True)], notes)


def _several_values(text: str) -> Document | None:
    """JSON Lines under the name of JSON: at least two lines, each of them a value."""
    lines = [line for line in split_lines(text) if line.text.strip()]
    try:
        values = [Line(line.number, json.dumps(_parsed(line.text), ensure_ascii=False)) for line in lines]
    except (ValueError, RecursionError):
        return None
    return Document(f"JSON Lines, {len(values)} values", [Part(values, numbered=True)]) if len(values) > 1 else None


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_loss)


def _without_loss(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python keeps the last of two equal keys; showing the text as written loses none."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _size(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    return f"a list of {len(value)} items" if isinstance(value, list) else "a single value"
