"""Deletion of a run's folder: only inside of one place, never through a link, never while a process writes to it.

delete_run(folder, OUTPUTS)         # UserError: it is in use, is elsewhere, or has a link
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from eval.runs.folder import DATABASE, RunInUseError, RunLock, check_entries, format_path
from mas.runtime.errors import UserError


def check_place(folder: Path, inside: Path) -> None:
    """Check that a folder is below another one, and that no part of its path there is a link.

    Raises:
        UserError: it is elsewhere, is that folder itself, or is reached through a link.
    """
    place, real = Path(os.path.realpath(inside)), Path(os.path.realpath(folder))
    if real == place or not real.is_relative_to(place):
        raise UserError(f"{format_path(folder)} is not inside {format_path(inside)}; remove it by hand.")
    given, top = folder.absolute(), inside.absolute()
    if not given.is_relative_to(top) or real != place / given.relative_to(top):
        raise UserError(f"{format_path(folder)} is reached through a link; remove it by hand.")


def delete_run(folder: Path, inside: Path) -> None:
    """Delete a run.

    Raises:
        UserError: it must not be deleted; see `check_place`. Or a process uses it.
        OSError: a part of it cannot be removed.
    """
    check_place(folder, inside)
    check_entries(folder)
    lock = RunLock(folder / DATABASE)
    try:
        lock.take(wait_seconds=0)
    except RunInUseError as error:
        raise UserError(f"{format_path(folder)} is in use; stop the run first.") from error
    try:
        shutil.rmtree(folder)  # by descriptors: a link that is put there meanwhile is removed, and not followed
    finally:
        with suppress(OSError):
            lock.release()
