"""Room for what runs leave behind."""

import os
import shutil
import tempfile
from pathlib import Path

from eval.checks.finding import MISSING, OK, WARNING, Finding
from eval.paths import shown

MIN_FREE_BYTES = 1_000_000_000
TRIED_BYTES = 100_000  # written and removed again


def disk(folder: Path) -> Finding:
    """Whether `folder`, or what is there of its path, can be written, and how much is free."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        mend = "free or mend it, or give another folder: run.dir=FOLDER"
        return Finding("disk", MISSING, f"{shown(existing)} cannot be written: {error.strerror or error}", mend)
    free = shutil.disk_usage(existing).free
    if free < MIN_FREE_BYTES:
        return Finding("disk", WARNING, f"{free / 1e9:.1f} GB free in {shown(existing)}", "free 1 GB at least")
    return Finding("disk", OK, f"{free / 1e9:,.1f} GB free in {shown(existing)}")
