"""A sweep for the terminal and for MLflow's pages: a row for each job, then each job compared with the first.

print_sweep(result, Console())
render_markdown(result)
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from rich.table import Table
from rich.text import Text

from eval.analysis.statistics.paired_tests import PairedResult
from eval.analysis.sweep import JobResult, SweepResult
from eval.execution.console import Console
from eval.reports.notes import (
    NOT_AVAILABLE,
    describe_tuned_on,
    format_floor,
    format_interval,
    format_p_value,
    format_points,
    format_usd,
)
from eval.scorers.score import ACCURACY, join_metrics
from mas.simulation import SIMULATED_NOTICE

JOBS = ("job", "what differs", ACCURACY, "95% interval", "errors", "cost", "time", "run")
COMPARISONS = ("job", "difference", "95% interval", "p", "p (Holm)", "won/lost/equal", "detectable difference")
_LEFT = ("what differs", "run")


def print_sweep(result: SweepResult, console: Console) -> None:
    """Print both tables and the remarks."""
    if result.simulated:
        console.print(Text(SIMULATED_NOTICE, style="bold yellow"))
    jobs = list(map(_list_cells, result.jobs))
    console.print(_build_table("sweep", _list_headings(result)[:-1], (row[:-1] for row in jobs)))
    for number, *_, run in jobs:  # a folder's name is too long for a column
        if run:
            console.print(Text(f"job {number}: {run}"), soft_wrap=True)
    if rows := list(_list_comparisons(result)):
        console.print(_build_table("compared with job 0", COMPARISONS, rows))
    for line in list_remarks(result):
        console.print(Text(line), soft_wrap=True)


def render_markdown(result: SweepResult) -> str:
    """Return the same in Markdown."""
    parts = [f"**{SIMULATED_NOTICE}**"] if result.simulated else []
    parts.append("\n".join(_render_rows(_list_headings(result), map(_list_cells, result.jobs))))
    if rows := list(_list_comparisons(result)):
        parts += ["Compared with job 0:", "\n".join(_render_rows(COMPARISONS, rows))]
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
    yield f"{_describe_questions(made[0], _name_metric(result))}; p by {tests}; the interval is clustered by question"
    if len(made) > 1:
        yield (
            f"{len(made)} comparisons were made, so that one may look good by luck: p (Holm) allows for it, "
            "the intervals do not"
        )
    yield "detectable difference: the smallest true one that these questions would show in 80 of 100 such comparisons"


def _list_headings(result: SweepResult) -> Sequence[str]:
    metric = _name_metric(result)
    return [metric if heading == ACCURACY else heading for heading in JOBS]


def _name_metric(result: SweepResult) -> str:
    return join_metrics(job.summary.metric for job in result.jobs if job.summary is not None)


def _list_cells(row: JobResult) -> Sequence[str]:
    job, differs = str(row.job), " ".join(row.differs) or "nothing"
    folder = PurePath(row.folder).name if row.folder else ""
    if (summary := row.summary) is None:
        state = "not started" if row.exit_code is None and row.error is None else "no result"
        return job, differs, state, "", "", "", "", folder
    return (
        job,
        differs,
        format_floor(summary.score, summary.incomplete),
        format_interval(summary.score_ci95),
        str(summary.n_error - summary.n_not_run),
        format_usd(summary.usage.cost_usd),
        f"{summary.wall_seconds:,.1f} s",
        folder,
    )


def _list_comparisons(result: SweepResult) -> Iterator[Sequence[str]]:
    for each in result.comparisons:
        if (made := each.result) is not None and each.p_holm is not None:
            yield (
                str(each.job),
                format_points(made.difference),
                " to ".join(map(format_points, made.ci95)) if made.ci95 else NOT_AVAILABLE,
                format_p_value(made.p),
                format_p_value(each.p_holm),
                f"{made.wins}/{made.losses}/{made.ties}",
                NOT_AVAILABLE if made.smallest_difference is None else f"±{100 * made.smallest_difference:.1f}",
            )


def _describe_questions(made: PairedResult, metric: str) -> str:
    times = "" if made.epochs == 1 else f", each answered {made.epochs} times"
    return f"{made.n_questions} questions with a gold answer{times}; differences in points of {metric}"


def _build_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=Text(title))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _LEFT else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _render_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        cells = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in row)
        yield f"| {' | '.join(cells)} |"
