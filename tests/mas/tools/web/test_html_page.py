"""A page as the reader process hands it on: its characters, its main content, and what is said where it has none."""

from typing import Any

import pytest

from mas.tools.files.document import Document, Line
from mas.tools.results import ToolError
from mas.tools.web import html_page
from mas.tools.web.html_page import MIN_CHARS, NEEDS_BROWSER, read_html

E_ACUTE = "\N{LATIN SMALL LETTER E WITH ACUTE}"
ALONE = "main content alone; a search that finds nothing in it goes through the rest of the page, too"


def read(body: bytes | str, content_type: str = "text/html") -> tuple[dict[str, Any], Document]:
    body = body.encode() if isinstance(body, str) else body
    answer = read_html(body, {"url": "https://example.org/a", "content_type": content_type})
    return answer.facts, Document.unpack(answer.packed)


def lines(document: Document) -> list[list[Line]]:
    return [part.lines for part in document.parts]


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the library finds in any page."""
    found: dict[str, Any] = {"main": "", "title": "T", "date": "2024-05-01"}
    monkeypatch.setattr(html_page, "_extract_main", lambda html, url: (found["main"], found["title"], found["date"]))
    return found


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (f"<p>caf{E_ACUTE}</p>".encode(), "text/html"),
        (f"<p>caf{E_ACUTE}</p>".encode("utf-8-sig"), "text/html; charset=latin-1"),
        (b"\xff\xfe" + f"<p>caf{E_ACUTE}</p>".encode("utf-16-le"), "text/html; charset=latin-1"),
        (b"\xfe\xff" + f"<p>caf{E_ACUTE}</p>".encode("utf-16-be"), ""),
        (b"<p>caf\xe9</p>", "text/html; CHARSET='iso-8859-1'"),
        (b'<meta charset="windows-1252"><p>caf\xe9</p>', "text/html"),
        (b"<meta http-equiv=x content='text/html; charset=latin-1'><p>caf\xe9</p>", "text/html; charset=none-such"),
        (f"<p>caf{E_ACUTE}</p>".encode(), "text/html; charset=UTF-16"),
        (f"<p>caf{E_ACUTE}</p>".encode(), "text/html; charset=utf-32-le"),
    ],
)
def test_the_mark_goes_before_the_header_and_that_before_the_pages_own_word(body: bytes, content_type: str) -> None:
    assert [line.text for line in read(body, content_type)[1].parts[0].lines] == [f"caf{E_ACUTE}"]


def test_a_bad_byte_is_replaced_and_a_charset_far_down_is_not_looked_for() -> None:
    assert read(b"<p>caf\xe9!</p>", "text/html; charset=utf-8")[1].parts[0].lines[0].text == "caf\ufffd!"
    far = b"<p>a</p>" + b" " * 4_100 + b"<meta charset='rot13'>"
    assert read(far)[1].parts[0].lines[0].text == "a"
    with pytest.raises(ToolError) as refused:
        read(b"<p>a</p>", "text/html; charset=idna")
    assert str(refused.value) == (
        "The page says that its characters are in 'idna', which no page is written in; try another source."
    )


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ("<p> </p>", "The page has no text; try another source."),
        ("<SCRIPT>x</SCRIPT>", f"The page has no text: {NEEDS_BROWSER}."),
    ],
)
def test_a_page_without_text_says_what_to_do(html: str, said: str) -> None:
    with pytest.raises(ToolError) as refused:
        read(html)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("chars", "script", "notes"),
    [
        (MIN_CHARS - 1, "<script>x</script>", [NEEDS_BROWSER]),
        (MIN_CHARS - 1, "", []),
        (MIN_CHARS, "<script>x</script>", []),
    ],
)
def test_a_short_page_with_scripts_may_need_the_browser(
    chars: int, script: str, notes: list[str], extracted: dict[str, Any]
) -> None:
    facts, document = read(f"<p>{'x' * chars}</p>{script}")
    assert facts == {"title": "T", "date": "2024-05-01"}
    assert (document.notes, lines(document), document.whole) == (notes, [[Line(1, "x" * chars)]], [])


def test_a_main_content_that_is_long_enough_is_shown_and_the_whole_page_kept(extracted: dict[str, Any]) -> None:
    page = f"<p>{'m' * MIN_CHARS}</p><p>footer</p>"
    whole = [[Line(1, "m" * MIN_CHARS), Line(2, "footer")]]
    extracted["main"] = "m" * (MIN_CHARS - 1)
    _, document = read(page)
    assert (lines(document), document.whole, document.notes) == (whole, [], []), "too short to be trusted"
    extracted["main"] = "m" * (MIN_CHARS - 3) + " \n\nm"
    _, document = read(page)
    assert lines(document) == [[Line(1, "m" * (MIN_CHARS - 3)), Line(2, ""), Line(3, "m")]]
    assert ([part.lines for part in document.whole], document.notes) == (whole, [ALONE])


def test_a_main_content_that_is_all_of_a_page_is_not_called_a_part_of_it(extracted: dict[str, Any]) -> None:
    for main, notes in (("abcde", []), ("abcdef", []), ("abcd", None)):
        extracted["main"] = main
        _, document = read("<p>abcde</p>")
        if notes is None:
            assert lines(document) == [[Line(1, "abcde")]] and document.whole == []
        else:
            assert (lines(document), document.notes) == ([[Line(1, main)]], notes)
            assert [part.lines for part in document.whole] == [[Line(1, "abcde")]]


def test_an_article_has_its_title_date_links_and_marks() -> None:
    paragraphs = "".join(
        f"<p>Town number {n} has a <b>harbour</b> and <a href='/t{n}'>a market</a> on day {n}, since 18{n:02}.</p>"
        for n in range(20)
    )
    facts, document = read(
        "<html><head><title>Towns</title><meta name='date' content='2024-05-01'></head><body>"
        f"<nav><a href='/'>Home</a></nav><article><h1>Towns</h1>{paragraphs}</article><footer>Imprint</footer></body>"
    )
    assert facts == {"title": "Towns", "date": "2024-05-01"}
    shown = "\n".join(line.text for line in document.parts[0].lines)
    assert "**harbour**" in shown and "(https://example.org/t7)" in shown and "Imprint" not in shown
    assert "Imprint" in "\n".join(line.text for line in document.whole[0].lines)


def test_a_failure_of_the_library_leaves_the_text_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AttributeError

    monkeypatch.setattr("trafilatura.extract_metadata", fail)
    monkeypatch.setattr("trafilatura.extract", fail)
    facts, document = read("<title>T</title><p>Rome</p>")
    assert (facts, lines(document)) == ({"title": "", "date": ""}, [[Line(1, "Rome")]])


def test_the_library_is_asked_for_all_of_the_main_content_with_its_links_and_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr("trafilatura.extract_metadata", lambda html, **given: asked.append((html, given)))
    monkeypatch.setattr("trafilatura.extract", lambda html, **given: asked.append((html, given)))
    html = "<p>Rome</p>"
    facts, _ = read(html)
    assert facts == {"title": "", "date": ""}
    url = "https://example.org/a"
    wanted = {"output_format": "markdown", "include_links": True, "include_formatting": True, "favor_recall": True}
    assert asked == [(html, {"default_url": url}), (html, {"url": url, **wanted})]
