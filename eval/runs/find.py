"""Runs by their names: `latest`, a folder's name, a run's own name, or a path."""

import os
import re
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from eval.cli.paths import OUTPUTS
from eval.runs.folder import DATABASE, FACTS, TUNING_FILE, is_side
from mas.runtime.errors import UserError

LATEST = "latest"
_TIME_FORMAT = "%Y-%m-%d_%H-%M-%S"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_(.*?)(?:_\d+)?$")
_SHOWN = 5
Kind = Literal["eval", "optimize"]


def find_run(run: str | Path, kind: Kind = "eval") -> Path:
    """Return the folder of a run.

    `run`: `latest`, a folder's name, the run's own name, or a path to its folder or to its run.db; RUN:ID for a side of
    a tuning run's sealed test (`eval.runs.candidates`). UserError: there is no such run, or more than one; the sentence
    lists the newest. Or its folder has a link.
    """
    path = Path(run).absolute()
    folder = path.parent if path.name == DATABASE else path
    if kind == "eval" and is_side(folder):
        check_entries(folder.parent)
        return folder
    name, colon, candidate_id = str(run).rpartition(":")
    if kind == "eval" and name and colon and not path.exists():
        return find_run(name, kind="optimize") / candidate_id
    if str(run) == LATEST or not _is_run(folder, kind):
        folder = _find_by_name(str(run), kind)
    check_entries(folder)
    return folder


def check_entries(folder: Path) -> int:
    """Check that a run's folder has ordinary files and folders only: a link may lead anywhere, a pipe never ends.

    Return the bytes of all files; UserError: it has a link or a special file, or cannot be read.
    """
    n_bytes = 0
    try:
        for place, folders, files in os.walk(folder, onerror=_raise):
            for path in (Path(place, name) for name in (*folders, *files)):
                with suppress(FileNotFoundError):  # the run goes on, and has renamed it
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode):
                        n_bytes += found.st_size
                    elif not stat.S_ISDIR(found.st_mode):
                        raise UserError(
                            f"{path} is a link or a special file, which nothing in a run's folder may be; remove it."
                        )
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error}); check its permissions.") from error
    return n_bytes


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # as above
        raise error


def _find_by_name(run: str, kind: Kind) -> Path:
    parent, runs = OUTPUTS / kind, list_runs(kind)
    if run == LATEST:
        if not runs:
            raise UserError(f"there is no run under {parent} yet; start one with python {kind}/run.py.")
        return runs[0]
    named = [each for each in runs if each.name == run] or [each for each in runs if get_run_name(each) == run]
    if not named and kind == "optimize":  # a folder is named after the prompt set and the optimizer
        named = [each for each in runs if get_run_name(each).rpartition("_")[0] == run]
    if not named and kind == "eval" and (Path(run) / TUNING_FILE).is_file():
        raise UserError(
            f"{run} is a tuning run; its page is made again with: python optimize/report.py {run}. The answers of its "
            f"sealed test are {run}:parent and {run}:ID."
        )
    if not named:
        newest = ", ".join(each.name for each in runs[:_SHOWN])
        listed = f": {LATEST}, {newest}{' …' if len(runs) > _SHOWN else ''}" if runs else ", for there are none"
        raise UserError(f"{run} is no run: neither the folder of one nor one of the runs under {parent}{listed}.")
    if len(named) > 1:
        names = ", ".join(folder.name for folder in named[:_SHOWN])
        raise UserError(f"{len(named)} runs are named {run}; give the folder's whole name, such as {names}.")
    return named[0].absolute()


def get_run_name(folder: Path) -> str:
    """Return the folder's name without the time in front and the number of a second run of that second."""
    found = _TIME.match(folder.name)
    return found[2] if found else folder.name


def _is_run(folder: Path, kind: Kind) -> bool:
    """Return whether a run is in the folder, also one whose database is gone: it is made again when it is opened."""
    is_tuning = (folder / TUNING_FILE).is_file()
    if kind == "optimize" or is_tuning:
        return is_tuning and kind == "optimize"
    return (folder / DATABASE).is_file() or (folder / FACTS).is_file()


def list_runs(kind: Kind = "eval") -> list[Path]:
    """Return the folders of all runs in outputs/<kind>, the newest first."""
    folders = [each for each in (OUTPUTS / kind).glob("*/") if _is_run(each, kind)]
    return sorted(folders, key=_read_start, reverse=True)


def _read_start(folder: Path) -> tuple[str, float]:
    """Return the time in the folder's name; for one named by hand, the time at which its configuration was written."""
    config, found = folder / "config.yaml", _TIME.match(folder.name)
    written = (config if config.is_file() else folder).stat().st_mtime
    return (found[1] if found else datetime.fromtimestamp(written).strftime(_TIME_FORMAT)), written
