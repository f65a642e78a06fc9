"""A sweep while it goes on: Hydra's multirun, whose jobs are ordinary runs, one after the other in this process.

def task(composed):                           # Hydra calls it for each job
    return as_job(lambda: evaluate(…))        # outside a multirun: evaluate, and nothing else

join_sweep(folder, config)    # in it, once the run has a folder: `RunInfo.sweep`
concluded(code)               # after the last job: the table; the exit code stays as it is
"""

import os
import socket
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import OmegaConf

from eval.cli.command import STOPPED, USER_ERROR, InterruptedRunError, signal_of
from eval.cli.hydra_compat import describe_mistake, get_task_overrides, is_mistake
from eval.config.evaluation import EvalConfig
from eval.config.tracking import NoTracking, Tracking, remove_passwords
from eval.runs.run_info import SweepJob
from eval.workflows.sweep.notes import Job, SweepNotes, relative, write_notes

_HYDRAS = "multirun.yaml"  # Hydra writes it before the first job


@dataclass
class _Sweep:
    folder: Path
    notes: SweepNotes
    current: Job | None = None
    tracking: Tracking | NoTracking = field(default_factory=NoTracking)
    secrets: list[str] = field(default_factory=list)

    def redact(self, text: str) -> str:
        for secret in self.secrets:  # longest first
            text = text.replace(secret, "***")
        return text

    def write(self) -> None:
        """A full disk does not end a run here; the run says it itself."""
        with suppress(OSError):
            write_notes(self.folder, self.notes)


_sweep: _Sweep | None = None  # of this process


def run_as_job(run: Callable[[], int]) -> int:
    """Run one job; in a multirun its end is noted, also the end by a mistake, by Ctrl-C or by a defect."""
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    if hydra is None or hydra.mode != RunMode.MULTIRUN:
        return run()
    sweep = _begun(Path(hydra.sweep.dir).absolute(), int(hydra.job.num))
    job = sweep.current = _job(sweep, int(hydra.job.num))
    sweep.write()
    try:
        job.exit_code = run()
    except BaseException as error:
        job.exit_code, job.error = _failure(error)
        raise
    finally:
        sweep.current = None
        sweep.write()
    return job.exit_code


def add_run_to_sweep(folder: Path, config: EvalConfig) -> SweepJob | None:
    """Note the run's folder.

    Returns:
        The place of the run in the sweep; None outside sweeps.
    """
    sweep, job = _sweep, _sweep.current if _sweep else None
    if sweep is None or job is None:
        return None
    job.folder = relative(folder, sweep.folder)
    job.differs = [config.redact(each) for each in job.differs]
    sweep.tracking, sweep.secrets = config.tracking, config.secrets()
    _clean_hydras(sweep.folder, config.redact)
    sweep.write()
    return SweepJob(
        id=sweep.notes.id,
        name=sweep.folder.name,
        started_at=sweep.notes.started_at,
        host=socket.gethostname(),
        pid=os.getpid(),
        job=job.job,
        differs=job.differs,
    )


def finish_sweep(code: int) -> int:
    """Make and show the sweep's table, if there was a sweep, and bring it into MLflow."""
    global _sweep
    sweep, _sweep = _sweep, None
    if sweep is None:
        return code
    sweep.notes.ended_at = datetime.now(UTC).isoformat()
    sweep.write()
    _clean_hydras(sweep.folder, sweep.redact)
    from eval.runs.store import StoreError
    from eval.workflows.sweep.end import make_table

    try:
        make_table(sweep.folder, sweep.notes, sweep.tracking, sweep.secrets)
    except (OSError, StoreError, KeyboardInterrupt) as error:
        why = f"stopped by {signal_of(error)}" if isinstance(error, KeyboardInterrupt) else error
        again = f"make it with: python eval/sweep.py {sweep.folder.name}"
        print(f"warning: the sweep's table could not be made: {why}; {again}", file=sys.stderr)
    return code


def _begun(folder: Path, number: int) -> _Sweep:
    global _sweep
    if _sweep is None or _sweep.folder != folder or number == 0:
        notes = SweepNotes(uuid.uuid4().hex[:12], datetime.now(UTC).isoformat(), jobs=_planned(folder / _HYDRAS))
        _sweep = _Sweep(folder, notes)
        _clean_hydras(folder)  # a job may end before it is known what is secret
    return _sweep


def _job(sweep: _Sweep, number: int) -> Job:
    jobs = sweep.notes.jobs
    while len(jobs) <= number:  # another sweeper decides as it goes what comes next
        jobs.append(Job(len(jobs), [remove_passwords(each) for each in get_task_overrides()]))
    return jobs[number]


def _planned(multirun: Path) -> list[Job]:
    """All jobs, those that will never be reached included, as Hydra's own sweeper makes them."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    hydra: Any = OmegaConf.load(multirun).hydra
    if not str(hydra.sweeper.get("_target_", "")).endswith(".BasicSweeper"):
        return []
    parameters = [f"{key}={value}" for key, value in (hydra.sweeper.get("params") or {}).items()]
    overrides = OverridesParser.create().parse_overrides([*parameters, *hydra.overrides.task])
    swept = tuple(f"{each.get_key_element()}=" for each in overrides if each.is_sweep_override())
    (jobs,) = BasicSweeper.split_arguments(overrides, None)
    return [
        Job(number, [remove_passwords(each) for each in job if each.startswith(swept)])
        for number, job in enumerate(jobs)
    ]


def _failure(error: BaseException) -> tuple[int | None, str]:
    if isinstance(error, InterruptedRunError | KeyboardInterrupt):
        return STOPPED, "stopped by Ctrl-C"
    if is_mistake(error):
        return USER_ERROR, remove_passwords(describe_mistake(error))
    return None, f"a defect of this program ({type(error).__name__})"


def _clean_hydras(folder: Path, redact: Callable[[str], str] = str) -> None:
    """Hydra keeps the command line as it was typed, an address with a password in it included."""
    path = folder / _HYDRAS
    with suppress(OSError):
        text = path.read_text("utf-8")
        if (clean := redact(remove_passwords(text))) != text:
            path.write_text(clean, "utf-8")
