"""Which kinds of attached files can be read: tried on one sample file of each kind."""

from collections.abc import Iterator
from pathlib import Path

from eval.checks.finding import OK, WARNING, Finding
from mas.tools.errors import ToolError
from mas.tools.files.kinds import BINARY_KINDS, READERS, read_document


def readers(sample: Path) -> Iterator[Finding]:
    """`sample`: a folder with files of several kinds, at any depth."""
    one_of_each = {path.suffix: path for path in sorted(sample.rglob("*.*")) if path.suffix != ".jsonl"}
    broken = [suffix for suffix, path in one_of_each.items() if not _is_read(path)]
    if broken:
        yield Finding("files", WARNING, f"sample files cannot be read: {', '.join(broken)}", "make setup")
    else:
        tried = ", ".join(sorted(one_of_each))
        yield Finding("files", OK, f"read: {', '.join(READERS)}, plain text (tried: {tried})")
    if unread := sorted({what for kind, what in BINARY_KINDS.items() if kind not in READERS}):
        yield Finding("files", WARNING, f"no reader yet for: {', '.join(unread)}")


def _is_read(path: Path) -> bool:
    try:
        return bool(read_document(path).parts)
    except (ToolError, ImportError):
        return False
