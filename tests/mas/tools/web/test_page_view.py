"""Pages and lists of results as an agent sees them, and where in the text each source is."""

import asyncio
import json
from typing import Any

import pytest

from mas.tools.files.document import Document, Part, number_lines
from mas.tools.files.paging import MAX_HEADER_CHARS, MAX_PAGE_CHARS, MAX_PIECE_CHARS
from mas.tools.files.tasks import Answer, pack, run_task
from mas.tools.results import ToolError
from mas.tools.web import page_view
from mas.tools.web.html_rows import Row
from mas.tools.web.page_view import (
    MAX_FOUND,
    FoundPage,
    PageSource,
    clean_text,
    describe_result,
    shorten_search_answer,
    show_document,
    show_found_pages,
    show_packed,
    show_page,
    show_wiki_page,
    show_wiki_rows,
)

SOURCE = PageSource("Towns,\n https://example.org/", "https://example.org/", "Towns")
PARTS = [Part(number_lines(["Rome", "Oslo"]))]
LONG = [Part(number_lines(["x" * MAX_PIECE_CHARS] * 5))]
WIKI = [Row("Intro"), Row("## Early", 2), Row("a"), Row("### Detail", 3), Row("b"), Row("## Late", 2), Row("c\ud800\0")]


def test_a_page_is_shown_below_its_source() -> None:
    shown = show_page(SOURCE, PARTS, 1, None, ["One note."])
    assert str(shown) == "Towns, https://example.org/; page 1 of 1\nOne note.\n\nRome\nOslo"
    (excerpt,) = shown.excerpts
    assert str(shown)[excerpt.start : excerpt.end] == "Rome\nOslo" and not excerpt.has_line_marks
    assert (excerpt.source, excerpt.title) == (SOURCE.url, "Towns")


def test_a_search_is_named_and_marked() -> None:
    shown = show_page(SOURCE, PARTS, 1, " rome ")
    assert "; lines that contain 'rome': 1; page 1 of 1\n" in str(shown) and shown.excerpts[0].has_line_marks
    assert str(show_page(SOURCE, PARTS, 1, "Cairo")).endswith("\n\n(no line to show; try a shorter or another search)")


def test_the_header_says_how_to_go_on() -> None:
    assert 'page 1 of 3; the rest: page=2, or search="some text" for' in str(show_page(SOURCE, LONG, 1, ""))
    assert "the rest" not in str(show_page(SOURCE, LONG, 3, None))
    for page in (0, 4):
        with pytest.raises(ToolError, match=f"There is no page {page}: there are the pages 1 to 3"):
            show_page(SOURCE, LONG, page, None)


def wanted(**values: Any) -> dict[str, Any]:
    source = ["Towns", SOURCE.url, "Towns"]
    return {"name": "Towns", "source": source, "page": 1, "search": "", "section": "", "notes": [], **values}


def test_a_search_that_the_main_content_lacks_goes_through_all_of_the_page() -> None:
    document = Document("page", PARTS, whole=[Part(number_lines(["Rome", "Oslo", "menu"]))])
    for search, is_found in (("menu", True), ("Rome", True), ("Cairo", False)):
        text = show_document(document.pack(), wanted(search=search)).facts["text"]
        assert (f"'{search}': 1" in text) is is_found
    assert "menu" not in show_document(document.pack(), wanted(search="Rome")).facts["text"]
    assert "menu" not in show_document(document.pack(), wanted()).facts["text"]


def test_a_wiki_page_names_its_sections_and_a_section_ends_where_the_next_begins() -> None:
    packed = pack(WIKI[:-1])
    whole = show_wiki_rows(packed, wanted(notes=["last note"])).facts["text"]
    assert "\nsections: Early; Detail; Late\nlast note\n\nIntro\n" in whole
    section = show_wiki_rows(packed, wanted(section="early")).facts["text"]
    assert section.endswith("\n\n## Early\na\n### Detail\nb") and "sections:" not in section
    assert show_wiki_rows(packed, wanted(section="Detail")).facts["text"].endswith("\n\n### Detail\nb")
    with pytest.raises(ToolError, match="Towns has no section 'Middle'; its sections: Early; Detail; Late"):
        show_wiki_rows(packed, wanted(section="Middle"))
    assert "\nsections: none\n" in show_wiki_rows(pack([Row("a")]), wanted()).facts["text"]


def test_results_are_numbered_and_each_has_its_place_in_the_text() -> None:
    found = [FoundPage("A\n title", "https://a.example/", "about  a"), FoundPage("B", "https://b.example/", "\0 ")]
    shown = show_found_pages("2 results", found, "none")
    assert str(shown) == (
        "2 results\n\n1. A title\n   https://a.example/\n   about a\n2. B\n   https://b.example/\n   \ufffd"
    )
    assert [str(shown)[each.start : each.end] for each in shown.excerpts] == ["about a", "\ufffd"]
    assert str(show_found_pages("0 results", [], "none")) == "0 results\n\nnone"
    assert "(no text)" in str(show_found_pages("1", [FoundPage("A", "https://a.example/", " ")]))


