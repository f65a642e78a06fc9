"""A sweep for the terminal and for MLflow's pages: a row for each job, then each job compared with the first.

print_sweep(result, Console())
render_markdown(result)
"""

from collections.abc import Iterator
from pathlib import PurePath

from rich.text import Text

from eval.analysis.sweep import JobResult, SweepResult
from eval.execution.console import Console
from eval.reports.formats import NOT_AVAILABLE, format_floor, format_interval, format_p_value, format_points, format_usd
from eval.reports.notes import describe_tuned_on
from eval.reports.tables import Table
from eval.scorers.score import join_metrics
from mas.simulation import SIMULATED_NOTICE


def print_sweep(result: SweepResult, console: Console) -> None:
    """Print both tables and the remarks."""
    if result.simulated:
        console.print(Text(SIMULATED_NOTICE, style="bold yellow"))
    jobs, compared = _build_jobs(result), _build_comparisons(result)
    # a folder's name is too long for a column
    console.print(jobs.drop("run").build("sweep"))
    for number, *_, run in jobs.rows:
        if run:
            console.print(Text(f"job {number}: {run}"), soft_wrap=True)
    if compared.rows:
        console.print(compared.build("compared with job 0"))
    for line in list_remarks(result):
        console.print(Text(line), soft_wrap=True)


def render_markdown(result: SweepResult) -> str:
    """Return the same in Markdown."""
    parts = [f"**{SIMULATED_NOTICE}**"] if result.simulated else []
    parts.append(_build_jobs(result).render_markdown())
    if (compared := _build_comparisons(result)).rows:
        parts += ["Compared with job 0:", compared.render_markdown()]
    return "\n\n".join([*parts, *list_remarks(result)]) + "\n"


def list_remarks(result: SweepResult) -> Iterator[str]:
    """Yield everything that the tables have no room for."""
    for row in result.jobs:
        if why := row.error or (row.summary and row.summary.stopped):
            yield f"job {row.job}: {why}"
        overlap = row.summary.used_to_tune if row.summary else None
        if row.summary and overlap and (overlap.n_questions or overlap.edited):
            line = describe_tuned_on(overlap, row.summary.incomplete, row.summary.metric)
            yield f"job {row.job}: {line}; eval/compare.py compares the others alone"
    for each in result.comparisons:
        if each.reason:
            yield f"job {each.job} is not compared with job 0: {each.reason}"
    made = [each.result for each in result.comparisons if each.result]
    if not made:
        return
    tests = " and ".join(sorted({each.test for each in made}))
    times = "" if made[0].epochs == 1 else f", each answered {made[0].epochs} times"
    questions = f"{made[0].n_questions} questions with a gold answer{times}"
    points = f"differences in points of {_name_metric(result)}"
    yield f"{questions}; {points}; p by {tests}; the interval is clustered by question"
    if len(made) > 1:
        yield (
            f"{len(made)} comparisons were made, so that one may look good by luck: p (Holm) allows for it, "
            "the intervals do not"
        )
    yield "detectable difference: the smallest true one that these questions would show in 80 of 100 such comparisons"


def _name_metric(result: SweepResult) -> str:
    return join_metrics(job.summary.metric for job in result.jobs if job.summary is not None)


def _build_jobs(result: SweepResult) -> Table:
    headings = ("job", "what differs", _name_metric(result), "95% interval", "errors", "cost", "time", "run")
    return Table(headings, [_describe_job(row) for row in result.jobs], left=("what differs", "run"))


def _describe_job(row: JobResult) -> tuple[str, ...]:
    job, differs = str(row.job), " ".join(row.differs) or "nothing"
    folder = PurePath(row.folder).name if row.folder else ""
    if (summary := row.summary) is None:
        state = "not started" if row.exit_code is None and row.error is None else "no result"
        return job, differs, state, "", "", "", "", folder
    score, interval = format_floor(summary.score, summary.incomplete), format_interval(summary.score_ci95)
    errors, cost = str(summary.n_error - summary.n_not_run), format_usd(summary.usage.cost_usd)
    return job, differs, score, interval, errors, cost, f"{summary.wall_seconds:,.1f} s", folder


def _build_comparisons(result: SweepResult) -> Table:
    rows = [
        (
            str(each.job),
            format_points(made.difference),
            " to ".join(map(format_points, made.ci95)) if made.ci95 else NOT_AVAILABLE,
            format_p_value(made.p),
            format_p_value(each.p_holm),
            f"{made.wins}/{made.losses}/{made.ties}",
            NOT_AVAILABLE if made.smallest_difference is None else f"±{100 * made.smallest_difference:.1f}",
        )
        for each in result.comparisons
        if (made := each.result) is not None and each.p_holm is not None
    ]
    headings = ("job", "difference", "95% interval", "p", "p (Holm)", "won/lost/equal", "detectable difference")
    return Table(headings, rows)
