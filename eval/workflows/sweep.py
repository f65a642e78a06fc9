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
import socket
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
from eval.config.tracking import NoTracking, Tracking, remove_passwords
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


@dataclass
class RunningSweep:
    """The sweep of this process."""

    sweep: Sweep
    current: Job | None = None
    tracking: Tracking | NoTracking = field(default_factory=NoTracking)  # of the last job
    secrets: list[str] = field(default_factory=list)
    redact: Callable[[str], str] = str  # takes these out of a text

    def write(self) -> None:
        """Write `sweep.json`. A full disk does not end a run here; the run reports it itself."""
        with suppress(OSError):
            self.sweep.write()


_running: RunningSweep | None = None


def run_as_job(place: MultirunJob, run: Callable[[], int]) -> int:
    """Run one job of a multirun and note how it ended, be it by a mistake, by Ctrl-C or by a defect."""
    running = _get_running(*place)
    job = running.current = running.sweep.jobs[place.number]
    running.write()
    try:
        job.exit_code = run()
    except BaseException as error:
        job.exit_code, job.error = _describe_failure(error)
        raise
    finally:
        running.current = None
        running.write()
    return job.exit_code


def add_run_to_sweep(folder: Path, config: EvalConfig) -> SweepJob:
    """Note the folder of the current job's run in the sweep, and return the place of the run in it."""
    running, job = _running, _running.current if _running else None
    assert running is not None and job is not None, "called by a job of the sweep"
    sweep = running.sweep
    job.folder = os.path.relpath(folder.resolve(), sweep.folder.resolve())  # so `outputs/` can be moved as a whole
    job.differs = [config.redact(each) for each in job.differs]
    running.tracking, running.secrets, running.redact = config.tracking, config.secrets(), config.redact
    _clean_multirun_file(sweep.folder, config.redact)
    running.write()
    return SweepJob(
        id=sweep.id,
        name=sweep.folder.name,
        started_at=sweep.started_at,
        host=socket.gethostname(),
        pid=os.getpid(),
        job=job.job,
        differs=job.differs,
    )


def end_sweep() -> RunningSweep | None:
    """End the sweep of this process, if there is one, and return it."""
    global _running
    running, _running = _running, None
    if running is not None:
        running.sweep.ended_at = datetime.now(UTC).isoformat()
        running.write()
        _clean_multirun_file(running.sweep.folder, running.redact)
    return running


def _get_running(folder: Path, number: int) -> RunningSweep:
    global _running
    if _running is None or _running.sweep.folder != folder or number == 0:
        planned = list_sweep_jobs(folder / _MULTIRUN_FILE)  # also those that will never be reached
        jobs = [Job(number, [remove_passwords(each) for each in differs]) for number, differs in enumerate(planned)]
        _running = RunningSweep(Sweep(folder, uuid.uuid4().hex[:12], datetime.now(UTC).isoformat(), jobs=jobs))
        note_run(_running.sweep.id, folder)
        _clean_multirun_file(folder)  # a job may end before it is known what is secret
    return _running


def _describe_failure(error: BaseException) -> tuple[int | None, str]:
    if isinstance(error, InterruptedRunError | KeyboardInterrupt):
        return STOPPED, "stopped by Ctrl-C"
    if is_mistake(error):
        return USER_ERROR, remove_passwords(describe_mistake(error))
    return None, f"a defect of this program ({type(error).__name__})"


def _clean_multirun_file(folder: Path, redact: Callable[[str], str] = str) -> None:
    """Remove secrets: Hydra keeps the command line as it was typed, an address with a password in it included."""
    path = folder / _MULTIRUN_FILE
    with suppress(OSError):
        text = path.read_text("utf-8")
        if (clean := redact(remove_passwords(text))) != text:
            path.write_text(clean, "utf-8")
