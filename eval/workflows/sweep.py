"""A sweep: Hydra's multirun, whose jobs are ordinary runs, one after the other in this process, and then its table.

run_as_job(get_multirun_job(), composed, evaluate_job)      # Hydra has called for this job
finish_sweep()                      # after the last job: a row for each job, and the command that compares them
"""

import shlex
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from eval.analysis.summary.summary import Summary
from eval.cli.command import STOPPED, InterruptedRunError
from eval.cli.hydra_compat import MISTAKES, MultirunJob
from eval.cli.mistakes import describe_mistake
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig, read_config, remove_passwords
from eval.execution.console import Output
from eval.reports.formats import Table, format_floor, format_interval, format_usd
from eval.runs.folder import format_path, format_resume_hint
from eval.runs.run_info import SweepJob
from eval.scorers.score import join_metrics
from eval.workflows.evaluate import Ended
from mas.simulation import SIMULATED_NOTICE

_MULTIRUN_FILE = "multirun.yaml"  # Hydra writes it before the first job, with the command line as it was typed


@dataclass
class Job:
    """One combination of a sweep's values."""

    place: SweepJob
    ended: Ended | None = None
    error: str = "interrupted"  # why it did not end

    @property
    def summary(self) -> Summary | None:
        """Numbers of its run; None: it has no answer."""
        found = self.ended.summary if self.ended else None
        return found if found and found.n_not_run < found.n else None


_jobs: list[Job] = []  # of the sweep that this process runs


def run_as_job(place: MultirunJob, composed: DictConfig, run: Callable[[EvalConfig, SweepJob], Ended]) -> int:
    """Run one job of a multirun, and keep how it ended."""
    with suppress(OSError):  # the folder that Hydra makes; the runs are elsewhere
        (place.folder / _MULTIRUN_FILE).unlink(missing_ok=True)
        place.folder.rmdir()
    if place.number == 0:
        _jobs.clear()
    sweep_id = _jobs[0].place.id if _jobs else uuid.uuid4().hex[:12]
    job = Job(SweepJob(sweep_id, place.number, [remove_passwords(each) for each in place.differs]))
    _jobs.append(job)
    try:
        config = read_config(composed)
        job.place = SweepJob(sweep_id, place.number, [config.redact(each) for each in job.place.differs])
        job.ended = run(config, job.place)
    except MISTAKES as error:
        job.error = remove_passwords(describe_mistake(error))
        raise
    if job.ended.is_interrupted:
        raise InterruptedRunError  # the next job is not started
    return job.ended.code


def finish_sweep() -> None:
    """Print a row for each job of the sweep that has just ended, and how to go on with them and compare them."""
    jobs, output = _jobs.copy(), Output()
    _jobs.clear()
    if not jobs:
        return
    summaries = [summary for job in jobs if (summary := job.summary)]
    if any(each.simulated for each in summaries):
        output.print(SIMULATED_NOTICE, style="bold yellow")
    metric = join_metrics(each.metric for each in summaries)
    keys = {each.partition("=")[0] for job in jobs for each in job.place.differs}
    differs = keys.pop() if len(keys) == 1 else "what differs"  # one key is the heading: the table is narrow
    headings = ("job", differs, metric, "95% interval", "errors", "cost", "time")
    rows = [_list_cells(job, f"{differs}=") for job in jobs]
    output.console.print(Table(headings, rows, left=(differs,)).build("sweep"))
    for job in jobs:
        for line in _list_lines(job):
            output.print(f"job {job.place.job}: {line}")
    if len(summaries) > 1:
        runs = [_format_name(job.ended.folder) for job in jobs if job.ended and job.summary]
        output.print(f"compare them with: python eval/compare.py {' '.join(runs)}")


def _list_cells(job: Job, prefix: str) -> tuple[str, ...]:
    name, differs = str(job.place.job), " ".join(each.removeprefix(prefix) for each in job.place.differs) or "nothing"
    if (summary := job.summary) is None:
        return name, differs, "no result", *[""] * 4
    score, interval = format_floor(summary.score, summary.incomplete), format_interval(summary.score_ci95)
    errors, cost = str(summary.n_error - summary.n_not_run), format_usd(summary.usage.cost_usd)
    return name, differs, score, interval, errors, cost, f"{summary.wall_seconds:,.1f} s"


def _list_lines(job: Job) -> list[str]:
    if (ended := job.ended) is None:
        return [job.error]
    stopped = [ended.summary.stopped] if ended.summary and ended.summary.stopped else []
    hint = [format_resume_hint(ended.folder)] if ended.code == STOPPED else []
    return [ended.folder.name, *stopped, *hint]


def _format_name(folder: Path) -> str:
    return shlex.quote(folder.name if folder.parent == OUTPUTS / "eval" else format_path(folder))
