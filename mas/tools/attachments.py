"""Files that are attached to the question.

A tool names a file by its bare name, and only the question's own names are found. A path of any kind (absolute, `../`,
a link, a NUL) is not such a name, so nothing else on the machine can be reached.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from mas.tools.results import ToolError

_MARK = "reads_attachments"
_Tool = TypeVar("_Tool", bound=Callable[..., Any])
_NONE: dict[str, Path] = {}
_files: ContextVar[dict[str, Path]] = ContextVar("attached_files", default=_NONE)


@contextmanager
def use_attachments(files: Iterable[Path]) -> Iterator[None]:
    """Make `files` the only ones that tools can open, for this context and the tasks started in it."""
    token = _files.set({file.name: file for file in files})
    try:
        yield
    finally:
        _files.reset(token)


def list_attachments() -> dict[str, Path]:
    """Return the paths of the question's files by bare name."""
    return dict(_files.get())


def find_attachment(name: str) -> Path:
    files = list_attachments()
    if name not in files:
        known = ", ".join(sorted(files)) or "none: this question has no attachment"
        raise ToolError(
            f"no attached file is named {name!r}; attached files: {known}; give one of these names without a path."
        )
    return files[name]


def mark_for_attachments(tool: _Tool) -> _Tool:
    """Mark a tool that is offered only with a question that has an attachment."""
    setattr(tool, _MARK, True)
    return tool


def can_be_used(tool: object) -> bool:
    """Return whether a tool is of use for the present question."""
    return bool(list_attachments()) or not getattr(tool, _MARK, False)


def digest_attachments() -> list[tuple[str, str]]:
    """Return name and SHA-256 of the question's files, sorted; empty for an unreadable file."""
    digests = dict.fromkeys(sorted(list_attachments()), "")
    for name in digests:
        with suppress(OSError), list_attachments()[name].open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return list(digests.items())
