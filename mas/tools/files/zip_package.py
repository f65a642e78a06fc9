"""Zip archives, and office files, which are zip files of XML: checks before a library opens them.

The libraries trust their input. They check neither the unpacked size of a package nor entities in its XML (no office
program writes any), which can expand to gigabytes or to a file of this machine.
"""

import io
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mas.tools.files.document import Document, Part, Source, clip, format_cell, number_lines
from mas.tools.results import ToolError

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_MEMBERS = 5_000
_ENCRYPTED = 0x1

_XML = (".xml", ".rels", ".vml")
_DECLARES = re.compile(rb"<\x00?!\x00?[Dd]\x00?[Oo]\x00?[Cc]\x00?[Tt]\x00?[Yy]|<\x00?!\x00?E\x00?N\x00?T\x00?I\x00?T")

_TEXTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml|ppt/slides/slide\d+\.xml")
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SLIDE = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_CHOICE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_UNWRAPPED = [
    *(f"{_WORD}{name}" for name in ("ins", "moveTo", "sdt", "sdtContent", "fldSimple", "smartTag", "customXml")),
    *(f"{_WORD}{name}" for name in ("dir", "bdo")),
    f"{_MATH}oMathPara",
    "{http://schemas.microsoft.com/office/drawing/2010/main}m",
]
_REMOVED = [f"{_WORD}{name}" for name in ("del", "moveFrom", "sdtPr", "sdtEndPr", "customXmlPr", "rt", "rubyPr")]
_EQUATION_FORMS = {  # element → its operands in one line of text
    "f": "{num}/{den}",
    "sSup": "{e}^{sup}",
    "sSub": "{e}_{sub}",
    "sSubSup": "{e}_{sub}^{sup}",
    "rad": "{deg}√{e}",
    "nary": "{chr}_{sub}^{sup} {e}",
    "func": "{fName} {e}",
}


@contextmanager
def open_package(source: Source) -> Iterator[zipfile.ZipFile]:
    """Open a zip file, unless it is damaged or a bomb; no member is unpacked beyond the size that it claims."""
    try:
        with zipfile.ZipFile(source.open()) as package:
            members = package.infolist()
            size = sum(member.file_size for member in members)
            if size > MAX_UNPACKED_BYTES or len(members) > MAX_MEMBERS:
                raise ToolError(
                    f"{source.name} unpacks to {size} bytes in {len(members)} members; read_file opens up to "
                    f"{MAX_UNPACKED_BYTES} and {MAX_MEMBERS}."
                )
            yield package
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ToolError(f"{source.name} is damaged or unusual ({type(error).__name__}); it cannot be read.") from error


def read_archive(source: Source) -> Document:
    with open_package(source) as archive:
        members = [info for info in archive.infolist() if not info.filename.endswith("/")]  # no folders
    lines = number_lines(f"{format_cell(clip(info.filename, 300))} | {info.file_size}" for info in members)
    size = sum(info.file_size for info in members)
    note = 'read_file(…, member="name") reads one of them.'
    if source.is_member:
        note = "read_file reads none of them, since this archive is itself a member of one."
    return Document(
        f"archive of {len(members)} files, {size} bytes unpacked",
        [Part(lines, heading="nr | member | bytes", numbered=True)],
        [note] if members else [],
    )


def read_member(source: Source, name: str) -> Source:
    """Return a member of the archive; raise ToolError if there is none of this name or it is encrypted."""
    with open_package(source) as archive:
        files = {info.filename: info for info in archive.infolist() if not info.filename.endswith("/")}
        if name not in files:
            known = clip(", ".join(map(repr, files)), 2_000) or "none"
            raise ToolError(f"{source.name} has no member {clip(repr(name), 200)}; its members: {known}.")
        if files[name].flag_bits & _ENCRYPTED:
            raise ToolError(f"The member {clip(repr(name), 200)} of {source.name} is not read: it is encrypted.")
        return Source(f"{source.name}: {name}", archive.read(name), is_member=True)


def list_members(source: Source) -> list[str]:
    """Return the names in an office file; raise ToolError if it is damaged, a bomb, or declares entities."""
    with open_package(source) as package:
        for name in package.namelist():
            if name.lower().endswith(_XML) and _DECLARES.search(package.read(name)):
                raise ToolError(f"{source.name} declares entities in {name}; such a file is not read.")
        return package.namelist()


def read_texts(source: Source, member: str, holder: str) -> list[str]:
    """Return the text of each element `holder` (without its namespace) of an XML member, if the package has it."""
    with zipfile.ZipFile(source.open()) as archive:
        if member not in archive.namelist():
            return []
        root = parse_xml(archive.read(member))
    found = ["".join(e.itertext("{*}t")) for e in root.iter(f"{{*}}{holder}")]
    return [text for text in found if text.strip()]


def parse_xml(xml: bytes) -> Any:
    """Return the root element; no file is loaded and no entity is replaced."""
    from lxml import etree  # type: ignore[import-untyped]

    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True))


def accept_changes(source: Source) -> Source:
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

    root = parse_xml(xml)
    kind = _SLIDE if root.tag.endswith("}sld") else _WORD
    for element in list(root.iter(f"{_CHOICE}AlternateContent")) if kind == _SLIDE else ():
        _replace(element, list(element[0]) if len(element) else [])
    for element in list(root.iter(*_REMOVED)):
        _replace(element, [])
    for equation in list(root.iter(f"{_MATH}oMath")):
        run = etree.Element(f"{kind}r")
        etree.SubElement(run, f"{kind}t").text = _write_equation(equation)
        _replace(equation, [run])
    for ruby in list(root.iter(f"{_WORD}ruby")):
        # A run in a run is not looked for, so the content of the base's runs goes into the run around the ruby.
        _replace(ruby, [child for run in ruby.iter(f"{_WORD}r") for child in run if child.tag != f"{_WORD}rPr"])
    for element in list(root.iter(*_UNWRAPPED)):
        _replace(element, list(element))
    text: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    return text


def _replace(element: Any, by: list[Any]) -> None:
    if (parent := element.getparent()) is not None:
        place = parent.index(element)
        parent[place : place + 1] = by


def _write_equation(element: Any) -> str:
    """Return an equation in one line: a fraction as `(a+b)/c`, a power as `x^2`."""
    if element.tag == f"{_MATH}t":
        return element.text or ""
    kind = element.tag.removeprefix(_MATH)
    signs = {
        each.tag.removeprefix(_MATH): each.get(f"{_MATH}val") or "" for each in element.iterfind(f"{_MATH}{kind}Pr/*")
    }
    parts = [(child.tag.removeprefix(_MATH), _write_equation(child)) for child in element.iterchildren(f"{_MATH}*")]
    if kind == "d":
        return signs.get("begChr", "(") + ", ".join(text for _, text in parts if text) + signs.get("endChr", ")")
    if kind not in _EQUATION_FORMS:
        return "".join(text for _, text in parts)
    operands = {name: text if text.isalnum() or not text else f"({text})" for name, text in parts}
    return _EQUATION_FORMS[kind].format_map(defaultdict(str, {"chr": signs.get("chr", "∫"), **operands}))
