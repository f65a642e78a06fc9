"""Runs by their names: `latest`, a folder's name, a run's own name, or a path."""

import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from eval.cli.paths import OUTPUTS
from eval.runs.folder import DATABASE, FACTS, TUNING_FILE, is_side
from mas.runtime.errors import UserError

LATEST = "latest"
_TIME_FORMAT = "%Y-%m-%d_%H-%M-%S"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_(.*?)(?:_\d+)?$")
_SHOWN = 5


def find_run(
    run: str | Path, runs_folder: Path | None = None, marker: str = DATABASE, started_by: str = "python eval/run.py"
) -> Path:
    """Return the folder of a run.

    Args:
        run: `latest`, a folder's name, the run's own name, or a path to its folder or to its run.db; RUN:ID for a side
            of a tuning run's sealed test (`eval.runs.candidates`).
        runs_folder: where runs lie; None: outputs/eval.
        marker: the file by which a run's folder is known.
        started_by: the command that starts such runs.

    Raises:
        UserError: there is no such run, or more than one; the sentence lists the newest. Or its folder has a link.
    """
    path, parent = Path(run), runs_folder or OUTPUTS / "eval"
    folder = path.absolute().parent if path.name == marker else path.absolute()
    if marker == DATABASE and is_side(folder):
        check_entries(folder.parent)
        return folder
    name, colon, candidate_id = str(run).rpartition(":")
    if marker == DATABASE and name and colon and not path.exists():
        return find_run(name, OUTPUTS / "optimize", TUNING_FILE, "python optimize/run.py") / candidate_id
    if str(run) == LATEST or not _is_run(folder, marker):
        folder = _find_by_name(str(run), parent, marker, started_by)
    check_entries(folder)
    return folder.absolute()


def is_folder_of_runs(name: str) -> bool:
    """Return whether a name is the path of a folder with runs in it, or in its `eval/`."""
    return not _is_run(Path(name), DATABASE) and bool(_list_runs_in(Path(name)))


def find_runs(name: str) -> list[Path]:
    """Return the folders of all runs in a folder, the newest first; or of the one run of that name, as `find_run`."""
    if not is_folder_of_runs(name):
        return [find_run(name)]
    runs = [each.absolute() for each in _list_runs_in(Path(name))]
    for run in runs:
        check_entries(run)
    return runs


def _list_runs_in(folder: Path) -> list[Path]:
    return list_runs(folder / "eval") or list_runs(folder)


def check_entries(folder: Path) -> int:
    """Check that a run's folder has ordinary files and folders only: a link may lead anywhere, a pipe never ends.

    Return the bytes of all files; UserError: it has a link or a special file, or cannot be read.
    """
    left, n_bytes = [str(folder)], 0
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for each in entries:
                    if each.is_dir(follow_symlinks=False):
                        left.append(each.path)
                    elif not each.is_file(follow_symlinks=False):
                        raise UserError(
                            f"{each.path} is a link or a special file, which nothing in a run's folder may be; "
                            "remove it."
                        )
                    else:
                        with suppress(FileNotFoundError):  # the run goes on, and has renamed it
                            n_bytes += each.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # as above
            continue
        except OSError as error:
            raise UserError(f"{folder} cannot be read ({error}); check its permissions.") from error
    return n_bytes


def _find_by_name(run: str, parent: Path, marker: str, started_by: str) -> Path:
    runs = list_runs(parent, marker)
    if run == LATEST:
        if not runs:
            raise UserError(f"there is no run under {parent} yet; start one with {started_by}.")
        return runs[0]
    named = [each for each in runs if each.name == run] or [each for each in runs if get_run_name(each) == run]
    if not named and marker != TUNING_FILE and (Path(run) / TUNING_FILE).is_file():
        raise UserError(
            f"{run} is a tuning run; its page is made again with: python optimize/report.py {run}. The answers of its "
            f"sealed test are {run}:parent and {run}:ID."
        )
    if not named:
        more = f" and {len(runs) - _SHOWN} older ones" if len(runs) > _SHOWN else ""
        newest = ", ".join(each.name for each in runs[:_SHOWN])
        listed = f": {LATEST}, {newest}{more}" if runs else ", for there are none"
        raise UserError(
            f"{run} is no run: neither a folder with a {marker} nor one of the runs under {parent}{listed}."
        )
    if len(named) > 1:
        names = ", ".join(folder.name for folder in named[:_SHOWN])
        raise UserError(f"{len(named)} runs are named {run}; give the folder's whole name, such as {names}.")
    return named[0]


def get_run_name(folder: Path) -> str:
    """Return the folder's name without the time in front and the number of a second run of that second."""
    found = _TIME.match(folder.name)
    return found[2] if found else folder.name


def _is_run(folder: Path, marker: str) -> bool:
    """Return whether a run is in the folder, also one whose database is gone: it is made again when it is opened."""
    is_tuning = (folder / TUNING_FILE).is_file()
    if marker == TUNING_FILE:
        return is_tuning
    return not is_tuning and any((folder / name).is_file() for name in (DATABASE, FACTS))


def list_runs(runs_folder: Path | None = None, marker: str = DATABASE) -> list[Path]:
    """Return the folders of all runs, the newest first; `runs_folder` None: outputs/eval."""
    folders = [each for each in (runs_folder or OUTPUTS / "eval").glob("*/") if _is_run(each, marker)]
    return sorted(folders, key=lambda folder: _started(folder, marker), reverse=True)


def _started(folder: Path, marker: str) -> tuple[str, float]:
    """Return the time in the folder's name; for one named by hand, the time at which its configuration was written."""
    there = next((each for each in (folder / "config.yaml", folder / marker) if each.is_file()), folder)
    written = there.stat().st_mtime
    found = _TIME.match(folder.name)
    return (found[1] if found else datetime.fromtimestamp(written).strftime(_TIME_FORMAT)), written
