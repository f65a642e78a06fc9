"""The table of a sweep: a row for each job, and each job compared with the first, made from the runs' stores alone.

result = make_table(end_sweep())     # shown, and kept in sweep.json
result.jobs[1].summary.accuracy, result.comparisons[0].p_holm
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from eval.analysis.comparison.answers import Answers, find_obstacle, pair_scores, read_answers
from eval.analysis.comparison.compare_runs import MAX_RUNS, compare_read_runs, read_runs
from eval.analysis.statistics.paired_tests import adjust_p_values, run_paired_test
from eval.analysis.summary.from_store import summarise_store
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
    result = build_result(sweep)
    sweep.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = {"id": sweep.id, "started_at": sweep.started_at, "ended_at": datetime.now(UTC).isoformat()}
    write_lines(sweep.folder / NUMBERS_FILE, [json.dumps({**own, **result.to_dict()}, indent=2)])
    output = Output()
    print_sweep(result, output.console)
    output.print(f"sweep: {format_path(sweep.folder)}")
    if page := _write_page(sweep, result):
        output.print(f"page: {format_path(page)}")
    for job, its_result in zip(sweep.jobs, result.jobs, strict=True):
        if its_result.exit_code == STOPPED and (run := sweep.find_run(job)):
            output.print(f"job {job.job}: {format_resume_hint(run)}")
    if any(each.exit_code == STOPPED for each in result.jobs):
        output.print("then compare the runs with: python eval/compare.py RUN RUN …")
    return result


def _write_page(sweep: Sweep, result: SweepResult) -> Path | None:
    """Write the page of the jobs that can be compared with the first; None: there are fewer than two.

    Raises:
        OSError: the page cannot be written.
    """
    found = {}
    for job, its_result in zip(sweep.jobs, result.jobs, strict=True):
        if its_result.summary is not None and (run := sweep.find_run(job)) is not None:
            found[run] = ", ".join(its_result.differs) or run.name
    try:
        runs = read_runs(list(found)[:MAX_RUNS])
        runs = [runs[0], *(each for each in runs[1:] if find_obstacle(runs[0].answers, each.answers) is None)]
        if len(runs) < 2:
            return None
        compared = compare_read_runs(runs, intersection=False)
        named = [replace(each, name=found[run.path]) for each, run in zip(compared.runs, runs, strict=True)]
        write_comparison(page := sweep.folder / PAGE_FILE, replace(compared, runs=named), runs)
    except UserError:  # one run alone, or one that is broken: the table says so
        return None
    return page


def build_result(sweep: Sweep) -> SweepResult:
    """Return the rows of the jobs, and each job compared with the first."""
    jobs = [_read_job(job, sweep.find_run(job)) for job in sweep.jobs]
    return SweepResult([result for result, _ in jobs], _compare_jobs([answers for _, answers in jobs]))


def _read_job(job: Job, run: Path | None) -> tuple[JobResult, Answers | None]:
    """Return the job's result, and its answers if it has any."""
    result = JobResult(**asdict(job))
    if run is None or not (run / DATABASE).is_file():
        return result, None
    try:
        with open_run(run) as store:
            summary, info = summarise_store(store), store.read_info()
            if not store.read_last_attempts():  # it ended before its first answer
                return replace(result, error=job.error or summary.stopped), None
            answers = read_answers(store)
    except UserError as error:
        return replace(result, error=str(error)), None
    code = choose_exit_code(summary, info.part("run").get("fail_under"), Console(quiet=True))
    result = replace(result, run_id=info.run_id, error=None, exit_code=code, summary=summary, mlflow=read_link(run))
    return result, answers


def _compare_jobs(answers: Sequence[Answers | None]) -> list[JobComparison]:
    """Return each job after the first compared with the first."""
    made, first = list[JobComparison](), answers[0]
    for job, second in enumerate(answers[1:], start=1):
        if first is None or second is None:
            made.append(JobComparison(job=job, reason=f"{'job 0' if first is None else 'it'} has no answers"))
        elif reason := find_obstacle(first, second):
            made.append(JobComparison(job=job, reason=reason))
        else:
            made.append(JobComparison(job=job, result=run_paired_test(pair_scores(first, second))))
    adjusted = iter(adjust_p_values([each.result.p for each in made if each.result]))
    return [replace(each, p_holm=next(adjusted)) if each.result else each for each in made]
