"""Build a sweep's result from the stores of its runs.

result = build_result(folder, read_notes(folder))
result.jobs[1].summary.accuracy, result.comparisons[0].p_holm
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from eval.analysis.comparison.pairing import Answers, find_obstacle, pair_scores, read_answers
from eval.analysis.statistics.paired_tests import adjust_p_values, run_paired_test
from eval.analysis.summary.from_store import summarise_store
from eval.analysis.summary.summary import Summary
from eval.analysis.sweep import JobComparison, JobResult, SweepResult
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.runs.folder import DATABASE
from eval.runs.mlflow_state import read_link
from eval.runs.store import RunStore, StoreError
from eval.workflows.sweep.notes import Job, SweepNotes


def build_result(folder: Path, notes: SweepNotes) -> SweepResult:
    """Return the result as the runs are now: one of them may have been resumed since.

    Raises:
        StoreError: a run's store cannot be read.
    """
    jobs = [_read_job(folder, job) for job in notes.jobs]
    return SweepResult([result for result, _ in jobs], _compare_jobs([answers for _, answers in jobs]))


def _read_job(folder: Path, job: Job) -> tuple[JobResult, Answers | None]:
    """Return the job's result, and its answers if it has any."""
    run = job.run(folder)
    result = JobResult(**asdict(job))
    if run is None or not (run / DATABASE).is_file():
        return result, None
    try:
        with RunStore(run / DATABASE, read_only=True) as store:
            summary, info = summarise_store(store), store.read_info()
            if not store.keys():  # it ended before its first answer
                return replace(result, error=job.error or summary.stopped), None
            answers = read_answers(store)
    except StoreError as error:
        return replace(result, error=str(error)), None
    floor = info.part("run").get("fail_under")
    result = replace(result, run_id=info.run_id, error=None, exit_code=_choose_exit_code(summary, floor))
    return replace(result, summary=summary, mlflow=read_link(run)), answers


def _choose_exit_code(summary: Summary, floor: float | None) -> int:
    if summary.stopped:
        return STOPPED
    below = floor is not None and (summary.accuracy or 0.0) < floor
    return FAILURES if below or summary.n_error else FINISHED


def _compare_jobs(answers: Sequence[Answers | None]) -> list[JobComparison]:
    """Return each job after the first compared with the first."""
    made = [_compare(job, answers[0], other) for job, other in enumerate(answers[1:], start=1)]
    adjusted = iter(adjust_p_values([each.result.p for each in made if each.result]))
    return [replace(each, p_holm=next(adjusted)) if each.result else each for each in made]


def _compare(job: int, first: Answers | None, second: Answers | None) -> JobComparison:
    if first is None or second is None:
        return JobComparison(job=job, reason=f"{'job 0' if first is None else 'it'} has no answers")
    if reason := find_obstacle(first, second):
        return JobComparison(job=job, reason=reason)
    return JobComparison(job=job, result=run_paired_test(pair_scores(first, second)))
