"""Results of a sweep, as `sweep.json` and the terminal show them: a row for each job, and each compared with the first.

print_sweep(SweepResult(jobs, comparisons), Console())
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

from rich.text import Text

from eval.analysis.comparison.compare_runs import RunComparison
from eval.analysis.summary.summary import Summary
from eval.execution.console import Console
from eval.reports.formats import NOT_AVAILABLE, format_floor, format_interval, format_p_value, format_points, format_usd
from eval.reports.notes import describe_tuned_on
from eval.reports.tables import Table
from eval.scorers.score import join_metrics
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

_SUMMARY_KEYS = (
    *("accuracy", "accuracy_ci95", "n", "n_scored", "n_correct", "n_error", "wall_seconds", "stopped"),
    *("metric", "score", "score_ci95"),
    *("used_to_tune", "incomplete", "n_not_run"),
)


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """One combination of a sweep's values."""

    job: int  # from 0
    differs: Sequence[str]  # overrides that other jobs have otherwise
    folder: str | None  # of its run, relative to the sweep's folder
    run_id: str | None
    exit_code: int | None  # None: not started, or not ended
    error: str | None
    summary: Summary | None = None  # None: no answer
    mlflow: dict[str, str] | None = None

    def to_dict(self) -> dict[str, object]:
        data = {each: value for each, value in asdict(self).items() if each not in ("summary", "mlflow")}
        numbers = self.summary.to_dict() if self.summary else {}
        data |= {key: numbers.get(key) for key in _SUMMARY_KEYS}
        data["cost_usd"] = self.summary.usage.cost_usd if self.summary else None
        data["simulated"] = self.summary is not None and self.summary.simulated
        return {**data, "mlflow": self.mlflow}


@dataclass(frozen=True)
class JobComparison:
    """A job compared with the first."""

    job: int
    reason: str | None = None  # why it is not
    made: RunComparison | None = None

    def to_dict(self) -> dict[str, object]:
        data: dict[str, object] = {"job": self.job, "against": 0, "reason": self.reason}
        if made := self.made:
            counts = {name: getattr(made, name) for name in ("n_left_out", "n_tuned_on", "is_optimistic")}
            data |= {**made.comparison.score.to_dict(), **counts, "p_holm": made.p_holm}
        return data


@dataclass(frozen=True)
class SweepResult:
    """All jobs and comparisons."""

    jobs: Sequence[JobResult]
    comparisons: Sequence[JobComparison]

    @property
    def simulated(self) -> bool:
        return any(job.summary is not None and job.summary.simulated for job in self.jobs)

    def to_dict(self) -> dict[str, object]:
        return {
            "jobs": [each.to_dict() for each in self.jobs],
            "comparisons": [each.to_dict() for each in self.comparisons],
            "simulated": self.simulated,
        }


def print_sweep(result: SweepResult, console: Console) -> None:
    """Print both tables and the remarks."""
    if result.simulated:
        console.print(Text(SIMULATED_NOTICE, style="bold yellow"))
    metric = join_metrics(job.summary.metric for job in result.jobs if job.summary is not None)
    headings = ("job", "what differs", metric, "95% interval", "errors", "cost", "time")
    console.print(Table(headings, list(map(_describe_job, result.jobs)), left=("what differs",)).build("sweep"))
    for job in result.jobs:
        if job.folder:  # too long for a column
            console.print(Text(f"job {job.job}: {PurePath(job.folder).name}"), soft_wrap=True)
    if rows := [_describe_comparison(each.job, each.made) for each in result.comparisons if each.made]:
        headings = ("job", "difference", "95% interval", "p", "p (Holm)", "won/lost/equal", "detectable difference")
        console.print(Table(headings, rows).build("compared with job 0"))
    for line in _list_remarks(result, metric):
        console.print(Text(line), soft_wrap=True)


def _list_remarks(result: SweepResult, metric: str) -> Iterator[str]:
    """Yield everything that the tables have no room for."""
    for row in result.jobs:
        if why := row.error or (row.summary and row.summary.stopped):
            yield f"job {row.job}: {why}"
        overlap = row.summary.used_to_tune if row.summary else None
        if row.summary and overlap and (overlap.n_questions or overlap.edited):
            line = describe_tuned_on(overlap, row.summary.incomplete, row.summary.metric)
            yield f"job {row.job}: {line}"
    for each in result.comparisons:
        if each.reason:
            yield f"job {each.job} is not compared with job 0: {each.reason}"
        elif each.made and each.made.is_optimistic:
            yield f"warning: job {each.job}: all questions were tuned on; p and the difference are too optimistic"
        elif each.made and (n := each.made.n_tuned_on):
            left_out = f"{format_count(n, 'question')} that prompts were tuned on"
            yield f"job {each.job} is compared with job 0 without {left_out}"
    made = [each.made.comparison.score for each in result.comparisons if each.made]
    if not made:
        return
    tests = " and ".join(sorted({each.test for each in made}))
    times = "" if made[0].epochs == 1 else f", each answered {made[0].epochs} times"
    counts = sorted({each.n_questions for each in made})
    questions = f"{' or '.join(map(str, counts))} questions with a gold answer{times}"
    yield f"{questions}; differences in points of {metric}; p by {tests}; the interval is clustered by question"
    if len(made) > 1:
        luck = "so that one may look good by luck: p (Holm) allows for it, the intervals do not"
        yield f"{len(made)} comparisons were made, {luck}"
    yield "detectable difference: the smallest true one that these questions would show in 80 of 100 such comparisons"


def _describe_job(row: JobResult) -> tuple[str, ...]:
    job, differs = str(row.job), " ".join(row.differs) or "nothing"
    if (summary := row.summary) is None:
        state = "not started" if row.exit_code is None and row.error is None else "no result"
        return job, differs, state, "", "", "", ""
    score, interval = format_floor(summary.score, summary.incomplete), format_interval(summary.score_ci95)
    errors, cost = str(summary.n_error - summary.n_not_run), format_usd(summary.usage.cost_usd)
    return job, differs, score, interval, errors, cost, f"{summary.wall_seconds:,.1f} s"


def _describe_comparison(job: int, compared: RunComparison) -> tuple[str, ...]:
    made = compared.comparison.score
    shows = made.smallest_difference
    return (
        str(job),
        format_points(made.difference),
        " to ".join(map(format_points, made.ci95)) if made.ci95 else NOT_AVAILABLE,
        format_p_value(made.p),
        format_p_value(compared.p_holm),
        f"{made.wins}/{made.losses}/{made.ties}",
        NOT_AVAILABLE if shows is None else f"±{100 * shows:.1f}",
    )
