"""Runs made on this machine, and runs from elsewhere, which are data alone.

`runs.jsonl` in the user's state folder has a line per session of the runs made here. What this program imports,
contacts or reads of the environment comes from that list and from the command line, never from a folder that is not in
it: a copy from elsewhere may name programs, addresses and keys. The list does not notice that somebody with the user's
own rights has edited a folder.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from eval.runs.folder import DATABASE, format_path
from eval.runs.store import RunStore, StoreError
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import find_state_folder

_CONTENT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, AssertionError)


def note_run(run_id: str, folder: Path, command: Sequence[str] = ()) -> None:
    """Add a session of a run, with its overrides as typed, without secrets.

    Without a writable list, these are typed again to resume the run.
    """
    line = json.dumps({"id": run_id, "folder": str(folder.resolve()), "command": list(command)})
    with suppress(OSError, RuntimeError):
        file = find_state_folder() / "runs.jsonl"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(f"{line}\n")


def read_command(run_id: str, folder: Path) -> list[str] | None:
    """Return the overrides of the run's last session; None if it was made elsewhere, or moved since."""
    lines, place = [], str(folder.resolve())
    with suppress(OSError, RuntimeError):
        lines = (find_state_folder() / "runs.jsonl").read_text("ascii", errors="replace").splitlines()
    for line in reversed(lines):
        if run_id and run_id in line:
            with suppress(ValueError, LookupError, TypeError):  # a line that a full disk cut off
                found = json.loads(line)
                if (found["id"], found["folder"]) == (run_id, place):
                    return [str(each) for each in found["command"]]
    return None


def is_own_run(run_id: str, folder: Path) -> bool:
    """Return whether a run was made on this machine, in this folder."""
    return read_command(run_id, folder) is not None


def is_own_folder(folder: Path) -> bool:
    """Return whether the run in a folder was made here; False if that cannot be read."""
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return is_own_run(store.read_info().run_id, folder)
    except (StoreError, *_CONTENT):
        return False


@contextmanager
def refuse_unreadable(*folders: Path) -> Iterator[None]:
    """Turn errors of reading into a UserError if a run was made elsewhere; in a run of ours they are defects."""
    try:
        yield
    except _CONTENT as error:
        from eval.cli.mistakes import is_mistake  # as the command does: where something has failed

        foreign = next((each for each in folders if not is_own_folder(each)), None)
        if foreign is None or is_mistake(error):
            raise
        reason = f"{type(error).__name__}: {error}"[:200]
        raise UserError(
            f"{format_path(foreign)} was made elsewhere, or moved since, and cannot be read ({reason})."
        ) from error