def test_of_a_search_services_answer_only_the_fields_that_are_read_remain() -> None:
    def shorten(answer: object) -> Any:
        return shorten_search_answer(json.dumps(answer).encode(), {"name": "Search"}).facts

    full = {"title": "t", "url": "u", "content": "c", "published_date": "d", "score": 1}
    assert shorten({"results": [full, "odd"]}) == {"results": [{k: v for k, v in full.items() if k != "score"}, None]}
    assert len(shorten({"results": [full] * (MAX_FOUND + 5)})["results"]) == MAX_FOUND
    assert shorten({}) == {}
    assert shorten({"results": []}) == {"results": []}
    assert shorten({"results": "none"}) == {"results": None}
    for body in (b"<html>", b"[]"):
        with pytest.raises(ToolError, match="Search answered with something"):
            shorten_search_answer(body, {"name": "Search"})


def test_a_header_keeps_to_its_limit_however_long_the_source_and_its_notes_are() -> None:
    source = PageSource("x" * 5_000, "https://example.org/", "Towns")
    shown = show_page(source, LONG, 1, None)
    header = str(shown)[: shown.excerpts[0].start - 2]
    assert "page 1 of 3" in header, "the source leaves room for it"
    noted = show_page(source, LONG, 1, None, ["n" * 5_000])
    assert noted.excerpts[0].start <= MAX_HEADER_CHARS and len(noted) <= MAX_PAGE_CHARS


def test_the_header_of_a_page_that_goes_on_and_of_a_search_that_goes_on() -> None:
    shown = show_page(SOURCE, LONG, 2, None)
    header, _, body = shown.partition("\n\n")
    assert header == (
        'Towns, https://example.org/; page 2 of 3; the rest: page=3, or search="some text" for matching lines alone'
    )
    (excerpt,) = shown.excerpts
    assert (excerpt.start, excerpt.end, shown[excerpt.start :]) == (len(header) + 2, len(shown), body)
    assert (shown.kind, shown.truncated, shown.is_temporary) == ("web_page", False, False)
    found = show_page(SOURCE, LONG, 1, "x").partition("\n\n")[0]
    assert found == "Towns, https://example.org/; lines that contain 'x': 5; page 1 of 3; the rest: page=2"


def test_titles_and_texts_of_results_are_cut_to_their_length() -> None:
    pages = [FoundPage("t" * 301, "https://a.example/", "x" * 2_001), FoundPage("t" * 300, "u", "x" * 2_000)]
    cut = show_found_pages("2", pages).split("\n")
    assert cut[2] == f"1. {'t' * 260}… (41 more characters)" and cut[4] == f"   {'x' * 1_960}… (41 more characters)"
    assert cut[5] == f"2. {'t' * 300}" and cut[7] == f"   {'x' * 2_000}"
    shown = show_found_pages("2", pages)
    assert shown.kind == "web_search"
    assert [(each.source, each.title) for each in shown.excerpts] == [
        ("https://a.example/", f"{'t' * 260}… (41 more characters)"), ("u", "t" * 300)
    ]  # fmt: skip


def test_a_result_is_described_for_the_process_that_waits_for_it() -> None:
    shown = show_page(SOURCE, PARTS, 1, "rome")
    assert describe_result(shown) == ({"text": str(shown), "facts": shown.describe()}, b"")
    assert clean_text("a\x00b\ud800c") == "a\ufffdb?c"


def test_a_page_is_shown_from_its_packed_form_wherever_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    async def record(task: str, packed: bytes, about: dict[str, Any]) -> Answer:
        asked.append((task, about))
        return run_task(task, packed, about)

    monkeypatch.setattr(page_view, "await_shown", record)
    document = Document("page", PARTS, ["note"]).pack()
    source = PageSource("Towns", SOURCE.url, "Towns")
    shown = asyncio.run(show_packed(source, document, 1, " rome "))
    assert shown == "Towns; lines that contain 'rome': 1; page 1 of 1\nnote\n\n> 1 | Rome\n  2 | Oslo"
    assert shown.excerpts[0].has_line_marks
    given = {"section": "early", "page": 1, "search": "", "notes": ["n"]}
    section = asyncio.run(show_wiki_page(source, pack(WIKI[:-1]), given))
    assert section == "Towns; page 1 of 1\nn\n\n## Early\na\n### Detail\nb"
    about = {"name": "The page", "source": ("Towns", SOURCE.url, "Towns"), "page": 1, "search": "rome"}
    assert asked == [
        (page_view.SHOW_DOCUMENT, about),
        (page_view.SHOW_WIKI_ROWS, {**given, "name": "Towns", "source": about["source"]}),
    ]
