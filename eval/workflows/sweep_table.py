"""The table of a sweep: a row for each job, and each job compared with the first, made from the runs' stores alone."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath

from rich.text import Text

from eval.analysis.comparison.compare_runs import (
    LABELS,
    MAX_RUNS,
    ComparisonResult,
    ReadRun,
    RunComparison,
    compare_read_runs,
    read_run,
)
from eval.analysis.comparison.comparison import find_obstacle
from eval.analysis.summary.summarise import summarise_store
from eval.analysis.summary.summary import Summary
from eval.cli.command import STOPPED, get_signal_name
from eval.execution.console import Console, Output
from eval.reports.formats import (
    NOT_AVAILABLE,
    Table,
    format_floor,
    format_interval,
    format_p_value,
    format_points,
    format_usd,
)
from eval.reports.rare_notes import describe_tuned_on
from eval.reports.run_comparison.page import write_comparison
from eval.reports.summary_table import choose_exit_code
from eval.runs.folder import DATABASE, format_path, format_resume_hint, write_lines
from eval.runs.mlflow_state import read_link
from eval.runs.store import open_run
from eval.scorers.score import join_metrics
from eval.workflows.sweep import Job, Sweep, end_sweep
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

PAGE_FILE, NUMBERS_FILE = "sweep.html", "sweep.json"
_SUMMARY_KEYS = (
    *("accuracy", "accuracy_ci95", "n", "n_scored", "n_correct", "n_error", "wall_seconds", "stopped"),
    *("metric", "score", "score_ci95"),
    *("used_to_tune", "incomplete", "n_not_run"),
)


@dataclass
class _Row:
    """One job with its numbers, and compared with the first."""

    job: Job
    summary: Summary | None = None  # None: no answer
    mlflow: dict[str, str] | None = None
    run: ReadRun | None = None  # None: no answer
    reason: str | None = None  # why it is not compared
    compared: RunComparison | None = None

    @property
    def simulated(self) -> bool:
        return self.summary is not None and self.summary.simulated

    def describe(self) -> dict[str, object]:
        numbers = self.summary.to_dict() if self.summary else {}
        cost_usd = self.summary.usage.cost_usd if self.summary else None
        own = {"cost_usd": cost_usd, "simulated": self.simulated, "mlflow": self.mlflow}
        return {**asdict(self.job), **{key: numbers.get(key) for key in _SUMMARY_KEYS}, **own}

    def describe_comparison(self) -> dict[str, object]:
        data: dict[str, object] = {"job": self.job.job, "against": 0, "reason": self.reason}
        if made := self.compared:
            counts = {name: getattr(made, name) for name in ("n_left_out", "n_tuned_on", "is_optimistic")}
            data |= {**made.comparison.score.to_dict(), **counts, "p_holm": made.p_holm}
        return data


def finish_sweep() -> None:
    """Make the table of the sweep that has just ended; a failure is a warning, and changes no exit code."""
    try:
        if sweep := end_sweep():
            make_table(sweep)
    except (OSError, KeyboardInterrupt) as error:
        why = f"stopped by {get_signal_name(error)}" if isinstance(error, KeyboardInterrupt) else error
        print_line(f"warning: the sweep's table could not be made: {why}; its runs are complete", error=True)


def make_table(sweep: Sweep) -> None:
    """Print the table and write it to the sweep's folder."""
    rows = [_read_job(job, sweep.find_run(job)) for job in sweep.jobs]
    compared = _compare(rows)
    sweep.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = {
        "id": sweep.id,
        "started_at": sweep.started_at,
        "ended_at": datetime.now(UTC).isoformat(),
        "jobs": [each.describe() for each in rows],
        "comparisons": [each.describe_comparison() for each in rows[1:]],
        "simulated": any(each.simulated for each in rows),
    }
    write_lines(sweep.folder / NUMBERS_FILE, [json.dumps(data, indent=2)])
    output = Output()
    _print_rows(rows, output.console)
    output.print(f"sweep: {format_path(sweep.folder)}")
    if compared:  # of very many jobs the first
        shown = replace(compared, runs=compared.runs[:MAX_RUNS], comparisons=compared.comparisons[: MAX_RUNS - 1])
        write_comparison(page := sweep.folder / PAGE_FILE, shown)
        output.print(f"page: {format_path(page)}")
    stopped = [each.job for each in rows if each.job.exit_code == STOPPED]
    for job, run in [(each, sweep.find_run(each)) for each in stopped]:
        if run:
            output.print(f"job {job.job}: {format_resume_hint(run)}")
    if stopped:
        output.print("then compare the runs with: python eval/compare.py RUN RUN …")


def _read_job(job: Job, folder: Path | None) -> _Row:
    if folder is None or not (folder / DATABASE).is_file():
        return _Row(job)
    try:
        with open_run(folder) as store:
            summary, info = summarise_store(store), store.read_info()
            if not store.read_last_attempts():  # it ended before its first answer
                return _Row(replace(job, error=job.error or summary.stopped))
        run = read_run("", folder)
    except UserError as error:
        return _Row(replace(job, error=str(error)))
    code = choose_exit_code(summary, info.part("run").get("fail_under"), Console(quiet=True))
    job = replace(job, run_id=info.run_id, error=None, exit_code=code)
    return _Row(job, summary, read_link(folder), replace(run, name=", ".join(job.differs) or run.name))


