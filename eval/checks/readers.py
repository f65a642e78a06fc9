"""Which kinds of attached files can be read: tried on one sample file of each kind."""

from collections.abc import Iterator
from pathlib import Path

from eval.checks.finding import OK, WARNING, Finding
from mas.tools.errors import ToolError
from mas.tools.files import ocr
from mas.tools.files.kinds import BINARY_KINDS, READERS, read_document

NO_EXTENSION = (".ole", ".protected")  # what a file turns out to be
NOT_ATTACHED = ("metadata.jsonl", "families.json")
PICTURES = tuple(kind for kind, target in READERS.items() if target.endswith(".image:read"))
SOUNDS = tuple(kind for kind, target in READERS.items() if ".audio:" in target)


def readers(sample: Path) -> Iterator[Finding]:
    """`sample`: a folder with files of several kinds, at any depth."""
    files = (path for path in sorted(sample.rglob("*.*")) if path.name not in NOT_ATTACHED)
    one_of_each = {path.suffix: path for path in files}
    broken = [suffix for suffix, path in one_of_each.items() if not _is_read(path)]
    if broken:
        yield Finding("files", WARNING, f"sample files cannot be read: {', '.join(broken)}", "make setup")
    else:
        tried = ", ".join(sorted(one_of_each))
        yield Finding("files", OK, f"read: {', '.join(READERS)}, plain text (tried: {tried})")
    if not ocr.is_installed():
        what = f"{', '.join(PICTURES)} and scanned PDF pages: size alone, since their text needs tesseract"
        yield Finding("files", WARNING, what, "apt-get install tesseract-ocr")
    yield Finding(
        "files", WARNING, f"{', '.join(SOUNDS)}: length and format alone; listening needs a model that takes audio"
    )
    if unread := sorted({what for kind, what in BINARY_KINDS.items() if kind not in (*READERS, *NO_EXTENSION)}):
        yield Finding("files", WARNING, f"no reader for: {', '.join(unread)}")


def _is_read(path: Path) -> bool:
    try:
        return bool(read_document(path).parts)
    except (ToolError, ImportError):
        return False
