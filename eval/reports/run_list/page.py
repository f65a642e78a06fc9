"""A list of runs in the terminal, and as `outputs/index.html` with links to the pages that were made of them.

print_runs(selected, n_all=12, console=Console())
write_index(OUTPUTS / "index.html", runs)
"""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from pathlib import Path
from urllib.parse import quote

from rich.text import Text

from eval.analysis.run_list.read_runs import COMPLETE, CRASHED, REFUSED, RUNNING, STOPPED, TUNING, RunEntry, parse_time
from eval.execution.console import Console, format_duration
from eval.reports.formats import NOT_AVAILABLE, format_interval, format_points, format_share, format_usd, list_parts
from eval.reports.html.page import ROWS, Column, Rows, Scripts, load_scripts, load_template
from eval.runs.folder import format_report_command
from eval.runs.run_info import NO_MEASUREMENT
from eval.scorers.score import ACCURACY
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls
from mas.runtime.text import format_count

_STYLES = {COMPLETE: "green", STOPPED: "yellow", RUNNING: "bold cyan", CRASHED: "red", REFUSED: "bold red"}
_TEMPLATE = Path(__file__).with_name("index.html.jinja")
_SCRIPT = Path(__file__).with_name("index.js")


def write_index(path: Path, runs: Sequence[RunEntry]) -> None:
    """Write the page.

    Raises:
        OSError: it cannot be written; one that is already there stays as it was.
    """
    page, _ = render_index(runs, path.parent, lambda run: _link(run.report, path.parent) if run.report else "")
    with write_atomically(path) as file:
        file.write(page)


def render_index(runs: Sequence[RunEntry], folder: Path, link_run: Callable[[RunEntry], str]) -> tuple[str, Scripts]:
    """Return the page and its scripts; names are relative to the folder. A run without an address is no link."""
    states, scripts = {run.state for run in runs}, load_scripts(*ROWS, _SCRIPT)
    page = load_template(_TEMPLATE).render(
        table=Rows("runs", _COLUMNS, [_build_row(run, folder, link_run(run)) for run in runs], noun="run"),
        tiles=[
            (f"{len(runs):,}", "runs", ""),
            *((f"{sum(run.state == each for run in runs):,}", each, "") for each in sorted(states)),
        ],
        n_unmeasured=sum(bool(run.no_measurement) for run in runs),
        n_simulated=sum(run.simulated for run in runs),
        scripts=scripts,
    )
    return escape_controls(page), scripts


_COLUMNS = (  # of a number that is sorted, `index.js` shows the hidden text
    Column("name", "run", width="3fr"),
    Column("state", "state", width="80px", menu=True),
    Column("score", "score, 95% interval", width="2fr", find=False),
    Column("made_of", "of", width="2.6fr"),
    Column("cost_usd", "cost", kind="usd", width="80px", find=False),
    Column("began", "began (UTC)", width="140px"),
    *(Column(name, name, kind="hidden", menu=True) for name in ("kind", "system", "model", "data", "prompts")),
    Column("remark", "why", kind="hidden"),
    Column("page", "its page", kind="hidden", find=False),
    *(Column(name, name, kind="hidden", find=False) for name in ("result", "cost", "href")),
)


def _build_row(run: RunEntry, folder: Path, href: str) -> dict[str, object]:
    same = ("name", "state", "cost_usd", "kind", "system", "data", "prompts", "remark")
    return {name: getattr(run, name) for name in same} | {
        "id": str(_relate(run.folder, folder)),
        "score": run.score if run.gain is None else run.gain,
        "made_of": " · ".join(list_parts(run.system, format_model(run), run.data, run.prompts)),
        "began": format_start(run),
        "model": format_model(run),
        "result": format_score(run) + ("" if run.n is None or run.score is None else f", n = {run.n:,}"),
        "cost": format_cost(run),
        "href": href,
        "page": "" if href or run.kind == TUNING else f"made with: {format_report_command(run.folder)}",
    }


def _relate(path: Path, folder: Path) -> Path:
    return Path(os.path.relpath(path, folder))


def _link(path: Path, folder: Path) -> str:
    """Return a relative address; its beginning keeps a name with a colon from being taken for a scheme."""
    return "./" + quote(os.fsencode(_relate(path, folder)))


def print_runs(runs: Sequence[RunEntry], n_all: int, console: Console) -> None:
    """Print the runs; `n_all`: how many there are without filters."""
    for run in runs:
        console.print(Text.assemble((run.state, _STYLES[run.state]), f" {run.name}"), soft_wrap=True)
        console.print(Text(f"    {' · '.join(_list_parts(run))}"), soft_wrap=True)
    console.print(Text(f"{len(runs)} of {format_count(n_all, 'run')}"))


def format_score(run: RunEntry) -> str:
    """Return the score with its interval; of a tuning run, the gain."""
    if run.kind == TUNING and run.gain is not None:
        bounds = f" ({format_interval(run.gain_ci95, format_points)})" if run.gain_ci95 else ""
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
