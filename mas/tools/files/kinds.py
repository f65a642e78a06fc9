"""Which reader reads which kind of file. A new kind is one file beside this one and one line in READERS.

What a file is, its content decides where that has a signature, and otherwise its extension.

    read_document(Path("towns.csv")).summary      # "table with 2 columns and 12 rows below the column names, …"
"""

import functools
import importlib
import zipfile
from collections.abc import Callable
from pathlib import Path

from mas.tools.errors import ToolError
from mas.tools.files.document import Document

MAX_FILE_BYTES = 50 * 1024 * 1024

# Extension to "module:function(path) -> Document", imported at first use.
READERS = {
    ".csv": "mas.tools.files.delimited:read",
    ".tsv": "mas.tools.files.delimited:read",
    ".json": "mas.tools.files.json_document:read",
    ".jsonld": "mas.tools.files.json_document:read",
    ".geojson": "mas.tools.files.json_document:read",
    ".jsonl": "mas.tools.files.json_document:read_lines",
    ".ndjson": "mas.tools.files.json_document:read_lines",
    ".xlsx": "mas.tools.files.excel:read",
    ".xlsm": "mas.tools.files.excel:read",
}
TEXT_READER = "mas.tools.files.text:read"  # of everything that is neither above nor below

_OLD_OFFICE = "an old (or password-protected) Office file"
BINARY_KINDS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic"), "an image"),
    **dict.fromkeys((".mp3", ".wav", ".m4a", ".flac", ".ogg", ".aac"), "an audio file"),
    **dict.fromkeys((".mp4", ".mov", ".avi", ".mkv", ".webm"), "a video"),
    **dict.fromkeys((".zip", ".gz", ".bz2", ".xz", ".7z", ".rar", ".tar"), "an archive"),
    **dict.fromkeys((".doc", ".xls", ".ppt"), _OLD_OFFICE),
    **{".pdf": "a PDF document", ".docx": "a Word document", ".pptx": "a PowerPoint presentation"},
    **{".epub": "an e-book", ".odt": "an OpenDocument text", ".ods": "an OpenDocument spreadsheet"},
    **{".xlsb": "a binary Excel workbook", ".xlsx": "an Excel workbook", ".xlsm": "an Excel workbook"},
    **{".sqlite": "a database", ".db": "a database", ".parquet": "a Parquet table"},
}

# Offset, bytes, and the extensions that such a file may have; any other extension is wrong and the first is meant.
_SIGNATURES: tuple[tuple[int, bytes, tuple[str, ...]], ...] = (
    (0, b"PK\x03\x04", (".zip", ".xlsx", ".xlsm", ".xlsb", ".docx", ".pptx", ".epub", ".odt", ".ods")),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", (".doc", ".xls", ".ppt")),
    (0, b"%PDF-", (".pdf",)),
    (0, b"\x89PNG\r\n\x1a\n", (".png",)),
    (0, b"\xff\xd8\xff", (".jpg", ".jpeg")),
    (0, b"GIF87a", (".gif",)),
    (0, b"GIF89a", (".gif",)),
    (8, b"WEBPVP8", (".webp",)),
    (8, b"WAVEfmt ", (".wav",)),
    (0, b"ID3\x02", (".mp3",)),
    (0, b"ID3\x03", (".mp3",)),
    (0, b"ID3\x04", (".mp3",)),
    (4, b"ftyp", (".mp4", ".m4a", ".mov", ".heic")),
    (0, b"fLaC\x00", (".flac",)),
    (0, b"OggS\x00", (".ogg",)),
    (0, b"\x1f\x8b\x08", (".gz",)),
    (0, b"7z\xbc\xaf\x27\x1c", (".7z",)),
    (0, b"Rar!\x1a\x07", (".rar",)),
    (0, b"SQLite format 3\x00", (".sqlite", ".db")),
)
_OFFICE_MEMBERS = {"xl/workbook.xml": ".xlsx", "word/document.xml": ".docx", "ppt/presentation.xml": ".pptx"}


def read_document(path: Path) -> Document:
    """The file as text.

    Raises:
        ToolError: it is missing, too large, binary, damaged, or of a kind that has no reader.
    """
    if not path.is_file():
        raise ToolError(f"{path.name} is attached to the question but is not there any more; go on without it.")
    try:
        status = path.stat()
        if status.st_size > MAX_FILE_BYTES:
            raise ToolError(f"{path.name} has {status.st_size} bytes; read_file reads at most {MAX_FILE_BYTES}.")
        return _read(path, status.st_mtime_ns, status.st_size)
    except OSError as error:  # its own text would show the agent where on this machine the file lies
        raise ToolError(f"{path.name} cannot be read ({error.strerror}); go on without it.") from error


@functools.lru_cache(maxsize=4)
def _read(path: Path, _modified_ns: int, _bytes: int) -> Document:
    """Kept for the next page or search; time and size are there to notice that the file has changed."""
    kind = kind_of(path)
    if kind not in READERS and kind in BINARY_KINDS:
        raise ToolError(f"{path.name} is {BINARY_KINDS[kind]}; read_file reads {supported()}.")
    return _reader(READERS.get(kind, TEXT_READER))(path)


def supported() -> str:
    return f"{', '.join(READERS)} and any plain text (.txt, .md, .py, .xml, .html and others)"


def kind_of(path: Path) -> str:
    """The extension that fits the content; empty for a text that has the extension of something else."""
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        head = file.read(32)
    for offset, signature, family in _SIGNATURES:
        if head[offset:].startswith(signature):
            default = _office_kind(path) if family[0] == ".zip" else family[0]
            return suffix if suffix in family and suffix != ".zip" else default
    signed = {name for _, _, family in _SIGNATURES for name in family} - {".mp3"}  # most, but not all, have ID3
    return "" if suffix in signed else suffix


def _office_kind(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
    except zipfile.BadZipFile:
        return ".zip"
    return next((kind for member, kind in _OFFICE_MEMBERS.items() if member in members), ".zip")


def _reader(target: str) -> Callable[[Path], Document]:
    module, _, function = target.partition(":")
    reader: Callable[[Path], Document] = getattr(importlib.import_module(module), function)
    return reader
