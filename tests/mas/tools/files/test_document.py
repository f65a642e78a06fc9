"""Documents above the limits: what is beyond them goes, and a note says so."""

import pytest

from mas.tools.files import document
from mas.tools.files.document import TOO_LONG, Document, Part, number_lines


def texts(parts: list[Part]) -> list[list[str]]:
    return [[line.text for line in part.lines] for part in parts]


@pytest.mark.parametrize(
    ("limit", "most", "kept"),
    [
        ("MAX_CHARS", 8, [["abcd", "efg"], ["h"]]),
        ("MAX_CHARS", 6, [["abcd", "ef"], []]),
        ("MAX_CHARS", 3, [["abc"], []]),
        ("MAX_LINES", 2, [["abcd", "efg"], []]),
    ],
)
def test_what_is_beyond_a_limit_goes_and_a_long_line_is_cut(
    limit: str, most: int, kept: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, limit, most)
    whole = Document("text", [Part(number_lines(["abcd", "efg"])), Part(number_lines(["h"]))])
    limited = whole.limit()
    assert texts(limited.parts) == kept
    assert limited.notes == ([] if kept[1] else [TOO_LONG])
