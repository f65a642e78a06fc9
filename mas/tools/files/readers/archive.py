"""Reader of zip archives: a list of the members, and one member at a time as a file. Nothing is written to disk.

read_member(Source("data.zip", data), "tables/x.csv")      # Source("data.zip: tables/x.csv", b"…")
read_member(Source("data.zip", data), "old.zip/a.txt")     # of an archive in the archive
"""

import zipfile

from mas.tools.files.document import Document, Part, Source, number_lines
from mas.tools.files.paging import clip
from mas.tools.files.readers.text import format_cell
from mas.tools.files.zip_package import open_package
from mas.tools.results import ToolError

MAX_DEPTH = 3  # archives in archives
_ENCRYPTED = 0x1


def read(source: Source) -> Document:
    """Return a list of the archive's members."""
    with open_package(source) as archive:
        members = _list_files(archive)
    lines = number_lines(f"{format_cell(clip(info.filename, 300))} | {info.file_size}" for info in members)
    size = sum(info.file_size for info in members)
    return Document(
        f"archive of {len(members)} files, {size} bytes unpacked",
        [Part(lines, heading="nr | member | bytes", numbered=True)],
        ['read_file(…, member="name") reads one of them.'] if members else [],
    )


def read_member(source: Source, name: str, depth: int = 1) -> Source:
    """Return a member of the archive; `inner.zip/name` is a member of an archive in it.

    Raises:
        ToolError: there is no such member, or it cannot be read.
    """
    if depth > MAX_DEPTH:
        raise ToolError(f"{source.name} is an archive inside {MAX_DEPTH} others; read_file goes no deeper.")
    with open_package(source) as archive:
        members = _list_files(archive)
        files = {info.filename: info for info in members}
        outer = name if name in files else next((file for file in files if name.startswith(f"{file}/")), None)
        if outer is None:
            known = clip(", ".join(map(repr, files)), 2_000) or "none"
            raise ToolError(f"{source.name} has no member {clip(repr(name), 200)}; its members: {known}.")
        is_double = sum(info.filename == outer for info in members) > 1
        if is_double or files[outer].flag_bits & _ENCRYPTED:
            why = "its name is there more than once" if is_double else "it is encrypted"
            raise ToolError(f"The member {clip(repr(outer), 200)} of {source.name} is not read: {why}.")
        found = Source(f"{source.name}: {outer}", archive.read(outer))
    return found if outer == name else read_member(found, name.removeprefix(f"{outer}/"), depth + 1)


def _list_files(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return all members but folders; `ZipInfo.is_dir` fails on a member without a name."""
    return [info for info in archive.infolist() if not info.filename.endswith("/")]
