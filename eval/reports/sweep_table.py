"""A sweep for the terminal and for MLflow's pages: a row for each job, then each job compared with the first.

print_sweep(result, Console())        # result: of eval.workflows.sweep.result
markdown(result)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.reports.notes import NOT_AVAILABLE, describe_tuned_on, format_floor, format_interval, is_incomplete
from mas.simulation import SIMULATED_NOTICE

JOBS = ("job", "what differs", "accuracy", "95% interval", "errors", "cost", "time", "run")
COMPARISONS = ("job", "difference", "95% interval", "p", "p (Holm)", "won/lost/equal", "would show")
_LEFT = ("what differs", "run")


def print_sweep(result: Mapping[str, Any], console: Console) -> None:
    if result["simulated"]:
        console.print(Text(SIMULATED_NOTICE, style="bold yellow"))
    console.print(_table("sweep", JOBS[:-1], (row[:-1] for row in _jobs(result))))
    for number, *_, run in _jobs(result):  # a folder's name is too long for a column
        if run:
            console.print(Text(f"job {number}: {run}"), soft_wrap=True)
    if made := list(_comparisons(result)):
        console.print(_table("compared with job 0", COMPARISONS, made))
    for line in list_remarks(result):
        console.print(Text(line), soft_wrap=True)


def render_markdown(result: Mapping[str, Any]) -> str:
    parts = [f"**{SIMULATED_NOTICE}**"] if result["simulated"] else []
    parts.append("\n".join(_markdown_rows(JOBS, _jobs(result))))
    if made := list(_comparisons(result)):
        parts += ["Compared with job 0:", "\n".join(_markdown_rows(COMPARISONS, made))]
    return "\n\n".join([*parts, *list_remarks(result)]) + "\n"


def list_remarks(result: Mapping[str, Any]) -> Iterator[str]:
    """What the tables have no room for."""
    for row in result["jobs"]:
        if why := row["error"] or row["stopped"]:
            yield f"job {row['job']}: {why}"
        if (told := row["used_to_tune"]) and (told["n_questions"] or told.get("edited")):
            line = describe_tuned_on(told, is_incomplete(row))
            yield f"job {row['job']}: {line}; eval/compare.py tells the others apart"
    made = [each for each in result["comparisons"] if each["reason"] is None]
    for each in result["comparisons"]:
        if each["reason"]:
            yield f"job {each['job']} is not compared with job 0: {each['reason']}"
    if not made:
        return
    tests = " and ".join(sorted({each["test"] for each in made}))
    yield f"{_count(made[0])}; p by {tests}; the interval is clustered by question"
    if len(made) > 1:
        yield (
            f"{len(made)} comparisons were made, so that one may look good by luck: p (Holm) allows for it, "
            "the intervals do not"
        )
    yield "would show: the smallest true difference that these questions would show in 80 of 100 such comparisons"


def _jobs(result: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for row in result["jobs"]:
        ran = row["n"] is not None
        yield (
            str(row["job"]),
            " ".join(row["differs"]) or "nothing",
            format_floor(row["accuracy"], is_incomplete(row)) if ran else _state(row),
            format_interval(row["accuracy_ci95"]) if ran else "",
            str(row["n_error"] - (row["n_not_run"] or 0)) if ran else "",
            (NOT_AVAILABLE if row["cost_usd"] is None else f"${row['cost_usd']:,.4f}") if ran else "",
            f"{row['wall_seconds']:,.1f} s" if ran else "",
            PurePath(row["folder"]).name if row["folder"] else "",
        )


def _state(row: Mapping[str, Any]) -> str:
    if row["exit_code"] is None and row["error"] is None:
        return "not started"
    return "no result"


def _comparisons(result: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for each in result["comparisons"]:
        if each["reason"] is None:
            shows = each["smallest_difference"]
            yield (
                str(each["job"]),
                format_points(each["difference"]),
                f"{format_points(each['ci95'][0])} to {format_points(each['ci95'][1])}"
                if each["ci95"]
                else NOT_AVAILABLE,
                format_p_value(each["p"]),
                format_p_value(each["p_holm"]),
                f"{each['wins']}/{each['losses']}/{each['ties']}",
                NOT_AVAILABLE if shows is None else f"±{100 * shows:.1f}",
            )


def format_points(difference: float) -> str:
    """Of a percentage."""
    return f"{100 * difference:+.1f}"


def format_p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _count(comparison: Mapping[str, Any]) -> str:
    n, epochs = comparison["n_questions"], comparison["epochs"]
    times = "" if epochs == 1 else f", each answered {epochs} times"
    return f"{n} questions with a gold answer{times}; differences in points of accuracy"


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=Text(title))
    for heading in headings:
        if heading in _LEFT:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _markdown_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        cells = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in row)
        yield f"| {' | '.join(cells)} |"
