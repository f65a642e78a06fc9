"""A sweep while it goes on: Hydra's multirun, whose jobs are ordinary runs, one after the other in this process.

    run_as_job(get_multirun_job(), lambda: evaluate(Request(…, add_run_to_sweep)))    # Hydra has called for this job
    add_run_to_sweep(folder, config)    # called by `evaluate` once the run has a folder; its result is `RunInfo.sweep`
    end_sweep()                         # after the last job; `eval.workflows.sweep_table` then makes the table

Its jobs are kept in `sweep.json`, in `outputs/multirun/<time>/`.

    sweep = read_sweep(folder)
    sweep.jobs[1].differs               # ["model=gpt-4o"]
"""

import json
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path

from eval.cli.command import STOPPED, USER_ERROR, InterruptedRunError
from eval.cli.hydra_compat import MultirunJob, describe_mistake, is_mistake, list_sweep_jobs
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig
from eval.config.tracking import remove_passwords
from eval.runs.folder import LATEST, check_entries, write_lines
from eval.runs.own_runs import is_own_run, note_run
from eval.runs.run_info import SweepJob
from mas.runtime.errors import UserError

SWEEP_FILE = "sweep.json"
AddToSweep = Callable[[Path, EvalConfig], SweepJob]  # `add_run_to_sweep`
_MULTIRUN_FILE = "multirun.yaml"  # Hydra writes it before the first job


@dataclass
class Job:
    """One combination of a sweep's values, and its run, which is an ordinary one."""

    job: int  # from 0
    differs: list[str]  # overrides that other jobs have otherwise
    folder: str | None = None  # of its run, relative to the sweep's folder; None: it ended before it had one
    run_id: str | None = None
    exit_code: int | None = None  # None: not started, or not ended
    error: str | None = None  # one sentence


@dataclass
class Sweep:
    """A sweep and its jobs, as `sweep.json` keeps them."""

    folder: Path
    id: str
    started_at: str  # UTC, ISO 8601
    ended_at: str | None = None
    jobs: list[Job] = field(default_factory=list)
    current: Job | None = None  # that this process runs
    config: EvalConfig | None = None  # of the last job that this process ran

    def find_run(self, job: Job) -> Path | None:
        """Return the folder of the job's run."""
        return (self.folder / job.folder).resolve() if job.folder else None

    def write(self, result: Mapping[str, object] | None = None) -> None:
        """Write `sweep.json`; `result` is what `build_result` made of the jobs' runs.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = {"id": self.id, "started_at": self.started_at, "ended_at": self.ended_at}
        content = {**own, "jobs": [asdict(job) for job in self.jobs], **(result or {})}
        write_lines(self.folder / SWEEP_FILE, [json.dumps(content, indent=2)])

    def note_progress(self) -> None:
        """Write `sweep.json`, and remove secrets from what Hydra keeps: the command line as it was typed.

        A full disk does not end a run here; the run reports it itself.
        """
        with suppress(OSError):
            self.write()
        path = self.folder / _MULTIRUN_FILE
        with suppress(OSError):
            text = path.read_text("utf-8")
            clean = remove_passwords(text)  # a job may end before it is known what is secret
            clean = self.config.redact(clean) if self.config else clean
            if clean != text:
                path.write_text(clean, "utf-8")


def read_sweep(folder: Path) -> Sweep:
    """
    Raises:
        UserError: it is no folder of a sweep; or one that was made elsewhere, with runs outside of its own `outputs/`.
    """
    check_entries(folder)
    try:
        found = json.loads((folder / SWEEP_FILE).read_text("utf-8"))
        jobs = [Job(**{each.name: row[each.name] for each in fields(Job)}) for row in found["jobs"]]
        sweep = Sweep(folder, found["id"], found["started_at"], found["ended_at"], jobs)
        runs = [run for job in jobs if (run := sweep.find_run(job))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{folder} is no sweep with a readable {SWEEP_FILE}; name a folder of outputs/multirun."
        ) from error
    outside = [run for run in runs if not run.is_relative_to(folder.resolve().parents[1])]
    if outside and not is_own_run(sweep.id, folder):
        raise UserError(
            f"{folder} was made elsewhere, or moved since, and names {outside[0]}, which is not opened; copy the "
            "sweep together with its runs, as they are in outputs/."
        )
    return sweep


def find_sweep(name: str) -> Path:
    """Return the folder of a sweep: `latest`, a folder's name, or a path.

    Raises:
        UserError: there is none such.
    """
    parent = OUTPUTS / "multirun"
    if name == LATEST:
        if not (folders := sorted(each.parent for each in parent.glob(f"*/{SWEEP_FILE}"))):
            raise UserError(f"there is no sweep under {parent} yet; start one with python eval/run.py -m model=a,b.")
        return folders[-1]
    path = next((each for each in (Path(name), parent / name) if (each / SWEEP_FILE).is_file()), None)
    if path is None:
        raise UserError(f"{name} is no sweep: neither a folder with a {SWEEP_FILE} nor one of {parent}.")
    return path.absolute()


_running: Sweep | None = None  # of this process


def run_as_job(place: MultirunJob, run: Callable[[], int]) -> int:
    """Run one job of a multirun and note how it ended, be it by a mistake, by Ctrl-C or by a defect."""
    sweep = _get_running(*place)
    job = sweep.current = sweep.jobs[place.number]
    sweep.note_progress()
    try:
        job.exit_code = run()
    except BaseException as error:
        job.exit_code, job.error = _describe_failure(error)
        raise
    finally:
        sweep.current = None
        sweep.note_progress()
    return job.exit_code


def add_run_to_sweep(folder: Path, config: EvalConfig) -> SweepJob:
    """Note the folder of the current job's run in the sweep, and return the place of the run in it."""
    sweep, job = _running, _running.current if _running else None
    assert sweep is not None and job is not None, "called by a job of the sweep"
    job.folder = os.path.relpath(folder.resolve(), sweep.folder.resolve())  # so `outputs/` can be moved as a whole
    job.differs = [config.redact(each) for each in job.differs]
    sweep.config = config
    sweep.note_progress()
    return SweepJob(sweep.id, job.job, job.differs)


def end_sweep() -> Sweep | None:
    """End the sweep of this process, if there is one, and return it."""
    global _running
    sweep, _running = _running, None
    if sweep is not None:
        sweep.ended_at = datetime.now(UTC).isoformat()
        sweep.note_progress()
    return sweep


def _get_running(folder: Path, number: int) -> Sweep:
    global _running
    if _running is None or _running.folder != folder or number == 0:
        planned = list_sweep_jobs(folder / _MULTIRUN_FILE)  # also those that will never be reached
        jobs = [Job(number, [remove_passwords(each) for each in differs]) for number, differs in enumerate(planned)]
        _running = Sweep(folder, uuid.uuid4().hex[:12], datetime.now(UTC).isoformat(), jobs=jobs)
        note_run(_running.id, folder)
    return _running


def _describe_failure(error: BaseException) -> tuple[int | None, str]:
    if isinstance(error, InterruptedRunError | KeyboardInterrupt):
        return STOPPED, "stopped by Ctrl-C"
    if is_mistake(error):
        return USER_ERROR, remove_passwords(describe_mistake(error))
    return None, f"a defect of this program ({type(error).__name__})"
