"""Folder of one run, `outputs/eval/<time>_<name>/`: how it is made, found, locked and written, and who starts it.

folder = make_run_folder("eval", "gaia_offline_sample", given=None)
find_run("latest")
with write_atomically(folder / "report.html") as file: …
lock = RunLock(folder / "run.db")       # locks run.lock; the kernel's flock, so kill -9 frees it
"""

import getpass
import os
import re
import shlex
import socket
import subprocess
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.prompt_sets.prompt_set import SET_FILE, PromptSet, digest, read_set_folder, write_prompt_set
from mas.prompt_sets.provenance import TUNED_ON_FILE
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.security.private_file import write_atomically

DATABASE = "run.db"
TUNING_FILE = "splits.json"  # ids of its questions by split: the file by which a tuning run's folder is known
VERDICT = "verdict.json"  # of a tuning run, to read
REPORT = "report.html"  # the page of a run, also of a tuning run
FACTS, RECORDS = "run.jsonl", "records.jsonl"  # copies of what it holds: plan and facts about the run; rows
LATEST = "latest"
_TIME_FORMAT = "%Y-%m-%d_%H-%M-%S"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_(.*?)(?:_\d+)?$")
_SHOWN = 5
FIRST = "prompts"  # folder of the first prompt set; one that was resumed with another also has prompts_2, and so on
_PLACE = re.compile(rf"{FIRST}(_\d+)?")
_PROBE = ".probe"  # file by which it is seen that the folder can be written


def make_run_folder(kind: str, name: str, given: str | None, parent: Path | None = None) -> Path:
    """Make the folder of a new run.

    Args:
        kind: the command: `eval`.
        name: part of the folder's name.
        given: the folder itself, if the user chose it; relative to the current folder.
        parent: where the folder is made; None: outputs/<kind>.

    Raises:
        UserError: it cannot be made or written.
    """
    wanted = Path(given).absolute() if given else parent or OUTPUTS / kind
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        folder = wanted if given else _new(wanted, name)
        with suppress(PermissionError):  # somebody else's, in which this user may write
            folder.chmod(0o700)
        probe = folder / _PROBE
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"the run folder {wanted} cannot be written ({error.strerror}); name another with run.dir=…"
        ) from error
    return folder


_LEFTOVERS = (f"{Path(DATABASE).stem}.", "config.yaml", FIRST, "logs", "calls.db", "tools.db", "mlflow.json")


def check_empty(folder: Path, leftovers: bool = False) -> None:
    """Check that a folder chosen for a new run has nothing in it, for a run writes files with common names.

    Args:
        folder: that was chosen.
        leftovers: whether what a process leaves that died before its run began may be there.

    Raises:
        UserError: something is there.
    """
    try:
        names = sorted(each.name for each in folder.iterdir() if each.suffix != ".lock" and each.name != _PROBE)
        names = [each for each in names if not (leftovers and each.startswith(_LEFTOVERS))]
    except OSError:  # there is no such folder yet; or it cannot be used, which `make_run_folder` reports
        return
    if names:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise UserError(f"run.dir={folder} has files that are no run ({shown}); name a new or an empty folder.")


