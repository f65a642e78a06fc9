"""The table of a sweep: a row for each job, and each job compared with the first, made from the runs' stores alone.

result = make_table(end_sweep())     # shown, and kept in sweep.json
result.jobs[1].summary.accuracy, result.comparisons[0].made.p_holm
"""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from eval.analysis.comparison.answers import find_obstacle
from eval.analysis.comparison.compare_runs import (
    LABELS,
    MAX_RUNS,
    ComparisonResult,
    ReadRun,
    compare_read_runs,
    read_run,
)
from eval.analysis.summary.summarise import summarise_store
from eval.cli.command import STOPPED, get_signal_name
from eval.execution.console import Console, Output
from eval.reports.run_comparison.page import write_comparison
from eval.reports.summary_table import choose_exit_code
from eval.reports.sweep_table import JobComparison, JobResult, SweepResult, print_sweep
from eval.runs.folder import DATABASE, format_path, format_resume_hint, write_lines
from eval.runs.mlflow_state import read_link
from eval.runs.store import open_run
from eval.workflows.sweep import Job, Sweep
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line

PAGE_FILE, NUMBERS_FILE = "sweep.html", "sweep.json"


def finish_sweep(sweep: Sweep) -> None:
    """Make the table of a sweep that has just ended; a failure is a warning, and changes no exit code."""
    try:
        make_table(sweep)
    except (OSError, KeyboardInterrupt) as error:
        why = f"stopped by {get_signal_name(error)}" if isinstance(error, KeyboardInterrupt) else error
        print_line(f"warning: the sweep's table could not be made: {why}; its runs are complete", error=True)


def make_table(sweep: Sweep) -> SweepResult:
    """Make the table, print it and write it to the sweep's folder.

    Raises:
        OSError: the sweep's folder cannot be written.
    """
    result, compared = build_result(sweep)
    sweep.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = {"id": sweep.id, "started_at": sweep.started_at, "ended_at": datetime.now(UTC).isoformat()}
    write_lines(sweep.folder / NUMBERS_FILE, [json.dumps({**own, **result.to_dict()}, indent=2)])
    output = Output()
    print_sweep(result, output.console)
    output.print(f"sweep: {format_path(sweep.folder)}")
    if page := _write_page(sweep, compared):
        output.print(f"page: {format_path(page)}")
    for job, its_result in zip(sweep.jobs, result.jobs, strict=True):
        if its_result.exit_code == STOPPED and (run := sweep.find_run(job)):
            output.print(f"job {job.job}: {format_resume_hint(run)}")
    if any(each.exit_code == STOPPED for each in result.jobs):
        output.print("then compare the runs with: python eval/compare.py RUN RUN …")
    return result


def _write_page(sweep: Sweep, compared: ComparisonResult | None) -> Path | None:
    """Write the page of the jobs that can be compared with the first, of very many the first; None: there are none.

    Raises:
        OSError: the page cannot be written.
    """
    if compared is None:
        return None
    shown = replace(compared, runs=compared.runs[:MAX_RUNS], comparisons=compared.comparisons[: MAX_RUNS - 1])
    write_comparison(page := sweep.folder / PAGE_FILE, shown, shown.runs)
    return page


def build_result(sweep: Sweep) -> tuple[SweepResult, ComparisonResult | None]:
    """Return the rows of the jobs, and each job compared with the first as `eval/compare.py` compares them."""
    jobs = [_read_job(job, sweep.find_run(job)) for job in sweep.jobs]
    reasons, runs = dict[int, str](), dict[int, ReadRun]()  # by job: why it is not compared, or its run
    first = jobs[0][1]
    for number, (_, run) in enumerate(jobs):
        if first is None or run is None:
            reasons[number] = f"{'job 0' if first is None else 'it'} has no answers"
        elif number and (reason := find_obstacle(first.answers, run.answers)):
            reasons[number] = reason
        else:
            runs[number] = replace(run, label=LABELS[len(runs)] if len(runs) < MAX_RUNS else str(number))
    compared = compare_read_runs(list(runs.values()), intersection=False) if len(runs) > 1 else None
    made = dict(zip(list(runs)[1:], compared.comparisons, strict=True)) if compared else {}
    comparisons = [JobComparison(each, reasons.get(each), made.get(each)) for each in range(1, len(jobs))]
    return SweepResult([result for result, _ in jobs], comparisons), compared


def _read_job(job: Job, folder: Path | None) -> tuple[JobResult, ReadRun | None]:
    """Return the job's result, and its run if that has any answer."""
    result = JobResult(**asdict(job))
    if folder is None or not (folder / DATABASE).is_file():
        return result, None
    try:
        with open_run(folder) as store:
            summary, info = summarise_store(store), store.read_info()
            if not store.read_last_attempts():  # it ended before its first answer
                return replace(result, error=job.error or summary.stopped), None
        run = read_run("", folder)
    except UserError as error:
        return replace(result, error=str(error)), None
    code = choose_exit_code(summary, info.part("run").get("fail_under"), Console(quiet=True))
    result = replace(result, run_id=info.run_id, error=None, exit_code=code, summary=summary, mlflow=read_link(folder))
    return result, replace(run, name=", ".join(job.differs) or run.name)
