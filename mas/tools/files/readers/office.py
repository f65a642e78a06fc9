"""Readers of web pages and e-books, and of Word and PowerPoint by `unstructured`: paragraphs, lists, tables as rows.

The library contacts its makers' server at the start, and downloads a language model to distinguish sentences from
titles, which is not needed here: both are switched off before it is imported, and a blank model replaces that one.
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
    from unstructured.documents.elements import Element

from mas.tools.files.document import Document, Part, Source, format_row, number_lines, number_parts
from mas.tools.files.html_rows import IN_FILES, read_rows
from mas.tools.files.readers.text import build_text_document, decode, decode_anything, find_declared_encoding
from mas.tools.files.zip_package import accept_changes, list_members, parse_xml, read_member, read_texts

_SILENT = {"DO_NOT_TRACK": "true", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}
_MARKS = {"ListItem": "- ", "Header": "[header] ", "Footer": "[footer] "}


def _prepare() -> None:
    """Switch off connections of `unstructured`; call it before importing the library."""
    os.environ.update(_SILENT)
    import spacy
    from unstructured.nlp import tokenize

    model = spacy.blank("en")
    model.add_pipe("sentencizer")
    tokenize._load_spacy_model = lambda: model


def read_word(source: Source) -> Document:
    members = list_members(source)
    _prepare()
    from unstructured.partition.docx import partition_docx

    source = accept_changes(source)
    lines = list(_read_lines(partition_docx(file=source.open(), include_page_breaks=False)))
    for what in ("comment", "footnote", "endnote"):
        lines += [f"[{what}] {text}" for text in read_texts(source, f"word/{what}s.xml", "p")]
    lines += [f"[text box] {text}" for text in read_texts(source, "word/document.xml", "txbxContent")]
    summary = f"Word document, {len(lines)} paragraphs and table rows"
    return Document(summary, [Part(number_lines(lines))], _count_pictures(members, "word/media/"))


def read_slides(source: Source) -> Document:
    """Return the slides of a presentation, each with its speaker's notes, which `unstructured` mixes with its text."""
    members = list_members(source)
    _prepare()
    source = accept_changes(source)
    from pptx import Presentation
    from unstructured.partition.pptx import partition_pptx

    elements = partition_pptx(file=source.open(), include_slide_notes=False, include_page_breaks=False)
    by_slide = groupby(elements, key=lambda element: element.metadata.page_number or 1)
    lines = {number: list(_read_lines(found)) for number, found in by_slide}
    texts = []
    for number, slide in enumerate(Presentation(source.open()).slides, start=1):
        frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        notes = re.split(r"[\n\x0b]", frame.text if frame is not None else "")
        texts.append([*lines.get(number, []), *(f"[speaker note] {line}" for line in notes if line.strip())])
    pictures = _count_pictures(members, "ppt/media/")
    return Document(f"presentation, {len(texts)} slides", number_parts("slide", texts), pictures, "slide")


def read_html(source: Source) -> Document:
    """Return the text of a web page; one without text outside its tags as it is written."""
    text, encoding = decode(source.data, source.name, find_declared_encoding(source.data))
    title = re.search(r"<title[^>]*>([^<]+)</title>", text[:100_000], re.IGNORECASE)
    lines = [f"[title] {' '.join(unescape(title[1]).split())}"] if title else []
    lines += read_rows(text, IN_FILES, ".//a[@href] | .//img[@alt != '']") if "<" in text else []
    if not lines:
        return build_text_document(text, encoding)
    return Document(f"web page without its tags, {encoding}, {len(lines)} lines", [Part(number_lines(lines))])


def read_book(source: Source) -> Document:
    """Return the chapters of an e-book in reading order, by EPUB 3.3: container.xml, the package file and its spine."""
    container = parse_xml(read_member(source, "META-INF/container.xml").data)
    root = next(found.get("full-path") for found in container.iter("{*}rootfile"))
    package = parse_xml(read_member(source, root).data)
    files = {item.get("id"): item.get("href") or "" for item in package.iter("{*}item")}
    order = [files[ref.get("idref")] for ref in package.iter("{*}itemref") if ref.get("idref") in files]
    texts = []
    for href in order:
        page = read_member(source, posixpath.normpath(posixpath.join(posixpath.dirname(root), unquote(href))))
        text, _ = decode_anything(page.data, find_declared_encoding(page.data))
        texts.append(read_rows(text, IN_FILES))
    titles = [found.text.strip() for found in package.iter("{http://purl.org/dc/elements/1.1/}title") if found.text]
    title = f' "{titles[0]}"' if titles else ""
    return Document(f"e-book{title}, {len(texts)} chapters", number_parts("chapter", texts), unit="chapter")


def _count_pictures(members: Iterable[str], folder: str) -> list[str]:
    count = sum(member.startswith(folder) for member in members)
    return [f"It also holds {count} pictures, which are not shown."] if count else []


def _read_lines(elements: "Iterable[Element]") -> Iterator[str]:
    for element in elements:
        kind, html = type(element).__name__, element.metadata.text_as_html
        if kind == "Table" and html:
            yield from _read_rows(html)
            continue
        urls = dict.fromkeys(url for url in element.metadata.link_urls or [] if url)
        links = f" <{', '.join(urls)}>" if urls else ""
        for line in re.split(r"\r\n|\r|\n|\x0b", str(element)):
            if line.strip():
                yield f"{_MARKS.get(kind, '')}{line}{links}"
                links = ""


def _read_rows(html: str) -> Iterator[str]:
    from lxml import html as parser  # type: ignore[import-untyped]

    for row in parser.fromstring(html).iter("tr"):
        yield format_row(" ".join(cell.text_content().split()) for cell in row.iter("td", "th"))