def _compare(rows: Sequence[_Row]) -> ComparisonResult | None:
    """Compare each job with the first as `eval/compare.py` compares them; None: no two jobs can be compared."""
    first, compared = rows[0].run, list[_Row]()
    for row in rows:
        if first is None or row.run is None:
            row.reason = f"{'job 0' if first is None else 'it'} has no answers"
        elif row is not rows[0] and (reason := find_obstacle(first.answers, row.run.answers)):
            row.reason = reason
        else:
            label = LABELS[len(compared)] if len(compared) < MAX_RUNS else str(row.job.job)
            row.run = replace(row.run, label=label)
            compared.append(row)
    if len(compared) < 2:
        return None
    found = compare_read_runs([each.run for each in compared if each.run], intersection=False)
    for row, made in zip(compared[1:], found.comparisons, strict=True):
        row.compared = made
    return found


def _print_rows(rows: Sequence[_Row], console: Console) -> None:
    if any(each.simulated for each in rows):
        console.print(Text(SIMULATED_NOTICE, style="bold yellow"))
    metric = join_metrics(each.summary.metric for each in rows if each.summary is not None)
    headings = ("job", "what differs", metric, "95% interval", "errors", "cost", "time")
    console.print(Table(headings, list(map(_list_cells, rows)), left=("what differs",)).build("sweep"))
    for job in (each.job for each in rows):
        if job.folder:  # too long for a column
            console.print(Text(f"job {job.job}: {PurePath(job.folder).name}"), soft_wrap=True)
    if compared := [_compare_cells(each.job, each.compared) for each in rows if each.compared]:
        headings = ("job", "difference", "95% interval", "p", "p (Holm)", "won/lost/equal", "detectable difference")
        console.print(Table(headings, compared).build("compared with job 0"))
    for line in _list_remarks(rows, metric):
        console.print(Text(line), soft_wrap=True)


def _list_cells(row: _Row) -> tuple[str, ...]:
    job = row.job
    name, differs = str(job.job), " ".join(job.differs) or "nothing"
    if (summary := row.summary) is None:
        state = "not started" if job.exit_code is None and job.error is None else "no result"
        return name, differs, state, "", "", "", ""
    score, interval = format_floor(summary.score, summary.incomplete), format_interval(summary.score_ci95)
    errors, cost = str(summary.n_error - summary.n_not_run), format_usd(summary.usage.cost_usd)
    return name, differs, score, interval, errors, cost, f"{summary.wall_seconds:,.1f} s"


def _compare_cells(job: Job, compared: RunComparison) -> tuple[str, ...]:
    made = compared.comparison.score
    shows = made.smallest_difference
    return (
        str(job.job),
        format_points(made.difference),
        format_interval(made.ci95, format_points),
        format_p_value(made.p),
        format_p_value(compared.p_holm),
        f"{made.wins}/{made.losses}/{made.ties}",
        NOT_AVAILABLE if shows is None else f"±{100 * shows:.1f}",
    )


def _list_remarks(rows: Sequence[_Row], metric: str) -> Iterator[str]:
    """Yield everything that the tables have no room for."""
    for row in rows:
        summary = row.summary
        if why := row.job.error or (summary and summary.stopped):
            yield f"job {row.job.job}: {why}"
        overlap = summary.used_to_tune if summary else None
        if summary and overlap and (overlap.n_questions or overlap.edited):
            yield f"job {row.job.job}: {describe_tuned_on(overlap, summary.incomplete, summary.metric)}"
    for row in rows[1:]:
        job, made = row.job.job, row.compared
        if row.reason:
            yield f"job {job} is not compared with job 0: {row.reason}"
        elif made and made.is_optimistic:
            yield f"warning: job {job}: all questions were tuned on; p and the difference are too optimistic"
        elif made and made.n_tuned_on:
            left_out = f"{format_count(made.n_tuned_on, 'question')} that prompts were tuned on"
            yield f"job {job} is compared with job 0 without {left_out}"
    scores = [each.compared.comparison.score for each in rows if each.compared]
    if not scores:
        return
    tests = " and ".join(sorted({each.test for each in scores}))
    times = "" if scores[0].epochs == 1 else f", each answered {scores[0].epochs} times"
    counts = sorted({each.n_questions for each in scores})
    questions = f"{' or '.join(map(str, counts))} questions with a gold answer{times}"
    yield f"{questions}; differences in points of {metric}; p by {tests}; the interval is clustered by question"
    if len(scores) > 1:
        luck = "so that one may look good by luck: p (Holm) allows for it, the intervals do not"
        yield f"{len(scores)} comparisons were made, {luck}"
    yield "detectable difference: the smallest true one that these questions would show in 80 of 100 such comparisons"
