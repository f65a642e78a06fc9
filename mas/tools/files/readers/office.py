"""Readers of web pages, e-books, Word and PowerPoint (by `unstructured`): paragraphs, lists, tables.

The library contacts its makers' server at the start, and downloads a language model to distinguish sentences from
titles, which is not needed here: both are switched off before it is imported, and a blank model replaces that one.
"""

import io
import os
import posixpath
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import unescape
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from unstructured.documents.elements import Element

from mas.tools.files.document import Document, Part, Source, format_row, number_lines, number_parts
from mas.tools.files.html_rows import IN_FILES, read_rows
from mas.tools.files.readers.text import build_text_document, decode, decode_anything, find_declared_encoding
from mas.tools.files.zip_package import list_members, read_member

_SILENT = {"DO_NOT_TRACK": "true", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}
_MARKS = {"ListItem": "- ", "Header": "[header] ", "Footer": "[footer] "}
_PASSED_OVER = {"comments": "comment", "footnotes": "footnote", "endnotes": "endnote", "document": "txbxContent"}
_TEXTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml|ppt/slides/slide\d+\.xml")
_REMOVED = ("del", "moveFrom", "sdtPr", "sdtEndPr", "customXmlPr", "rt", "rubyPr", "Fallback")
_UNWRAPPED = (
    *("ins", "moveTo", "sdt", "sdtContent", "fldSimple", "smartTag", "customXml", "dir", "bdo", "ruby"),
    *("oMathPara", "AlternateContent", "Choice"),
)
_EQUATION_IN_SLIDE = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_EQUATION_FORMS = {  # element → its operands in one line of text
    "f": "{num}/{den}",
    "sSup": "{e}^{sup}",
    "sSub": "{e}_{sub}",
    "sSubSup": "{e}_{sub}^{sup}",
    "rad": "{deg}√{e}",
    "nary": "{chr}_{sub}^{sup} {e}",
    "func": "{fName} {e}",
}


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

    source = _accept_changes(source)
    lines = list(_read_lines(partition_docx(file=source.open(), include_page_breaks=False)))
    for part, holder in _PASSED_OVER.items():
        if (name := f"word/{part}.xml") in members:
            found = _parse_xml(read_member(source, name).data).iter(f"{{*}}{holder}")
            texts = (" ".join("".join(each.itertext("{*}t")) for each in note.iter("{*}p")) for note in found)
            mark = "text box" if part == "document" else holder
            lines += [f"[{mark}] {text}" for text in texts if text.strip()]
    summary = f"Word document, {len(lines)} paragraphs and table rows"
    return Document(summary, [Part(number_lines(lines))], _count_pictures(members, "word/media/"))


def read_slides(source: Source) -> Document:
    """Return the slides, each with its speaker's notes, which `unstructured` mixes with its text."""
    members = list_members(source)
    _prepare()
    source = _accept_changes(source)
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
    """Return the chapters of an e-book in reading order (EPUB 3.3: container, package, spine)."""
    container = _parse_xml(read_member(source, "META-INF/container.xml").data)
    root = next(found.get("full-path") for found in container.iter("{*}rootfile"))
    package = _parse_xml(read_member(source, root).data)
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


def _parse_xml(xml: bytes) -> Any:
    """Return the root element; no file is loaded and no entity is replaced."""
    from lxml import etree

    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True))


def _accept_changes(source: Source) -> Source:
    """Return a Word document or presentation with all of its text where the libraries look for it.

    `python-docx`, and so `unstructured`, passes over the text of tracked insertions and moves, of content controls, of
    simple fields, of ruby and of equations; `python-pptx` over shapes with an equation. Here such text becomes text of
    the paragraph around it, and deleted text goes: of ~~40~~ 55 crates 55 are left.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(source.open()) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(name, _accept(old.read(name)) if _TEXTS.fullmatch(name) else old.read(name))
    return replace(source, data=made.getvalue())


def _accept(xml: bytes) -> bytes:
    from lxml import etree

    root = _parse_xml(xml)
    etree.strip_elements(root, *(f"{{*}}{name}" for name in _REMOVED), with_tail=False)
    for ruby in list(root.iter("{*}ruby")):
        etree.strip_tags(ruby, "{*}r", "{*}rubyBase")  # a run in a run is not looked for
    etree.strip_tags(root, _EQUATION_IN_SLIDE, *(f"{{*}}{name}" for name in _UNWRAPPED))
    for equation in list(root.iter(f"{_MATH}oMath")):
        text, namespace = _write_equation(equation), etree.QName(equation.getparent()).namespace
        equation.clear()
        equation.tag = f"{{{namespace}}}r"
        etree.SubElement(equation, f"{{{namespace}}}t").text = text
    accepted: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    return accepted


def _write_equation(element: Any) -> str:
    """Return an equation in one line: a fraction as `(a+b)/c`, a power as `x^2`."""
    if element.tag == f"{_MATH}t":
        return element.text or ""
    kind = element.tag.removeprefix(_MATH)
    settings = element.iterfind(f"{_MATH}{kind}Pr/*")
    signs = {setting.tag.removeprefix(_MATH): setting.get(f"{_MATH}val") or "" for setting in settings}
    parts = [(child.tag.removeprefix(_MATH), _write_equation(child)) for child in element.iterchildren(f"{_MATH}*")]
    if kind == "d":
        return signs.get("begChr", "(") + ", ".join(text for _, text in parts if text) + signs.get("endChr", ")")
    if kind not in _EQUATION_FORMS:
        return "".join(text for _, text in parts)
    operands = {name: text if text.isalnum() or not text else f"({text})" for name, text in parts}
    return _EQUATION_FORMS[kind].format_map(defaultdict(str, {"chr": signs.get("chr", "∫"), **operands}))
