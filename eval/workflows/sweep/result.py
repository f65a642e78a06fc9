"""What came of a sweep: a row for each job, and each compared with the first, made from the runs' stores alone.

result = sweep_result(folder, read_notes(folder))
result["jobs"][1]["accuracy"], result["comparisons"][0]["p_holm"]
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.analysis.comparison.pairing import Answers, find_obstacle, pair_scores, read_answers
from eval.analysis.statistics.paired_tests import adjust_p_values, run_paired_test
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.reports.from_store import summarise_store
from eval.runs.folder import DATABASE
from eval.runs.mlflow_state import read_link
from eval.runs.store import RunStore, StoreError
from eval.workflows.sweep.notes import Job, SweepNotes

_SUMMARY_KEYS = (
    *("accuracy", "accuracy_ci95", "n", "n_scored", "n_correct", "n_error", "wall_seconds", "stopped"),
    *("used_to_tune", "incomplete", "n_not_run"),
)
_EMPTY = {**dict.fromkeys(_SUMMARY_KEYS), "cost_usd": None, "simulated": False, "mlflow": None}


def sweep_result(folder: Path, notes: SweepNotes) -> dict[str, Any]:
    """`jobs`, `comparisons` and `simulated` of `sweep.json`; a run that was resumed since counts as it is now.

    Raises:
        StoreError: a run's store cannot be read.
    """
    read = [_read(folder, job) for job in notes.jobs]
    return {
        "jobs": [row for row, _ in read],
        "comparisons": _comparisons([answers for _, answers in read]),
        "simulated": any(row["simulated"] for row, _ in read),
    }


def _read(folder: Path, job: Job) -> tuple[dict[str, Any], Answers | None]:
    """The job's row, and its answers if it has any."""
    run = job.run(folder)
    row = {**asdict(job), **_EMPTY}
    if run is None or not (run / DATABASE).is_file():
        return row, None
    try:
        with RunStore(run / DATABASE, read_only=True) as store:
            summary, info = summarise_store(store), store.read_info()
            if not store.keys():  # it ended before its first answer
                return {**row, "error": job.error or summary["stopped"]}, None
            answers = read_answers(store)
    except StoreError as error:
        return {**row, "error": str(error)}, None
    floor = info.part("run").get("fail_under")
    row |= {"run_id": info.run_id, **{key: summary[key] for key in _SUMMARY_KEYS}}
    row |= {"cost_usd": summary["usage"]["cost_usd"], "simulated": summary["simulated"], "mlflow": read_link(run)}
    return {**row, "error": None, "exit_code": _code(summary, floor)}, answers


def _code(summary: dict[str, Any], floor: float | None) -> int:
    if summary["stopped"]:
        return STOPPED
    below = floor is not None and (summary["accuracy"] or 0.0) < floor
    return FAILURES if below or summary["n_error"] else FINISHED


def _comparisons(answers: Sequence[Answers | None]) -> list[dict[str, Any]]:
    """Of each job after the first with the first; `reason`: why there is none."""
    if not answers:
        return []
    made = [_comparison(answers[0], other) for other in answers[1:]]
    p_values = adjust_p_values([each["p"] for each in made if each["reason"] is None])
    adjusted = iter(p_values)
    return [
        {"job": job, "against": 0, **each, **({"p_holm": next(adjusted)} if each["reason"] is None else {})}
        for job, each in enumerate(made, start=1)
    ]


def _comparison(first: Answers | None, second: Answers | None) -> dict[str, Any]:
    if first is None or second is None:
        return {"reason": f"{'job 0' if first is None else 'it'} has no answers"}
    if reason := find_obstacle(first, second):
        return {"reason": reason}
    return {"reason": None, **run_paired_test(pair_scores(first, second)).to_dict()}
