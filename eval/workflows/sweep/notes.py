"""What is known of a sweep's jobs while it goes on and after: `sweep.json` in `outputs/multirun/<time>/`.

notes = read_notes(folder)
notes.jobs[1].differs            # ["model=gpt-4o"]
notes.jobs[1].run(folder)        # the folder of its run; None: it ended before it had one
"""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from eval.analysis.sweep import SweepResult
from eval.cli.paths import OUTPUTS
from eval.runs.folder import LATEST, write_lines
from mas.runtime.errors import UserError

SWEEP = "sweep.json"


@dataclass
class Job:
    """One combination of a sweep's values; its run, if it came to that, is an ordinary one."""

    job: int  # from 0
    differs: list[str]  # its overrides that other jobs have otherwise
    folder: str | None = None  # of its run, relative to the sweep's folder
    run_id: str | None = None
    exit_code: int | None = None  # None: not started, or not ended
    error: str | None = None  # one sentence

    def run(self, sweep_folder: Path) -> Path | None:
        return (sweep_folder / self.folder).resolve() if self.folder else None


@dataclass
class SweepNotes:
    id: str
    started_at: str  # UTC, ISO 8601
    ended_at: str | None = None
    jobs: list[Job] = field(default_factory=list)


def read_notes(folder: Path) -> SweepNotes:
    """
    Raises:
        UserError: it is no folder of a sweep.
    """
    try:
        found = json.loads((folder / SWEEP).read_text("utf-8"))
        jobs = [Job(**{each.name: row[each.name] for each in fields(Job)}) for row in found["jobs"]]
        return SweepNotes(found["id"], found["started_at"], found["ended_at"], jobs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder} is no sweep with a readable {SWEEP}; name a folder of outputs/multirun.") from error


def write_notes(folder: Path, notes: SweepNotes, result: SweepResult | None = None) -> None:
    """`result`: what `eval.workflows.sweep.result` made of the jobs' runs; None: nothing yet.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / SWEEP, [json.dumps({**asdict(notes), **(result.to_dict() if result else {})}, indent=2)])


def find_sweep(name: str) -> Path:
    """The folder of a sweep: `latest`, a folder's name, or a path.

    Raises:
        UserError: there is none such.
    """
    parent = OUTPUTS / "multirun"
    if name == LATEST:
        if not (folders := sorted(each.parent for each in parent.glob(f"*/{SWEEP}"))):
            raise UserError(f"there is no sweep under {parent} yet; start one with python eval/run.py -m model=a,b.")
        return folders[-1]
    path = next((each for each in (Path(name), parent / name) if (each / SWEEP).is_file()), None)
    if path is None:
        raise UserError(f"{name} is no sweep: neither a folder with a {SWEEP} nor one of {parent}.")
    return path.absolute()


def relative(run_folder: Path, sweep_folder: Path) -> str:
    """So that `outputs/` can be moved as a whole."""
    return os.path.relpath(run_folder.resolve(), sweep_folder.resolve())
