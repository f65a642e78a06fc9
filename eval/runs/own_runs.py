"""List of the runs made on this machine: `runs.jsonl` in the user's state folder, one line per session.

    note_run(info.run_id, folder, ["limit=3"])      # when a session begins
    is_own_run("1f3a…", folder)                     # True: that run was made here, in that folder
    read_command("1f3a…", folder)                   # ["limit=3"]; None: it was made elsewhere, or moved since

A run folder is data: a copy from elsewhere may name programs, addresses and keys. What is imported, resolved or
contacted comes from this list and from folders in it, never from another folder. The list tells whose a folder is; it
does not notice that somebody with the user's own rights has edited one.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mas.runtime.security.private_file import find_state_folder

_FILE = "runs.jsonl"


def note_run(run_id: str, folder: Path, command: Sequence[str] = ()) -> None:
    """Add a session of a run. Without a writable list, the options of the run are typed again to resume it.

    Args:
        run_id: of the run.
        folder: of the run.
        command: the overrides as typed, without secrets.
    """
    line = json.dumps({"id": run_id, "folder": str(folder.resolve()), "command": list(command)})
    with suppress(OSError, RuntimeError):
        file = find_state_folder() / _FILE
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(f"{line}\n")


def is_own_run(run_id: str, folder: Path) -> bool:
    """Return whether a run was made on this machine, in this folder."""
    return read_command(run_id, folder) is not None


def read_command(run_id: str, folder: Path) -> list[str] | None:
    """Return the overrides of the run's last session; None if it was made elsewhere, or moved since."""
    command = None
    with suppress(OSError, RuntimeError):
        place = str(folder.resolve())
        for line in (find_state_folder() / _FILE).read_text("ascii", errors="replace").splitlines():
            if run_id and run_id in line:
                with suppress(ValueError, LookupError, TypeError):  # a line that a full disk cut off
                    found = json.loads(line)
                    if (found["id"], found["folder"]) == (run_id, place):
                        command = [str(each) for each in found["command"]]
    return command
