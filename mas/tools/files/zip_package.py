"""Zip archives, and office files, which are zip files of XML: checks before a library opens them.

The libraries trust their input. They check neither the unpacked size of a package nor entities in its XML (no office
program writes any), which can expand to gigabytes or to a file of this machine.
"""

import re
import zipfile

from mas.tools.files.document import Document, Part, Source, clip, format_cell, number_lines
from mas.tools.results import ToolError

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_MEMBERS = 5_000
HOW_TO_READ = 'read_file(…, member="name") reads one of them, but no member of an archive among them.'
_ENCRYPTED = 0x1

_XML = (".xml", ".rels", ".vml")
_DECLARES = re.compile(rb"<\x00?!\x00?[Dd]\x00?[Oo]\x00?[Cc]\x00?[Tt]\x00?[Yy]|<\x00?!\x00?E\x00?N\x00?T\x00?I\x00?T")


def open_package(source: Source) -> zipfile.ZipFile:
    """Open a zip file, unless it is a bomb; no member is unpacked beyond the size that it claims."""
    package = zipfile.ZipFile(source.open())
    members = package.infolist()
    size = sum(member.file_size for member in members)
    if size > MAX_UNPACKED_BYTES or len(members) > MAX_MEMBERS:
        raise ToolError(
            f"{source.name} unpacks to {size} bytes in {len(members)} members; read_file opens up to "
            f"{MAX_UNPACKED_BYTES} and {MAX_MEMBERS}."
        )
    return package


def read_archive(source: Source) -> Document:
    with open_package(source) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
    lines = number_lines(f"{format_cell(clip(info.filename, 300))} | {info.file_size}" for info in members)
    summary = f"archive of {len(members)} files, {sum(info.file_size for info in members)} bytes unpacked"
    part = Part(lines, heading="nr | member | bytes", numbered=True)
    return Document(summary, [part], [HOW_TO_READ])


def read_member(source: Source, name: str) -> Source:
    """Return a member of the archive; ToolError: there is none of this name, or it is encrypted."""
    with open_package(source) as archive:
        files = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        if name not in files:
            known = clip(", ".join(map(repr, files)), 2_000) or "none"
            raise ToolError(f"{source.name} has no member {clip(repr(name), 200)}; its members: {known}.")
        if files[name].flag_bits & _ENCRYPTED:
            raise ToolError(f"The member {clip(repr(name), 200)} of {source.name} is not read: it is encrypted.")
        return Source(f"{source.name}: {name}", archive.read(name))


def list_members(source: Source) -> list[str]:
    """Return the names in an office file; raise ToolError if it is a bomb or declares entities."""
    with open_package(source) as package:
        for name in package.namelist():
            if name.lower().endswith(_XML) and _DECLARES.search(package.read(name)):
                raise ToolError(f"{source.name} declares entities in {name}; such a file is not read.")
        return package.namelist()
