"""A sweep while it goes on: Hydra's multirun, whose jobs are ordinary runs, one after the other in this process.

run_as_job(get_multirun_job(), lambda: evaluate(…, add_to_sweep=add_run_to_sweep))    # Hydra has called for this job
end_sweep()                         # after the last job; `eval.workflows.sweep_table` then makes the table
"""

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from eval.cli.command import STOPPED, USER_ERROR, InterruptedRunError
from eval.cli.hydra_compat import MultirunJob
from eval.cli.mistakes import describe_mistake, is_mistake
from eval.config.evaluation import EvalConfig
from eval.config.tracking import remove_passwords
from eval.runs.run_info import SweepJob

AddToSweep = Callable[[Path, EvalConfig], SweepJob]  # `add_run_to_sweep`
_MULTIRUN_FILE = "multirun.yaml"  # Hydra writes it before the first job, with the command line as it was typed


@dataclass
class Job:
    """One combination of a sweep's values."""

    job: int  # from 0
    differs: list[str]  # overrides that other jobs have otherwise
    folder: str | None = None  # of its run, relative to the sweep's folder; None: it ended before it had one
    run_id: str | None = None
    exit_code: int | None = None  # None: not ended
    error: str | None = None  # one sentence


@dataclass
class Sweep:
    """The jobs of a sweep that have begun."""

    folder: Path
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    jobs: list[Job] = field(default_factory=list)

    def find_run(self, job: Job) -> Path | None:
        return (self.folder / job.folder).resolve() if job.folder else None


_running: Sweep | None = None  # of this process


def run_as_job(place: MultirunJob, run: Callable[[], int]) -> int:
    """Run one job of a multirun and note how it ended."""
    global _running
    if _running is None or _running.folder != place.folder or place.number == 0:
        _running = Sweep(place.folder)
        (place.folder / _MULTIRUN_FILE).unlink(missing_ok=True)
    job = Job(place.number, [remove_passwords(each) for each in place.differs])
    _running.jobs.append(job)
    try:
        job.exit_code = run()
    except (InterruptedRunError, KeyboardInterrupt):
        job.exit_code, job.error = STOPPED, "stopped by Ctrl-C"
        raise
    except BaseException as error:
        job.error = f"a defect of this program ({type(error).__name__})"
        if is_mistake(error):
            job.exit_code, job.error = USER_ERROR, remove_passwords(describe_mistake(error))
        raise
    return job.exit_code


def add_run_to_sweep(folder: Path, config: EvalConfig) -> SweepJob:
    """Note the folder of the current job's run in the sweep, and return the place of the run in it."""
    assert _running is not None, "called by a job of the sweep"
    job = _running.jobs[-1]
    job.folder = os.path.relpath(folder.resolve(), _running.folder.resolve())  # so `outputs/` can be moved as a whole
    job.differs = [config.redact(each) for each in job.differs]
    return SweepJob(_running.id, job.job, job.differs)


def end_sweep() -> Sweep | None:
    global _running
    sweep, _running = _running, None
    return sweep
