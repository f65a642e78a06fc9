"""Reader of e-books: the chapters in reading order, by EPUB 3.3 (container.xml, the package file and its spine).

read(Source("book.epub", data)).parts[0].heading       # "[chapter 1 of 12]"
"""

import posixpath
from urllib.parse import unquote

from mas.tools.files.document import Document, Source, number_parts
from mas.tools.files.html_rows import read_rows
from mas.tools.files.readers import archive
from mas.tools.files.readers.text import decode_anything, find_declared_encoding
from mas.tools.files.zip_package import parse_xml
from mas.tools.results import ToolError


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
    text, _ = decode_anything(page, find_declared_encoding(page))
    return [row.text for row in read_rows(text)]
