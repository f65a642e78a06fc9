"""A sweep: Hydra's multirun, whose jobs are ordinary runs, one after the other in this process, and then its table.

run_as_job(get_multirun_job(), lambda: evaluate(…, add_to_sweep=add_run_to_sweep))    # Hydra has called for this job
finish_sweep()                      # after the last job: a row for each job, and the command that compares them
"""

import shlex
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from eval.analysis.summary.summarise import summarise_store
from eval.analysis.summary.summary import Summary
from eval.cli.command import STOPPED, USER_ERROR, get_signal_name
from eval.cli.hydra_compat import MISTAKES, MultirunJob
from eval.cli.mistakes import describe_mistake
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig, remove_passwords
from eval.execution.console import Output
from eval.reports.formats import Table, format_floor, format_interval, format_usd
from eval.runs.folder import DATABASE, format_path, format_resume_hint
from eval.runs.run_info import SweepJob
from eval.runs.store import open_run
from eval.scorers.score import join_metrics
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.simulation import SIMULATED_NOTICE

AddToSweep = Callable[[Path, EvalConfig], SweepJob]  # `add_run_to_sweep`
_MULTIRUN_FILE = "multirun.yaml"  # Hydra writes it before the first job, with the command line as it was typed


@dataclass
class Job:
    """One combination of a sweep's values."""

    number: int  # from 0
    differs: list[str]  # overrides that other jobs have otherwise
    folder: Path | None = None  # of its run; None: it ended before it had one
    exit_code: int | None = None
    error: str | None = None  # one sentence

    @property
    def name(self) -> str:
        return f"job {self.number}"


@dataclass
class Sweep:
    """The jobs of a sweep that have begun."""

    folder: Path
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    jobs: list[Job] = field(default_factory=list)


_running: Sweep | None = None  # of this process


def run_as_job(place: MultirunJob, run: Callable[[], int]) -> int:
    """Run one job of a multirun and note how it ended."""
    global _running
    if _running is None or place.number == 0:
        _running = Sweep(place.folder)
        (place.folder / _MULTIRUN_FILE).unlink(missing_ok=True)
    job = Job(place.number, [remove_passwords(each) for each in place.differs])
    _running.jobs.append(job)
    try:
        job.exit_code = run()
    except KeyboardInterrupt:
        job.exit_code, job.error = STOPPED, "stopped by Ctrl-C"
        raise
    except MISTAKES as error:
        job.exit_code, job.error = USER_ERROR, remove_passwords(describe_mistake(error))
        raise
    return job.exit_code


def add_run_to_sweep(folder: Path, config: EvalConfig) -> SweepJob:
    """Note the folder of the current job's run in the sweep, and return the place of the run in it."""
    assert _running is not None, "called by a job of the sweep"
    job = _running.jobs[-1]
    job.folder, job.differs = folder.resolve(), [config.redact(each) for each in job.differs]
    return SweepJob(_running.id, job.number, job.differs)


def finish_sweep() -> None:
    """Show the sweep that has just ended; a failure is a warning, and changes no exit code."""
    global _running
    sweep, _running = _running, None
    try:
        if sweep:
            show_sweep(sweep, Output())
            with suppress(OSError):
                sweep.folder.rmdir()  # made by Hydra; its runs are elsewhere
    except (OSError, KeyboardInterrupt) as error:
        why = f"stopped by {get_signal_name(error)}" if isinstance(error, KeyboardInterrupt) else error
        print_line(f"warning: the sweep's table could not be made: {why}; its runs are complete", error=True)


def show_sweep(sweep: Sweep, output: Output) -> None:
    """Print a row for each job, and how to continue those that stopped and compare all."""
    found = [(job, _read_summary(job)) for job in sweep.jobs]
    summaries = [summary for _, summary in found if summary]
    if any(each.simulated for each in summaries):
        output.print(SIMULATED_NOTICE, style="bold yellow")
    metric = join_metrics(each.metric for each in summaries)
    keys = {each.partition("=")[0] for job in sweep.jobs for each in job.differs}
    differs = keys.pop() if len(keys) == 1 else "what differs"  # one key is the heading: the table is narrow
    headings = ("job", differs, metric, "95% interval", "errors", "cost", "time")
    rows = [_list_cells(job, summary, f"{differs}=") for job, summary in found]
    output.console.print(Table(headings, rows, left=(differs,)).build("sweep"))
    for job, summary in found:
        output.print(f"{job.name}: {job.folder.name if job.folder else 'no run'}")
        if why := (summary and summary.stopped) or job.error:
            output.print(f"{job.name}: {why}")
        if job.exit_code == STOPPED and job.folder:
            output.print(f"{job.name}: {format_resume_hint(job.folder)}")
    if len(summaries) > 1:
        runs = [_format_name(job.folder) for job, summary in found if job.folder and summary]
        output.print(f"compare them with: python eval/compare.py {' '.join(runs)}")


def _format_name(folder: Path) -> str:
    return shlex.quote(folder.name if folder.parent == OUTPUTS / "eval" else format_path(folder))


def _read_summary(job: Job) -> Summary | None:
    """Return the numbers of a job's run; None: it has no answer."""
    if job.folder is None or not (job.folder / DATABASE).is_file():
        return None
    try:
        with open_run(job.folder) as store:
            summary, has_answers = summarise_store(store), bool(store.read_last_attempts())
    except UserError as error:
        job.error = str(error)
        return None
    if not has_answers:
        job.error = job.error or summary.stopped
    return summary if has_answers else None


def _list_cells(job: Job, summary: Summary | None, prefix: str) -> tuple[str, ...]:
    name, differs = str(job.number), " ".join(each.removeprefix(prefix) for each in job.differs) or "nothing"
    if summary is None:
        return name, differs, "no result", *[""] * 4
    score, interval = format_floor(summary.score, summary.incomplete), format_interval(summary.score_ci95)
    errors, cost = str(summary.n_error - summary.n_not_run), format_usd(summary.usage.cost_usd)
    return name, differs, score, interval, errors, cost, f"{summary.wall_seconds:,.1f} s"
