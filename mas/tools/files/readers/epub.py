"""Reader of e-books: the chapters in reading order, by EPUB 3.3 (container.xml, the package file and its spine).

read(Source("book.epub", data)).parts[0].heading       # "[chapter 1 of 12]"
"""

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mas.tools.files.document import Document, Source, number_parts
from mas.tools.files.readers import archive
from mas.tools.files.readers.text import format_row
from mas.tools.files.zip_package import parse_xml
from mas.tools.results import ToolError

if TYPE_CHECKING:
    from lxml.html import HtmlElement  # type: ignore[import-untyped]

_BLOCKS = frozenset(
    ("p", "div", "section", "article", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ul", "ol", "tr", "table")
)
_BLOCKS |= frozenset(("blockquote", "pre", "figure", "br", "hr", "body", "dt", "dd"))
_UNSEEN = frozenset(("script", "style", "head", "title"))
_CELLS = ("td", "th")


def read(source: Source) -> Document:
    """Return the chapters of an e-book."""
    container = parse_xml(archive.read_member(source, "META-INF/container.xml").data)
    root = next((found.get("full-path") for found in container.iter("{*}rootfile")), None)
    if not root:
        raise ToolError(f"{source.name} is damaged: its container names no package file.")
    package = parse_xml(archive.read_member(source, root).data)
    files = {item.get("id"): item.get("href") or "" for item in package.iter("{*}item")}
    order = [files[ref.get("idref")] for ref in package.iter("{*}itemref") if ref.get("idref") in files]
    folder = posixpath.dirname(root)
    members = [posixpath.normpath(posixpath.join(folder, unquote(href))) for href in order]
    texts = [_read_lines(archive.read_member(source, name).data) for name in members]
    titles = [found.text.strip() for found in package.iter("{http://purl.org/dc/elements/1.1/}title") if found.text]
    title = f' "{titles[0]}"' if titles else ""
    return Document(f"e-book{title}, {len(texts)} chapters", number_parts("chapter", texts), unit="chapter")


def _read_lines(page: bytes) -> list[str]:
    from lxml import html  # type: ignore[import-untyped]

    if not page.strip():
        return []
    root = html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8", no_network=True))
    text = "".join(_read_pieces(root))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return [line for line in lines if line]


def _read_pieces(element: "HtmlElement") -> Iterator[str]:
    if not isinstance(element.tag, str) or element.tag in _UNSEEN:
        yield element.tail or ""
        return
    block = element.tag in _BLOCKS
    if element.tag == "tr":
        cells = (" ".join(cell.text_content().split()) for cell in element.iterchildren(*_CELLS))
        yield f"\n{format_row(cells)}\n{element.tail or ''}"
        return
    yield ("\n" if block else "") + " ".join((element.text or "").split("\n"))
    for child in element:
        yield from _read_pieces(child)
    yield ("\n" if block else "") + " ".join((element.tail or "").split("\n"))
