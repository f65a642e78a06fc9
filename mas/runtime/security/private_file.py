"""Files that their owner alone may read, written in one step, and the folder for those of all runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def write_atomically(path: Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a file that takes its name once all is written: no reader finds half of it."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)  # left by a killed process, or a link
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding=encoding, newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def find_state_folder() -> Path:
    """Return the folder of what is kept for this user between runs; it need not exist."""
    given = os.environ.get("XDG_STATE_HOME") or ""
    state = Path(given) if Path(given).is_absolute() else Path("~/.local/state").expanduser()
    return state / "mas-harness"
