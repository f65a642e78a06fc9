"""Reader of XML: with its tags, as written; indented if it is one long line. Declarations are not followed.

read(Source("a.xml", b"<a>…</a>")).parts[0].lines[1]     # Line(2, "  <town>Rome</town>")
"""

import re
from dataclasses import replace

from mas.tools.files.document import Document, Source
from mas.tools.files.readers.text import build_text_document, decode, find_declared_encoding
from mas.tools.files.zip_package import parse_xml

LONG_LINE_CHARS = 1_000


def read(source: Source) -> Document:
    """Return the lines of an XML file."""
    text, encoding = decode(source.data, source.name, find_declared_encoding(source.data))
    notes = []
    if re.search("<!DOCTYPE|<!ENTITY", text, re.IGNORECASE):
        notes.append("It declares a document type or entities; references to them are shown, not followed.")
    elif max(map(len, text.split("\n"))) > LONG_LINE_CHARS:
        text, notes = _indent(source.data, text)
    document = build_text_document(text, encoding, notes)
    return replace(document, summary=f"XML, {document.summary.removeprefix('text, ')}")


def _indent(data: bytes, text: str) -> tuple[str, list[str]]:
    from lxml import etree  # type: ignore[import-untyped]

    try:
        root = parse_xml(data)
    except (etree.XMLSyntaxError, ValueError) as error:
        return text, [f"It is no well-formed XML ({type(error).__name__}), so it is shown as it is written."]
    etree.indent(root)
    return etree.tostring(root, encoding="unicode"), ["It is shown with line ends between its elements."]
