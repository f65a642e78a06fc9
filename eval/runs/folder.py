"""Where one run keeps everything: `outputs/eval/<time>_<name>/`."""

import re
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

from eval.cli.paths import OUTPUTS
from mas.runtime.errors import UserError


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
    from eval.runs.store import RunStore, StoreError

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


DATABASE = "run.db"
LATEST = "latest"
_TIME_FORMAT = "%Y-%m-%d_%H-%M-%S"  # as `eval.runs.folder` begins a folder's name
_TIME = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_(.*?)(?:_\d+)?$")
_SHOWN = 5


def find_run(
    run: str | Path, runs_folder: Path | None = None, marker: str = DATABASE, started_by: str = "python eval/run.py"
) -> Path:
    """The folder of a run.

    Args:
        run: `latest`, a folder's name, the run's own name, or a path to its folder or to its run.db.
        runs_folder: where runs lie; None: outputs/eval.
        marker: the file by which a run's folder is known.
        started_by: the command that starts such runs.

    Raises:
        UserError: there is none such, or more than one; the sentence lists the newest.
    """
    parent = runs_folder or OUTPUTS / "eval"
    runs = all_runs(parent, marker)
    if str(run) == LATEST:
        if not runs:
            raise UserError(f"there is no run under {parent} yet; start one with {started_by}.")
        return runs[0]
    if found := _at(Path(run), marker):
        return found
    named = [folder for folder in runs if folder.name == str(run)] or [
        folder for folder in runs if run_name(folder) == str(run)
    ]
    if not named:
        raise UserError(f"{run} is no run: neither a folder with a {marker} nor one of {_listed(runs, parent)}.")
    if len(named) > 1:
        names = ", ".join(folder.name for folder in named[:_SHOWN])
        raise UserError(f"{len(named)} runs are named {run}; give the folder's whole name, such as {names}.")
    return named[0]


def run_name(folder: Path) -> str:
    """The folder's name without the time in front and the number that a second run of that second got."""
    found = _TIME.match(folder.name)
    return found[2] if found else folder.name


def _at(path: Path, marker: str) -> Path | None:
    folder = path.parent if path.name == marker else path
    return folder.absolute() if (folder / marker).is_file() else None


def all_runs(runs_folder: Path | None = None, marker: str = DATABASE) -> list[Path]:
    """The folders of all runs, the newest first; `runs_folder`: where they lie; None: outputs/eval."""
    folders = [each.parent for each in (runs_folder or OUTPUTS / "eval").glob(f"*/{marker}")]
    return sorted(folders, key=lambda folder: _started(folder, marker), reverse=True)


def _started(folder: Path, marker: str) -> tuple[str, float]:
    """The time in the folder's name; for one that was named by hand, when its configuration was written."""
    config = folder / "config.yaml"
    written = (config if config.is_file() else folder / marker).stat().st_mtime
    found = _TIME.match(folder.name)
    return (found[1] if found else datetime.fromtimestamp(written).strftime(_TIME_FORMAT)), written


def _listed(runs: list[Path], parent: Path) -> str:
    if not runs:
        return f"the runs under {parent}, for there are none"
    more = f" and {len(runs) - _SHOWN} older ones" if len(runs) > _SHOWN else ""
    return f"the runs under {parent}: {LATEST}, {', '.join(folder.name for folder in runs[:_SHOWN])}{more}"
