"""Folder of one run, `outputs/eval/<time>_<name>/`: how it is made, locked and written, and who starts it."""

import getpass
import re
import shlex
import shutil
import socket
import subprocess
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.prompt_sets.prompt_set import SET_FILE, PromptSet, digest, read_set_folder, write_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.security.private_file import write_atomically

DATABASE = "run.db"
TUNING_FILE = "splits.json"  # ids of its questions by split: the file by which a tuning run's folder is known
VERDICT = "verdict.json"  # of a tuning run, to read
REPORT = "report.html"  # the page of a run, also of a tuning run
MLFLOW_STATE = "mlflow.json"  # what MLflow has of it
FACTS, RECORDS = "run.jsonl", "records.jsonl"  # copies of what it holds: plan and facts about the run; rows
PROMPTS_FOLDER = "prompts"  # folder of the prompt set
WAIT_SECONDS = 0.5  # for a lock: a report looks in for an instant


def make_run_folder(kind: str, name: str, given: str | None) -> Path:
    """Make the folder of a new run: `given`, or a new one with `name` in outputs/<kind>."""
    wanted = Path(given).absolute() if given else OUTPUTS / kind
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        folder = wanted if given else _new(wanted, name)
        with suppress(PermissionError):  # somebody else's, in which this user may write
            folder.chmod(0o700)
    except OSError as error:
        raise UserError(
            f"the run folder {wanted} cannot be written ({error.strerror}); name another with run.dir=…"
        ) from error
    return folder


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


def check_empty(folder: Path) -> None:
    """Check that a folder chosen for a new run has nothing in it, for a run writes files with common names."""
    try:
        names = sorted(each.name for each in folder.iterdir() if each.suffix != ".lock")
    except OSError:  # there is no such folder yet; or it cannot be used, which `make_run_folder` reports
        return
    if names:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise UserError(f"run.dir={folder} has files that are no run ({shown}); name a new or an empty folder.")


def keep_prompts(folder: Path, prompts: PromptSet) -> None:
    """Copy the run's prompt set into its folder, unless it is there: the set itself may be edited later."""
    kept = read_kept_prompts(folder)
    if kept is None or digest(kept) != digest(prompts):  # edited, or of a process that died before its run began
        shutil.rmtree(folder / PROMPTS_FOLDER, ignore_errors=True)
        write_prompt_set(folder / PROMPTS_FOLDER, prompts)


def read_kept_prompts(folder: Path) -> PromptSet | None:
    """Return the prompt set in a run's folder; None if it has none."""
    return read_set_folder(folder / PROMPTS_FOLDER) if (folder / PROMPTS_FOLDER / SET_FILE).is_file() else None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of ASCII; a reader sees the old file or the new one, also if two processes write it at once."""
    with write_atomically(path, "ascii") as file:  # JSON escapes the rest, surrogates too
        file.writelines(f"{line}\n" for line in lines)


def is_side(folder: Path) -> bool:
    """Return whether it is a side of a tuning run's sealed test (`eval.runs.candidates`)."""
    return (folder.absolute().parent / TUNING_FILE).is_file()


def format_path(path: Path) -> str:
    """Return the path relative to the current folder, where it lies below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def format_resume_hint(folder: Path) -> str:
    return f"continue with: python eval/run.py {shlex.quote(f'run.resume={_name(folder)}')}"


def format_report_command(folder: Path) -> str:
    return f"python eval/report.py {shlex.quote(_name(folder))}"


def _name(folder: Path) -> str:
    return folder.name if folder.parent == OUTPUTS / "eval" else format_path(folder)


def read_origin() -> dict[str, str]:
    """Return who starts the run, where, and from which state of the code, as MLflow tags, as far as it is known."""
    command = ["git", "-C", str(PROJECT_ROOT), "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    status = list[str]()
    with suppress(OSError, subprocess.SubprocessError):  # no git, or no repository
        status = subprocess.run(
            command, env=build_child_environment(), capture_output=True, text=True, timeout=10, check=True
        ).stdout.splitlines()
    git = dict(line.removeprefix("# branch.").split(" ", 1) for line in status if line.startswith("# branch."))
    found = {
        "mlflow.user": read_user(),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "eval/run.py",
        "mlflow.source.git.commit": git.get("oid"),
        "mlflow.source.git.branch": git.get("head"),
        "mlflow.source.git.dirty": str(not all(line.startswith("# ") for line in status)).lower() if git else None,
        "harness.host": socket.gethostname(),
    }
    return {name: value for name, value in found.items() if value}


def read_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return ""


class RunInUseError(Exception):
    """Another process, or another part of this one, writes to the run."""


class RunLock:
    """Lock of a run, held by one writer until its process ends, also by kill -9. Any thread may release it."""

    def __init__(self, database: Path) -> None:
        from filelock import FileLock

        # Without flock (some network disks) nothing would free the lock after a kill: better to fail.
        self._lock = FileLock(database.with_suffix(".lock"), thread_local=False, fallback_to_soft=False)

    def take(self, wait_seconds: float | None = None) -> None:
        """Take the lock; `wait_seconds`: for another holder to release it, None: WAIT_SECONDS.

        RunInUseError: it is taken. OSError: the file cannot be made, or the disk knows no locks.
        """
        try:
            self._lock.acquire(timeout=WAIT_SECONDS if wait_seconds is None else wait_seconds, poll_interval=0.05)
        except TimeoutError as error:
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
