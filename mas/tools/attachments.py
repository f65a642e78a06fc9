"""The files that belong to the question being answered.

A tool names a file by its bare name; only names in the question's own set resolve. A path of any kind (absolute,
`../`, a link, a NUL) is not such a name, so nothing else on the machine can be reached.

    with attached([Path("/data/sales.xlsx")]):
        resolve("sales.xlsx")      # Path("/data/sales.xlsx")
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_files: ContextVar[dict[str, Path] | None] = ContextVar("attached_files", default=None)


class AttachmentNotFoundError(Exception):
    """No file of this question has that name."""


@contextmanager
def attached(files: Iterable[Path]) -> Iterator[None]:
    """Make `files` the only ones that tools can open, for this context and the tasks started in it."""
    token = _files.set({file.name: file for file in files})
    try:
        yield
    finally:
        _files.reset(token)


def resolve(name: str) -> Path:
    """The path behind a bare file name.

    Raises:
        AttachmentNotFoundError: the question has no such file; the message lists those it has.
    """
    files = _files.get() or {}
    if name not in files:
        known = ", ".join(sorted(files)) or "none: this question has no attachment"
        raise AttachmentNotFoundError(f"no attached file is named {name!r}; attached files: {known}")
    return files[name]


def attached_files() -> dict[str, Path]:
    """All files of the question: bare name to path."""
    return dict(_files.get() or {})
