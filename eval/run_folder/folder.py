"""Where one run keeps everything: `outputs/eval/<time>_<name>/`."""

import re
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

from eval.paths import OUTPUTS
from mas.errors import UserError


def make_run_folder(kind: str, name: str, given: str | None) -> Path:
    """Make and return the folder.

    Args:
        kind: the command: `eval`.
        name: part of the folder's name.
        given: the folder itself, if the user chose it; relative to the current folder.

    Raises:
        UserError: it cannot be made or written.
    """
    wanted = Path(given).absolute() if given else OUTPUTS / kind
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        folder = wanted if given else _new(wanted, name)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"the run folder {wanted} cannot be written ({error.strerror}); name another with run.dir=…"
        ) from error
    return folder


def _new(parent: Path, name: str) -> Path:
    """A folder of this second that no other run has, not even one that starts at the same moment."""
    stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{re.sub(r'[^A-Za-z0-9.-]+', '_', name)}"
    for number in count(1):
        folder = parent / (stem if number == 1 else f"{stem}_{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("unreachable: there is always a next number")


def check_free(folder: Path) -> None:
    """See that no run is in the folder. A process that died before its run began may have left a store, with a plan.

    Raises:
        UserError: there is one; it cannot be mixed with another.
    """
    from eval.store import RunStore, StoreError

    database = folder / "run.db"
    if not database.exists():
        return
    try:
        with RunStore(database, read_only=True) as store:
            meta = store.meta()
            if "command" not in meta and "rescored_from" not in meta and not store.keys():
                return
    except StoreError:
        meta = {}
    if "rescored_from" in meta:
        raise UserError(f"run.dir={folder} already holds a run, one that was scored anew; name a new folder.")
    raise UserError(
        f"run.dir={folder} already holds a run; go on with it by run.resume={folder}, or name a new folder."
    )
