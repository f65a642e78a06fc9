"""Readers of e-books, and of Word, PowerPoint and web pages by `unstructured`: paragraphs, lists, tables as rows.

The library contacts its makers' server at the start, and downloads a language model to distinguish sentences from
titles, which is not needed here: both are switched off before it is imported, and a blank model replaces that one.

    read_html(Source("a.html", b"<p>hello</p>")).parts[0].lines      # [Line(1, "hello")]
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from pptx.slide import Slide
    from spacy.language import Language
    from unstructured.documents.elements import Element

from mas.tools.files.document import Document, Part, Source, number_lines, number_parts
from mas.tools.files.html_rows import read_rows
from mas.tools.files.readers import archive
from mas.tools.files.readers.text import (
    build_text_document,
    decode,
    decode_anything,
    find_declared_encoding,
    format_row,
)
from mas.tools.files.zip_package import accept_changes, list_members, parse_xml, read_texts
from mas.tools.results import ToolError

_SILENT = {"DO_NOT_TRACK": "true", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}
_MARKS = {"ListItem": "- ", "Header": "[header] ", "Footer": "[footer] "}


def prepare() -> None:
    """Switch off connections of `unstructured`; call it before importing the library."""
    os.environ.update(_SILENT)
    from unstructured.nlp import tokenize

    tokenize._load_spacy_model = _blank_model


def _blank_model() -> "Language":
    import spacy

    model = spacy.blank("en")
    model.add_pipe("sentencizer")
    return model


def read_word(source: Source) -> Document:
    """Return paragraphs and table rows of a Word document."""
    members = list_members(source)
    prepare()
    from unstructured.partition.docx import partition_docx

    source = accept_changes(source)
    lines = list(_read_lines(partition_docx(file=source.open(), include_page_breaks=False)))
    for member, what in (
        ("word/comments.xml", "comment"),
        ("word/footnotes.xml", "footnote"),
        ("word/endnotes.xml", "endnote"),
    ):
        lines += [f"[{what}] {text}" for text in read_texts(source, member, "p")]
    lines += [f"[text box] {text}" for text in read_texts(source, "word/document.xml", "txbxContent")]
    parts = [Part(number_lines(lines))]
    return Document(
        f"Word document, {len(lines)} paragraphs and table rows", parts, _describe_pictures(members, "word/media/")
    )


def read_slides(source: Source) -> Document:
    """Return the slides of a presentation."""
    members = list_members(source)
    prepare()
    source = accept_changes(source)
    from pptx import Presentation
    from unstructured.partition.pptx import partition_pptx

    elements = partition_pptx(file=source.open(), include_slide_notes=False, include_page_breaks=False)
    by_slide = {
        number: list(_read_lines(found))
        for number, found in groupby(elements, key=lambda each: each.metadata.page_number or 1)
    }
    slides = Presentation(source.open()).slides
    texts = [[*by_slide.get(number, []), *_read_notes(slide)] for number, slide in enumerate(slides, start=1)]
    notes = _describe_pictures(members, "ppt/media/")
    return Document(f"presentation, {len(texts)} slides", number_parts("slide", texts), notes, "slide")


def _read_notes(slide: "Slide") -> list[str]:
    """Return the speaker's notes; `unstructured` mixes them with the slide's text."""
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    text = frame.text if frame is not None else ""
    return [f"[speaker note] {line}" for line in re.split(r"[\n\x0b]", text) if line.strip()]


def read_html(source: Source) -> Document:
    """Return the text of a web page."""
    text, encoding = decode(source.data, source.name, find_declared_encoding(source.data))
    if "<" not in text:
        return build_text_document(text, encoding)
    prepare()
    from unstructured.partition.html import partition_html

    lines = [*_read_title(text), *_read_lines(partition_html(text=text))]
    if not lines:
        return build_text_document(
            text, encoding, ["It holds no text outside its tags, so it is shown as it is written."]
        )
    parts = [Part(number_lines(lines))]
    return Document(f"web page without its tags, {encoding}, {len(lines)} lines", parts)


def read_book(source: Source) -> Document:
    """Return the chapters of an e-book in reading order, by EPUB 3.3: container.xml, the package file and its spine."""
    container = parse_xml(archive.read_member(source, "META-INF/container.xml").data)
    root = next((found.get("full-path") for found in container.iter("{*}rootfile")), None)
    if not root:
        raise ToolError(f"{source.name} is damaged: its container names no package file.")
    package = parse_xml(archive.read_member(source, root).data)
    files = {item.get("id"): item.get("href") or "" for item in package.iter("{*}item")}
    order = [files[ref.get("idref")] for ref in package.iter("{*}itemref") if ref.get("idref") in files]
    folder = posixpath.dirname(root)
    members = [posixpath.normpath(posixpath.join(folder, unquote(href))) for href in order]
    texts = [_read_chapter(archive.read_member(source, name).data) for name in members]
    titles = [found.text.strip() for found in package.iter("{http://purl.org/dc/elements/1.1/}title") if found.text]
    title = f' "{titles[0]}"' if titles else ""
    return Document(f"e-book{title}, {len(texts)} chapters", number_parts("chapter", texts), unit="chapter")


def _read_chapter(page: bytes) -> list[str]:
    text, _ = decode_anything(page, find_declared_encoding(page))
    return read_rows(text, "//title | //style | //script | //del")


def _read_title(text: str) -> list[str]:
    found = re.search(r"<title[^>]*>([^<]+)</title>", text[:100_000], re.IGNORECASE)
    return [f"[title] {' '.join(unescape(found[1]).split())}"] if found else []


def _describe_pictures(members: Iterable[str], folder: str) -> list[str]:
    count = sum(member.startswith(folder) for member in members)
    return [f"It also holds {count} pictures, which are not shown."] if count else []


def _read_lines(elements: "Iterable[Element]") -> Iterator[str]:
    for element in elements:
        kind, html = type(element).__name__, element.metadata.text_as_html
        if kind == "Table" and html:
            yield from _read_rows(html)
            continue
        links = _format_links(element)
        for line in re.split(r"\r\n|\r|\n|\x0b", str(element)):
            if line.strip():
                yield f"{_MARKS.get(kind, '')}{line}{links}"
                links = ""


def _format_links(element: "Element") -> str:
    urls = [url for url in element.metadata.link_urls or [] if url]
    return f" <{', '.join(dict.fromkeys(urls))}>" if urls else ""


def _read_rows(html: str) -> Iterator[str]:
    from lxml import html as parser  # type: ignore[import-untyped]

    for row in parser.fromstring(html).iter("tr"):
        yield format_row(" ".join(cell.text_content().split()) for cell in row.iter("td", "th"))
