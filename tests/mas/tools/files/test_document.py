"""Documents: packing keeps every part, and the limits cut with a note."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.tools.files import document as documents
from mas.tools.files.document import TOO_LONG, Document, Line, Part, Source, number_parts

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


def test_pages_are_parts_that_are_named_by_their_numbers() -> None:
    assert number_parts("page", [["a", "b"], []]) == [
        Part([Line(1, "a"), Line(2, "b")], "1", "[page 1 of 2]"), Part([], "2", "[page 2 of 2]")
    ]  # fmt: skip
    assert Part([]) == Part([], name="", heading="", numbered=False)
    assert Document("s", []) == Document("s", [], notes=[], unit="sheet", is_incomplete=False, whole=[])


def test_an_answer_has_the_summary_beside_the_packed_document() -> None:
    document = Document("one page", number_parts("page", [["a"]]), unit="page", is_incomplete=True)
    answer = document.to_answer()
    assert answer.facts == {"summary": "one page"} and Document.unpack(answer.packed) == document


def test_a_source_has_its_extension_in_lower_case_and_opens_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "A.TAR.Gz").write_bytes(b"abc")
    source = Source.read(tmp_path / "A.TAR.Gz")
    assert (source, source.suffix, source.open().read()) == (Source("A.TAR.Gz", b"abc"), ".gz", b"abc")
    assert Source("data.zip: tables/x.CSV", b"").suffix == ".csv" and Source("none", b"").suffix == ""
