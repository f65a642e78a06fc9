"""A list of runs in the terminal, and as the first page of the viewer."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from pathlib import Path

from rich.text import Text

from eval.analysis.run_list.read_runs import COMPLETE, CRASHED, REFUSED, RUNNING, STOPPED, TUNING, RunEntry, parse_time
from eval.execution.console import Console, format_duration
from eval.reports.formats import NOT_AVAILABLE, format_interval, format_points, format_share, format_usd, list_parts
from eval.reports.html.page import ROWS, Column, Rows, Scripts, load_scripts, load_template
from eval.runs.run_info import NO_MEASUREMENT
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import escape_controls
from mas.runtime.text import format_count

_STYLES = {COMPLETE: "green", STOPPED: "yellow", RUNNING: "bold cyan", CRASHED: "red", REFUSED: "bold red"}
_TEMPLATE = Path(__file__).with_name("index.html.jinja")
_SCRIPT = Path(__file__).with_name("index.js")
_COLUMNS = (  # `index.js` shows a text in place of a number that is sorted
    Column("name", "run", width="3fr"),
    Column("state", "state", width="80px", menu=True),
    Column("score", "score, 95% interval", width="2fr"),
    Column("made_of", "of", width="2.6fr"),
    Column("cost_usd", "cost", kind="usd", width="80px"),
    Column("began", "began (UTC)", width="140px"),
    *(Column(name, name, kind="hidden", menu=True) for name in ("kind", "system", "model", "data", "prompts")),
    Column("remark", "why", kind="hidden"),
)


def render_index(runs: Sequence[RunEntry], folder: Path, link_run: Callable[[RunEntry], str]) -> tuple[str, Scripts]:
    """Return the page of runs below a folder, and its scripts; `link_run` returns the address of a run's page."""
    scripts = load_scripts(*ROWS, _SCRIPT)
    page = load_template(_TEMPLATE).render(
        table=Rows("run", _COLUMNS, [_build_row(run, folder, link_run(run)) for run in runs]),
        n_unmeasured=sum(bool(run.no_measurement) for run in runs),
        n_simulated=sum(run.simulated for run in runs),
        scripts=scripts,
    )
    return escape_controls(page), scripts


def _build_row(run: RunEntry, folder: Path, href: str) -> dict[str, object]:
    same = ("name", "state", "cost_usd", "kind", "system", "data", "prompts", "remark")
    return {name: getattr(run, name) for name in same} | {
        "id": str(run.folder.relative_to(folder)),
        "score": run.score if run.gain is None else run.gain,
        "made_of": " · ".join(list_parts(run.system, format_model(run), run.data, run.prompts)),
        "began": format_start(run),
        "model": format_model(run),
        "result": format_score(run),
        "cost": format_cost(run),
        "href": href,
    }


def print_runs(runs: Sequence[RunEntry], n_all: int, console: Console) -> None:
    """Print the runs; `n_all`: how many there are without filters."""
    for run in runs:
        console.print(Text.assemble((run.state, _STYLES[run.state]), f" {run.name}"), soft_wrap=True)
        console.print(Text(f"    {' · '.join(_list_parts(run))}"), soft_wrap=True)
    console.print(Text(f"{len(runs)} of {format_count(n_all, 'run')}"))


def format_score(run: RunEntry) -> str:
    """Return the score with its interval, and n; of a tuning run, the gain."""
    n = "" if run.n is None else f", n = {run.n:,}"
    if run.kind == TUNING and run.gain is not None:
        bounds = f" ({format_interval(run.gain_ci95, format_points)})" if run.gain_ci95 else ""
        return f"{format_points(run.gain)} points{bounds}{n}"
    if run.no_measurement:
        return NO_MEASUREMENT
    if run.kind == TUNING or run.score is None:
        return NOT_AVAILABLE
    name = "" if run.metric == ACCURACY else f"{run.metric} "
    return f"{name}{format_share(run.score, run.score_ci95, run.is_floor)}{n}"


def format_model(run: RunEntry) -> str:
    return f"{run.model} (simulated)" if run.simulated else run.model


def format_start(run: RunEntry) -> str:
    moment = parse_time(run.started_at)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else NOT_AVAILABLE


def format_cost(run: RunEntry) -> str:
    return "nothing" if run.simulated else format_usd(run.cost_usd)


def _list_parts(run: RunEntry) -> Iterator[str]:
    if run.remark:
        yield run.remark
    if run.state != REFUSED:
        yield format_score(run)
    yield from list_parts(run.system, format_model(run), run.data, run.prompts)
    if run.cost_usd is not None:
        yield f"cost {format_cost(run)}"
    if run.seconds:
        yield format_duration(run.seconds)
    yield format_start(run)
