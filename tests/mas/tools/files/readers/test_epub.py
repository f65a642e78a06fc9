"""E-books: chapters by the spine, blocks as lines, and what is damaged."""

import pytest

from mas.tools.files.document import Document, Part, Source, number_lines
from mas.tools.files.readers import epub
from mas.tools.results import ToolError
from scripts.sample_data.office import zip_bytes

CONTAINER = (
    "<container xmlns='urn:c'><rootfiles><rootfile full-path='{0}'/><rootfile full-path='x'/></rootfiles></container>"
)
ITEMS = "<item id='a' href='text/a%20b.xhtml'/><item id='c' href='../c.xhtml'/><item id='d'/>"


def book(package: str, pages: dict[str, str], root: str = "OEBPS/book.opf") -> Document:
    files = {"META-INF/container.xml": CONTAINER.format(root), **pages}
    if root:
        files[root] = f"<package xmlns='urn:p' xmlns:dc='http://purl.org/dc/elements/1.1/'>{package}</package>"
    return epub.read(Source("a.epub", zip_bytes({name: text.encode() for name, text in files.items()})))


def chapter(html: str) -> list[str]:
    package = "<item id='a' href='a.xhtml'/><itemref idref='a'/>"
    (part,) = book(package, {"OEBPS/a.xhtml": html}).parts
    return [line.text for line in part.lines]


def test_chapters_follow_the_spine_by_addresses_that_start_at_the_package() -> None:
    pages = {"OEBPS/text/a b.xhtml": "<p>first</p>", "c.xhtml": "<p>second</p>"}
    package = (
        f"<dc:title> The book </dc:title><dc:title>Other</dc:title>{ITEMS}"
        "<itemref idref='c'/><itemref idref='none'/><itemref idref='a'/>"
    )
    document = book(package, pages)
    assert (document.summary, document.unit) == ('e-book "The book", 2 chapters', "chapter")
    assert document.parts == [
        Part(number_lines(["second"]), "1", "[chapter 1 of 2]"), Part(number_lines(["first"]), "2", "[chapter 2 of 2]")
    ]  # fmt: skip
    assert document.notes == []
    assert book(f"<dc:title/>{ITEMS}<itemref idref='a'/>", pages).summary == "e-book, 1 chapters"


def test_a_package_at_the_top_of_the_archive_is_found_too() -> None:
    package = "<item id='a' href='a.xhtml'/><itemref idref='a'/>"
    (part,) = book(package, {"a.xhtml": "<p>x</p>"}, "book.opf").parts
    assert [line.text for line in part.lines] == ["x"]


def test_a_container_without_a_package_is_damaged() -> None:
    with pytest.raises(ToolError) as refused:
        book("", {}, root="")
    assert str(refused.value) == "a.epub is damaged: its container names no package file."


def test_blocks_are_lines_and_what_nobody_sees_is_left_out() -> None:
    html = (
        "<html><head><title>t</title><style>s</style></head><body>zero<h1>One</h1>two <b>bold\nnext</b> tail"
        "<p>three<br/>four</p>five<ul><li>six</li><li>seven</li></ul><script>x</script>eight<!-- no -->nine"
        "<table><tr><th>a</th><td>b|c\n d</td></tr></table>after</body></html>"
    )
    assert chapter(html) == [
        *("zero", "One", "two bold next tail", "three", "four", "five", "six", "seven", "eightnine"),
        *("a | b\\|c d", "after"),
    ]


def test_a_page_without_anything_is_an_empty_chapter() -> None:
    assert chapter("  \n") == []
    assert chapter("<p> </p>") == []
    assert chapter("<p>caf\N{LATIN SMALL LETTER E WITH ACUTE}</p>") == ["caf\N{LATIN SMALL LETTER E WITH ACUTE}"]
