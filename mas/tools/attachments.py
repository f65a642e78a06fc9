"""The files that belong to the question being answered.

A tool names a file by its bare name; only names in the question's own set resolve. A path of any kind (absolute,
`../`, a link, a NUL) is not such a name, so nothing else on the machine can be reached.

    with attached([Path("/data/sales.xlsx")]):
        resolve("sales.xlsx")      # Path("/data/sales.xlsx")
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_files: ContextVar[dict[str, Path] | None] = ContextVar("attached_files", default=None)


class AttachmentNotFoundError(Exception):
    """No file of this question has that name."""


@contextmanager
def use_attachments(files: Iterable[Path]) -> Iterator[None]:
    """Make `files` the only ones that tools can open, for this context and the tasks started in it."""
    token = _files.set({file.name: file for file in files})
    try:
        yield
    finally:
        _files.reset(token)


def find_attachment(name: str) -> Path:
    """The path behind a bare file name.

    Raises:
        AttachmentNotFoundError: the question has no such file; the message lists those it has.
    """
    files = _files.get() or {}
    if name not in files:
        known = ", ".join(sorted(files)) or "none: this question has no attachment"
        raise AttachmentNotFoundError(f"no attached file is named {name!r}; attached files: {known}")
    return files[name]


def list_attachments() -> dict[str, Path]:
    """All files of the question: bare name to path."""
    return dict(_files.get() or {})


def digest_attachments() -> list[tuple[str, str]]:
    """Bare name and SHA-256 of each file of the question, by name; one that cannot be read has an empty digest."""
    return [(name, _digest(path)) for name, path in sorted(list_attachments().items())]


def _digest(path: Path) -> str:
    try:
        found = path.stat()
        return _digest_of(path, found.st_mtime_ns, found.st_size)
    except OSError:
        return ""


@functools.lru_cache(maxsize=4096)
def _digest_of(path: Path, mtime_ns: int, size: int) -> str:
    """Read once as long as time and size stay as they are."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
