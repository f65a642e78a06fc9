"""Documents: packing keeps every part, and the limits cut with a note."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.tools.files import document as documents
from mas.tools.files.document import TOO_LONG, Document, Line, Part

TEXTS = st.text(st.characters(), max_size=20)
PARTS = st.lists(
    st.builds(
        Part,
        lines=st.lists(st.builds(Line, st.integers(0, 10**7), TEXTS), max_size=4),
        name=TEXTS,
        heading=TEXTS,
        numbered=st.booleans(),
    ),
    max_size=3,
)


@given(st.builds(Document, TEXTS, PARTS, st.lists(TEXTS, max_size=2), TEXTS, st.booleans(), PARTS))
def test_a_document_is_the_same_after_packing(document: Document) -> None:
    assert Document.unpack(document.pack()) == document


@pytest.mark.parametrize(
    ("lines", "chars", "kept"), [(5, 100, [3, 2]), (9, 7, [3, 0]), (9, 10, [3, 2]), (6, 12, [3, 3]), (2, 99, [2, 0])]
)
def test_lines_above_the_limits_are_left_out_of_all_parts(
    lines: int, chars: int, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_LINES", lines)
    monkeypatch.setattr(documents, "MAX_CHARS", chars)
    parts = [Part([Line(1, "ab"), Line(2, "cd"), Line(3, "ef")], name=name) for name in "xy"]
    found = Document.unpack(Document("two sheets", parts, ["first note"]).pack())
    assert [len(part.lines) for part in found.parts] == kept
    assert found.notes == (["first note"] if kept == [3, 3] else ["first note", TOO_LONG])
