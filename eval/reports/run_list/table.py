"""A list of runs in the terminal: two or three lines for each run.

print_runs(selected, n_all=12, console=Console())
"""

from collections.abc import Iterator, Sequence
from datetime import UTC

from rich.text import Text

from eval.analysis.run_list.read_runs import COMPLETE, CRASHED, REFUSED, RUNNING, STOPPED, TUNING, RunEntry, parse_time
from eval.execution.console import Console
from eval.execution.projection import format_duration
from eval.reports.formats import NOT_AVAILABLE, format_points, format_share, format_usd, list_parts
from eval.runs.run_info import NO_MEASUREMENT
from eval.scorers.score import ACCURACY
from mas.runtime.text import format_count

_STYLES = {COMPLETE: "green", STOPPED: "yellow", RUNNING: "bold cyan", CRASHED: "red", REFUSED: "bold red"}


def print_runs(runs: Sequence[RunEntry], n_all: int, console: Console) -> None:
    """Print the runs; `n_all`: how many there are without filters."""
    for run in runs:
        console.print(Text.assemble((run.state, _STYLES[run.state]), f" {run.name}"), soft_wrap=True)
        console.print(Text(f"    {' · '.join(_list_parts(run))}"), soft_wrap=True)
    console.print(Text(f"{len(runs)} of {format_count(n_all, 'run')}"))


def format_score(run: RunEntry) -> str:
    """Return the score with its interval; of a tuning run, the gain."""
    if run.kind == TUNING and run.gain is not None:
        bounds = f" ({' to '.join(map(format_points, run.gain_ci95))})" if run.gain_ci95 else ""
        return f"{format_points(run.gain)} points{bounds}"
    if run.no_measurement:
        return NO_MEASUREMENT
    if run.kind == TUNING or run.score is None:
        return NOT_AVAILABLE
    name = "" if run.metric == ACCURACY else f"{run.metric} "
    return f"{name}{format_share(run.score, run.score_ci95, run.is_floor)}"


def format_model(run: RunEntry) -> str:
    return f"{run.model} (simulated)" if run.simulated else run.model


def format_start(run: RunEntry) -> str:
    moment = parse_time(run.started_at)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else NOT_AVAILABLE


def format_cost(run: RunEntry) -> str:
    return "nothing" if run.simulated else format_usd(run.cost_usd)


def _list_parts(run: RunEntry) -> Iterator[str]:
    """Yield the facts of a run for one line; what is unknown is left out."""
    if run.remark:
        yield run.remark
    if run.state != REFUSED:
        n = "" if run.n is None else f", n = {run.n:,}"
        yield f"{format_score(run)}{n}"
    yield from list_parts(run.system, format_model(run), run.data, run.prompts)
    if run.cost_usd is not None:
        yield f"cost {format_cost(run)}"
    if run.seconds:
        yield format_duration(run.seconds)
    yield format_start(run)
