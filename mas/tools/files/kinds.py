"""Readers by kind of file. A new kind needs a module in readers/ and a line in READERS.

The content decides the kind of a file if it has a signature, otherwise the extension does.

    document = read_document(Path("data.zip"), "tables/towns.csv")      # of a member; without a name: of the file
    document.summary                                                    # "table with 2 columns and 12 rows below …"
"""

import functools
import importlib
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mas.tools.files.document import Document, Source
from mas.tools.files.reader_pool import call_reader
from mas.tools.files.readers import converted
from mas.tools.files.zip_package import read_member
from mas.tools.results import ToolError

MAX_FILE_BYTES = 50 * 1024 * 1024
MAX_CACHED = 32  # documents, for the next page or search: two of each question of sixteen at once
NO_ARCHIVE = "It is no archive: `member` was left out."  # small models fill in every argument
READ = "mas.tools.files.kinds:read_source"

_HERE = "mas.tools.files.readers"
# Extension to "module:function(source) -> Document", imported at first use.
READERS = {
    **dict.fromkeys((".csv", ".tsv"), f"{_HERE}.text:read_table"),
    **dict.fromkeys((".json", ".jsonld", ".geojson"), f"{_HERE}.text:read_json"),
    **dict.fromkeys((".html", ".htm"), f"{_HERE}.office:read_html"),
    **dict.fromkeys((".xlsx", ".xlsm"), f"{_HERE}.excel:read"),
    ".docx": f"{_HERE}.office:read_word",
    ".pptx": f"{_HERE}.office:read_slides",
    ".pdf": f"{_HERE}.pdf:read",
    ".epub": f"{_HERE}.office:read_book",
    ".zip": "mas.tools.files.zip_package:read_archive",
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"), f"{_HERE}.media:read_picture"),
    **dict.fromkeys((".mp3", ".wav", ".m4a"), f"{_HERE}.media:read_sound"),
}
TEXT_READER = f"{_HERE}.text:read"  # of all kinds that are neither above nor below
READABLE = (*READERS, *converted.KINDS)

_REFUSED = {".ole": "is an old Office file of an unknown kind", ".protected": "is protected by a password"}

# Offset, bytes, and the extensions that such a file may have; any other is replaced by the first.
_SIGNATURES: tuple[tuple[int, bytes | tuple[bytes, ...], tuple[str, ...]], ...] = (
    (0, b"PK\x03\x04", (".zip", ".xlsx", ".xlsm", ".xlsb", ".docx", ".pptx", ".epub", ".odt", ".ods")),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", (".doc", ".xls", ".ppt")),
    (0, b"%PDF-", (".pdf",)),
    (0, (b"II*\x00", b"MM\x00*"), (".tif", ".tiff")),
    (0, b"\x89PNG\r\n\x1a\n", (".png",)),
    (0, b"\xff\xd8\xff", (".jpg", ".jpeg")),
    (0, (b"GIF87a", b"GIF89a"), (".gif",)),
    (8, b"WEBPVP8", (".webp",)),
    (8, b"WAVEfmt ", (".wav",)),
    (0, (b"ID3\x02", b"ID3\x03", b"ID3\x04", *(b"\xff%c" % kind for kind in b"\xe2\xe3\xf2\xf3\xfa\xfb")), (".mp3",)),
    (4, b"ftyp", (".mp4", ".m4a", ".mov", ".heic")),
    (0, b"{\\rtf", (".rtf",)),
)
_SIGNED = {extension for _, _, family in _SIGNATURES for extension in family}
_OFFICE_MEMBERS = {
    **{"xl/workbook.xml": ".xlsx", "word/document.xml": ".docx", "ppt/presentation.xml": ".pptx"},
    "META-INF/container.xml": ".epub",
}
_OLD_OFFICE_STREAMS = {  # names of streams, in utf-16 as the container's directory has them
    "EncryptedPackage": ".protected",
    "WordDocument": ".doc",
    "PowerPoint Document": ".ppt",
    "Workbook": ".xls",
    "Book": ".xls",
}


def read_document(path: Path, member: str | None = None) -> Document:
    """Return a file as text, or the member of that name of an archive.

    ToolError: it is missing, too large, binary, damaged, or of a kind that has no reader.
    """
    try:
        status = path.stat()
        if status.st_size > MAX_FILE_BYTES:
            raise ToolError(f"{path.name} has {status.st_size} bytes; read_file reads at most {MAX_FILE_BYTES}.")
        return _read_version(path, member, (status.st_mtime_ns, status.st_size))
    except OSError as error:  # its own text would show the agent the path on this machine
        raise ToolError(f"{path.name} cannot be read ({error.strerror}); go on without it.") from error


@functools.lru_cache(MAX_CACHED)
def _read_version(path: Path, member: str | None, _version: tuple[int, int]) -> Document:
    """Read a file; time and size are part of the cache key, so that a changed file is read again."""
    return Document.from_facts(call_reader(READ, path.read_bytes(), {"name": path.name, "member": member}))


def read_source(data: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do the task READ: return a file as text."""
    return read_in_process(Source(arguments["name"], data), arguments.get("member")).to_facts()


def read_in_process(source: Source, member: str | None = None) -> Document:
    kind, notes = detect_kind(source), list[str]()
    try:
        if member is not None and kind == ".zip":
            source = read_member(source, member)
            kind = detect_kind(source)
        elif member is not None:
            notes.append(NO_ARCHIVE)
        if kind in _REFUSED:
            raise ToolError(f"{source.name} {_REFUSED[kind]}; go on without it.")
        if target := converted.KINDS.get(kind):
            notes.append(f"LibreOffice has converted it from {kind} to {target}.")
            source, kind = replace(source, data=converted.save_as(source, kind, target)), target
        module, _, function = READERS.get(kind, TEXT_READER).partition(":")
        document: Document = getattr(importlib.import_module(module), function)(source).limit()
        return replace(document, notes=[*notes, *document.notes])
    except ToolError:
        raise
    except Exception as error:  # libraries raise anything for a damaged file
        reason = "it is damaged or unusual" if not isinstance(error, ImportError) else "its reader is not installed"
        raise ToolError(f"{source.name} cannot be read as {kind}: {reason} ({type(error).__name__}).") from error


def detect_kind(source: Source) -> str:
    """Return the extension that fits the content; empty: a text with another kind's extension."""
    data = source.data
    family = next((family for at, mark, family in _SIGNATURES if data[at : at + 32].startswith(mark)), None)
    if family is None:
        return "" if source.suffix in _SIGNED else source.suffix
    if family[0] == ".doc":
        return next((kind for name, kind in _OLD_OFFICE_STREAMS.items() if name.encode("utf-16-le") in data), ".ole")
    if source.suffix in family and source.suffix != ".zip":
        return source.suffix
    if family[0] == ".zip":
        with suppress(zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
            members = zipfile.ZipFile(source.open()).namelist()
            return next((kind for name, kind in _OFFICE_MEMBERS.items() if name in members), ".zip")
    return family[0]
