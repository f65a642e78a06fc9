"""The doctor's checks of this machine: disk, MLflow store, readers of files, isolation of code, programs."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from eval.benchmarks.sample_set import SAMPLE
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.tracking import NoTracking
from eval.runs.folder import format_path
from eval.workflows.checks.installation import MISSING, OK, WARNING, Finding
from mas.tools.files import ocr
from mas.tools.files.kinds import BINARY_KINDS, READERS, read_document
from mas.tools.files.readers import converted
from mas.tools.results import ToolError
from mas.tools.sandbox.repl import try_isolations
from mas.tools.settings import AUTO, BUBBLEWRAP

MIN_FREE_BYTES = 1_000_000_000
TRIED_BYTES = 100_000  # written and removed again
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECOND_BEST = "the second choice"
NO_EXTENSION = (".ole", ".protected")  # what a file turns out to be
NOT_ATTACHED = ("metadata.jsonl", "families.json")
PICTURES = tuple(kind for kind, target in READERS.items() if target.endswith(":read_picture"))
CONVERTED = tuple(kind for kind, target in READERS.items() if ".converted:" in target)
SOUNDS = tuple(kind for kind, target in READERS.items() if ".media:" in target and kind not in PICTURES)


def check_disk(folder: Path) -> Finding:
    """Check that a folder, or the part of its path that exists, can be written and has free space."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        remedy = "free space, correct its permissions, or give another folder: run.dir=FOLDER"
        return Finding("disk", MISSING, f"{format_path(existing)} cannot be written: {error.strerror or error}", remedy)
    free = shutil.disk_usage(existing).free
    if free < MIN_FREE_BYTES:
        return Finding("disk", WARNING, f"{free / 1e9:.1f} GB free in {format_path(existing)}", "free 1 GB at least")
    return Finding("disk", OK, f"{free / 1e9:,.1f} GB free in {format_path(existing)}")


def check_program(name: str, programs: Sequence[str], missing: str, package: str) -> Finding:
    """Check that one of several programs is installed."""
    if path := next(filter(None, map(shutil.which, programs)), None):
        return Finding(name, OK, path)
    return Finding(name, WARNING, missing, f"apt-get install {package}")


def check_isolation() -> Finding:
    """Check which isolation `tools.sandbox.kind=auto` chooses here, and why not a better one."""
    choice = try_isolations(AUTO)
    why = " ".join(choice.refused)
    if choice.isolation is None:
        return Finding("isolation", WARNING, "the tool python_repl_tool refuses: code cannot be shut in here", why)
    if choice.isolation.name == BUBBLEWRAP:
        return Finding("isolation", OK, choice.probe_result)
    return Finding("isolation", WARNING, f"{SECOND_BEST}: {choice.probe_result}", why)


def check_readers(sample: Path) -> Iterator[Finding]:
    """Read one file of each kind from a folder, at any depth."""
    files = (path for path in sorted(sample.rglob("*.*")) if path.name not in NOT_ATTACHED)
    one_of_each = {path.suffix: path for path in files}
    if broken := [suffix for suffix, path in one_of_each.items() if not _is_readable(path)]:
        yield Finding("files", WARNING, f"sample files cannot be read: {', '.join(broken)}", "make setup")
    else:
        what = f"read: {', '.join(READERS)}, plain text (tried: {', '.join(sorted(one_of_each))})"
        yield Finding("files", OK, what)
    if not ocr.is_installed():
        what = f"{', '.join(PICTURES)} and scanned PDF pages: size alone, since their text needs tesseract"
        yield Finding("files", WARNING, what, "apt-get install tesseract-ocr")
    if not converted.is_installed():
        what = f"{', '.join(CONVERTED)}: LibreOffice is not installed, which converts them"
        yield Finding("files", WARNING, what, f"apt-get install {' '.join(sorted(converted.PACKAGES.values()))}")
    yield Finding(
        "files",
        WARNING,
        f"{', '.join(SOUNDS)}: length and format alone; listening needs a model that takes audio, or "
        "tools.transcription.model",
    )
    if unread := sorted({what for kind, what in BINARY_KINDS.items() if kind not in (*READERS, *NO_EXTENSION)}):
        yield Finding("files", WARNING, f"no reader for: {', '.join(unread)}")


def _is_readable(path: Path) -> bool:
    try:
        return bool(read_document(path).parts)
    except (ToolError, ImportError):
        return False


def check_mlflow_store(tracking: object) -> Finding:
    if isinstance(tracking, NoTracking):
        return Finding("mlflow", OK, "off (tracking=off)")
    folder = getattr(tracking, "folder", None)
    file = (PROJECT_ROOT / folder if folder else OUTPUTS) / "mlflow.db"
    if not file.exists():
        return Finding("mlflow", OK, f"{format_path(file)}: not there yet, the first run makes it")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection:
            connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        what = f"{format_path(file)} is no MLflow store: {error}"
        return Finding("mlflow", WARNING, what, "move it away, or tracking=off")
    return Finding("mlflow", OK, f"{format_path(file)}, {file.stat().st_size / 1e6:,.1f} MB")


def check_machine() -> Iterator[Finding]:
    """Check what tools may use; a run can do without any of it."""
    yield from check_readers(SAMPLE)
    yield check_isolation()
    yield check_program("browser", BROWSERS, "no Chromium or Chrome: `make browser` needs one", "chromium")
    yield check_program("ocr", ["tesseract"], "no tesseract: text in images is not read", "tesseract-ocr")
