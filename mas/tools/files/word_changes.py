"""Word documents as they read once all tracked changes are accepted.

`python-docx`, and so `unstructured`, passes over the text of tracked insertions and moves, of content controls, of
simple fields and of equations. Here such text becomes text of the paragraph around it, and deleted text goes.

    accept_changes(Source("order.docx", data))      # "Send ~~40~~ 55 crates." is read as "Send 55 crates."
"""

import io
import re
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

from mas.tools.files.document import Source
from mas.tools.files.zip_package import parse_xml

if TYPE_CHECKING:
    from lxml.etree import _Element  # type: ignore[import-untyped]

_TEXTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_UNWRAPPED = [f"{_WORD}{name}" for name in ("ins", "moveTo", "sdt", "sdtContent", "fldSimple", "smartTag", "customXml")]
_REMOVED = [f"{_WORD}{name}" for name in ("del", "moveFrom", "sdtPr", "sdtEndPr", "customXmlPr")]
_CHANGED = re.compile(rb"<w:(?:ins|del|moveTo|moveFrom|sdt|fldSimple|smartTag|customXml)\b|<m:oMath\b")


def accept_changes(source: Source) -> Source:
    """Return the document with the text of changes, controls, fields and equations in its paragraphs."""
    with zipfile.ZipFile(source.open()) as package:
        contents = {name: package.read(name) for name in package.namelist()}
    changed = {name: data for name, data in contents.items() if _TEXTS.fullmatch(name) and _CHANGED.search(data)}
    if not changed:
        return source
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in contents.items():
            package.writestr(name, _accept(data) if name in changed else data)
    return replace(source, data=made.getvalue())


def _accept(xml: bytes) -> bytes:
    from lxml import etree  # type: ignore[import-untyped]

    root = parse_xml(xml)
    for element in list(root.iter(*_REMOVED)):
        _replace(element, [])
    for equation in list(root.iter(f"{_MATH}oMath")):
        run = etree.Element(f"{_WORD}r")
        etree.SubElement(run, f"{_WORD}t").text = "".join(each.text or "" for each in equation.iter(f"{_MATH}t"))
        _replace(equation, [run])
    for element in list(root.iter(*_UNWRAPPED)):
        _replace(element, list(element))
    text: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    return text


def _replace(element: "_Element", by: "list[_Element]") -> None:
    parent = element.getparent()
    if parent is None:
        return
    place = parent.index(element)
    parent.remove(element)
    for offset, child in enumerate(by):
        parent.insert(place + offset, child)
