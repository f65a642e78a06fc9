"""Reader of zip archives: a list of the members, and one member at a time as a file. Nothing is written to disk.

An archive's names and sizes are claims of whoever made it. A member with a name that would lead out of a folder, a
link, a duplicate or an encrypted one is listed with the reason and not read. A bomb is refused by the sizes that it
claims, and no member is unpacked beyond its claim.

    read_member(Source("data.zip", data), "tables/x.csv")      # Source("data.zip: tables/x.csv", b"…")
    read_member(Source("data.zip", data), "old.zip/a.txt")     # of an archive in the archive
"""

import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.paging import clip
from mas.tools.files.readers.text import format_cell
from mas.tools.results import ToolError

MAX_MEMBERS = 2_000
MAX_UNPACKED_BYTES = 256 * 1024 * 1024  # of all members together, as claimed
MAX_MEMBER_BYTES = 50 * 1024 * 1024
MAX_RATIO = 200  # unpacked to packed, of members above RATIO_FREE_BYTES; text reaches 20, deflate at most 1032
RATIO_FREE_BYTES = 1024 * 1024
MAX_DEPTH = 3  # archives in archives

_ENCRYPTED = 0x1
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def read(source: Source) -> Document:
    """Return a list of the archive's members."""
    with _open(source) as archive:
        members = _list_files(archive)
        problems = _find_problems(archive)
    lines = [Line(number, _describe(info, problems)) for number, info in enumerate(members, start=1)]
    size = sum(info.file_size for info in members)
    notes = (
        ['read_file(…, member="name") reads one of them.'] if any(i.filename not in problems for i in members) else []
    )
    return Document(
        f"archive of {len(members)} files, {size} bytes unpacked",
        [Part(lines, heading="nr | member | bytes", numbered=True)],
        notes,
    )


def read_member(source: Source, name: str, depth: int = 1) -> Source:
    """Return a member of the archive; `inner.zip/name` is a member of an archive in it.

    Raises:
        ToolError: there is no such member, or it must not or cannot be read.
    """
    if depth > MAX_DEPTH:
        raise ToolError(f"{source.name} is an archive inside {MAX_DEPTH} others; read_file goes no deeper.")
    with _open(source) as archive:
        files = [info.filename for info in _list_files(archive)]
        if name in files:
            return Source(f"{source.name}: {name}", _read_content(archive, source, name))
        outer = next((file for file in files if name.startswith(f"{file}/")), None)
        if outer is None:
            known = clip(", ".join(map(repr, files)), 2_000) or "none"
            raise ToolError(f"{source.name} has no member {clip(repr(name), 200)}; its members: {known}.")
        inner = Source(f"{source.name}: {outer}", _read_content(archive, source, outer))
    return read_member(inner, name.removeprefix(f"{outer}/"), depth + 1)


@contextmanager
def _open(source: Source) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(source.open()) as archive:
            _refuse_bomb(archive, source.name)
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ToolError(f"{source.name} is a damaged or unusual archive ({type(error).__name__}).") from error


def _list_files(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return all members but folders; `ZipInfo.is_dir` fails on a member without a name."""
    return [info for info in archive.infolist() if not info.filename.endswith("/")]


def _refuse_bomb(archive: zipfile.ZipFile, name: str) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise ToolError(f"{name} has {len(members)} members; read_file opens archives of at most {MAX_MEMBERS}.")
    if (size := sum(info.file_size for info in members)) > MAX_UNPACKED_BYTES:
        raise ToolError(f"{name} unpacks to {size} bytes; read_file opens archives up to {MAX_UNPACKED_BYTES}.")
    for info in members:
        if info.file_size > max(RATIO_FREE_BYTES, MAX_RATIO * info.compress_size):
            raise ToolError(f"{name} holds a member that unpacks to over {MAX_RATIO} times its size; it is not opened.")


def _find_problems(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the reason for each member that is not read."""
    counts = Counter(info.filename for info in archive.infolist())
    found = {info.filename: _find_problem(info, counts[info.filename]) for info in archive.infolist()}
    return {name: problem for name, problem in found.items() if problem}


def _find_problem(info: zipfile.ZipInfo, count: int) -> str:
    written = info.orig_filename  # `filename` is cut at a NUL and has other slashes
    if not written:
        return "its name is empty"
    if written.startswith(("/", "\\")) or _DRIVE.match(written) or ".." in re.split(r"[/\\]", written):
        return "its name leads out of the archive"
    if "\\" in written or _CONTROL.search(written):
        return "its name has a backslash or a control character"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "it is a link or a device"
    if count > 1:
        return "its name is there more than once"
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    return f"it has over {MAX_MEMBER_BYTES} bytes" if info.file_size > MAX_MEMBER_BYTES else ""


def _describe(info: zipfile.ZipInfo, problems: dict[str, str]) -> str:
    name = format_cell(clip(_CONTROL.sub("?", info.filename), 300))
    reason = f" [not read: {problems[info.filename]}]" if info.filename in problems else ""
    return f"{name} | {info.file_size}{reason}"


def _read_content(archive: zipfile.ZipFile, source: Source, name: str) -> bytes:
    if problem := _find_problems(archive).get(name):
        raise ToolError(f"The member {clip(repr(name), 200)} of {source.name} is not read: {problem}.")
    return archive.read(name)  # stops at the size it claims, and compares the checksum
