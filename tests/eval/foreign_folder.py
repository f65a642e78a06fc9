"""Run folders as an attacker hands them over: made by this program, then edited.

folder = stored_run(tmp_path / "theirs", [answered("q1", "17")])
edit_info(folder, command=["system.target=evil:answer"])      # and it is not in the list of the runs made here
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mas.runtime.security.private_file import find_state_folder


def edit_info(folder: Path, **changes: object) -> None:
    """Change what `run.db` says of the run, and forget that it was made here."""
    with edited(folder) as database:
        ((text,),) = database.execute("SELECT value FROM meta WHERE key = 'info'").fetchall()
        new = json.dumps({**json.loads(text), **changes})
        database.execute("UPDATE meta SET value = ? WHERE key = 'info'", (new,))
    forget_run(folder)


def forget_run(folder: Path) -> None:
    """Take a run off the list of the runs made here, as if its folder had been copied from another machine."""
    file, place = find_state_folder() / "runs.jsonl", str(folder.resolve())
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(line for line in lines if json.loads(line)["folder"] != place))


@contextmanager
def edited(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as database:
        yield database