def _new(parent: Path, name: str) -> Path:
    """Return a folder of this second that no other run has, not even one that starts at the same moment."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()  # "ünï" as "uni"
    stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{re.sub(r'[^A-Za-z0-9.-]+', '_', plain)}"
    for number in count(1):
        folder = parent / (stem if number == 1 else f"{stem}_{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("unreachable: there is always a next number")


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
    if marker == DATABASE and (path.parent / TUNING_FILE).is_file() and path.name != DATABASE:
        return path.absolute()
    name, colon, candidate_id = str(run).rpartition(":")
    if marker == DATABASE and name and colon and not path.exists():
        return find_run(name, OUTPUTS / "optimize", TUNING_FILE, "python optimize/run.py") / candidate_id
    folder = path.parent if path.name == marker else path
    if str(run) == LATEST or not _is_run(folder, marker):
        folder = _find_by_name(str(run), parent, marker, started_by)
    check_entries(folder)
    return folder.absolute()


def is_folder_of_runs(name: str) -> bool:
    """Return whether a name is the path of a folder with runs in it, or in its `eval/`."""
    return not _is_run(Path(name), DATABASE) and bool(_list_runs_in(Path(name)))


def find_runs(name: str) -> list[Path]:
    """Return the folders of all runs in a folder, the newest first; or of the one run of that name.

    Raises:
        UserError: as `find_run`.
    """
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

    Returns:
        Bytes of all files.

    Raises:
        UserError: it has a link or a special file, or cannot be read.
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
        listed = (
            f": {LATEST}, {', '.join(each.name for each in runs[:_SHOWN])}{more}" if runs else ", for there are none"
        )
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
    config = folder / "config.yaml"
    there = next((each for each in (config, folder / marker) if each.is_file()), folder)
    written = there.stat().st_mtime
    found = _TIME.match(folder.name)
    return (found[1] if found else datetime.fromtimestamp(written).strftime(_TIME_FORMAT)), written


def keep_prompts(folder: Path, names: Mapping[str, str], prompts: PromptSet) -> dict[str, str]:
    """Copy this session's prompt set into the run's folder, unless it is there: the set itself may be edited later.

    Args:
        folder: of the run.
        names: `RunInfo.prompts` of the sessions before.
        prompts: of this session.

    Returns:
        `RunInfo.prompts` of this session.
    """
    if not names and (folder / FIRST / SET_FILE).is_file():  # of a process that died before its run began
        names = {FIRST: prompts.name}
    known = read_kept_prompts(folder, names)
    place = next((name for name, kept in known.items() if digest(kept) == digest(prompts)), None)
    if place is None:
        places = [FIRST, *(f"{FIRST}_{number}" for number in range(2, len(names) + 2))]
        place = next(each for each in places if each not in known)
        write_prompt_set(folder / place, prompts)
    elif prompts.tuned_on and (marks := prompts.tuned_on | known[place].tuned_on) != known[place].tuned_on:
        with write_atomically(folder / place / TUNED_ON_FILE, "ascii") as file:  # restored since
            file.write(marks.to_json())
    return {**{name: each for name, each in names.items() if name != place}, place: names.get(place, prompts.name)}


def read_kept_prompts(folder: Path, names: Mapping[str, str]) -> dict[str, PromptSet]:
    """Return the sets in a run's folder that `RunInfo.prompts` names, by the folder they are in; the last used last."""
    return {
        place: replace(read_set_folder(folder / place), name=name)
        for place, name in names.items()
        if _PLACE.fullmatch(place) and (folder / place / SET_FILE).is_file()
    }


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of ASCII; a reader sees the old file or the new one, also if two processes write it at once."""
    with write_atomically(path, "ascii") as file:  # JSON escapes the rest, surrogates too
        file.writelines(f"{line}\n" for line in lines)


def format_path(path: Path) -> str:
    """Return the path relative to the current folder, where it lies below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def format_resume_hint(folder: Path) -> str:
    """Return the command that resumes the run."""
    name = folder.name if folder.parent == OUTPUTS / "eval" else format_path(folder)
    return f"continue with: python eval/run.py {shlex.quote(f'run.resume={name}')}"


WAIT_SECONDS = 0.5  # a report looks in for an instant; and a holder needs one to write down who it is


def read_origin() -> dict[str, str]:
    """Return who starts the run, where, and from which state of the code, as MLflow tags; what is unknown is left out.

    read_origin()["mlflow.source.git.commit"]       # "8159276…"
    """
    found = {
        "mlflow.user": _read_user(),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "eval/run.py",
        "mlflow.source.git.commit": _run_git("rev-parse", "HEAD"),
        "mlflow.source.git.branch": _run_git("rev-parse", "--abbrev-ref", "HEAD"),
        "harness.host": socket.gethostname(),
    }
    if found["mlflow.source.git.commit"]:
        changed = _run_git("status", "--porcelain", "--untracked-files=no")
        found["mlflow.source.git.dirty"] = str(changed != "").lower()
    return {name: value for name, value in found.items() if value}


def _read_user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return None


def _run_git(*arguments: str) -> str | None:
    command = ["git", "-C", str(PROJECT_ROOT), *arguments]
    try:
        return subprocess.run(
            command, env=build_child_environment(), capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


class RunInUseError(Exception):
    """Another process, or another part of this one, writes to the run."""


class RunLock:
    """Lock of a run, held by one writer until its process ends. Any thread may release it."""

    def __init__(self, database: Path) -> None:
        from filelock import FileLock

        # Without flock (some network disks) nothing would free the lock after a kill: better to fail.
        self._lock = FileLock(database.with_suffix(".lock"), thread_local=False, fallback_to_soft=False)

    def take(self, wait_seconds: float | None = None) -> None:
        """Take the lock; `wait_seconds`: for another holder to release it, None: WAIT_SECONDS.

        Raises:
            RunInUseError: it is taken.
            OSError: the file cannot be made, or the disk knows no locks.
        """
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=WAIT_SECONDS if wait_seconds is None else wait_seconds, poll_interval=0.05)
        except Timeout as error:
            raise RunInUseError from error

    def release(self) -> None:
        self._lock.release()


def is_in_use(database: Path) -> bool:
    """Return whether a process writes to this run now; False also where that cannot be found out."""
    if database.with_suffix(".lock").exists():
        lock = RunLock(database)
        try:
            with suppress(OSError):
                lock.take(wait_seconds=0)
                lock.release()
        except RunInUseError:
            return True
    return False
