"""`outputs/index.html`: all runs and tuning runs with links to their pages, and other pages such as comparisons.

write_index(OUTPUTS / "index.html", found)
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from eval.analysis.run_list.read_runs import FoundRuns, RunEntry
from eval.reports.html.rows import ROWS, Column, Rows
from eval.reports.html.templates import Scripts, load_scripts, load_template
from eval.reports.run_list.table import format_bytes, format_cost, format_model, format_score, format_start
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls

_TEMPLATE = Path(__file__).with_name("index.html.jinja")
_SCRIPT = Path(__file__).with_name("index.js")
_COLUMNS = (
    Column("name", "run", width="3fr"),
    Column("state", "state", width="80px", menu=True),
    Column("score", "score, 95% interval", width="2fr", find=False),
    Column("made_of", "of", width="2.6fr"),
    Column("cost_usd", "cost", kind="usd", width="80px", find=False),
    Column("began", "began (UTC)", width="132px"),
    Column("bytes", "size", kind="number", width="75px", find=False),
    Column("kind", "kind", kind="hidden", menu=True),
    Column("system", "system", kind="hidden", menu=True),
    Column("model", "model", kind="hidden", menu=True),
    Column("data", "data", kind="hidden", menu=True),
    Column("prompts", "prompts", kind="hidden", menu=True),
    Column("reason", "why", kind="hidden"),
    Column("low", "low", kind="hidden", find=False),
    Column("high", "high", kind="hidden", find=False),
    Column("n", "n", kind="hidden", find=False),
    Column("seconds", "seconds", kind="hidden", find=False),
    Column("result", "result", kind="hidden", find=False, export=False),
    Column("cost", "cost", kind="hidden", find=False, export=False),
    Column("size", "size", kind="hidden", find=False, export=False),
    Column("href", "page", kind="hidden", find=False, export=False),
)


@dataclass(frozen=True)
class Links:
    """Addresses of runs and other pages on the index page."""

    of_run: Callable[[RunEntry], str]  # empty: none
    of_page: Callable[[Path], str]


def write_index(path: Path, found: FoundRuns) -> None:
    """Write the page.

    Raises:
        OSError: it cannot be written; one that is already there stays as it was.
    """
    folder = path.parent
    links = Links(lambda run: _link(run.report, folder) if run.report else "", lambda page: _link(page, folder))
    others = FoundRuns(found.runs, [each for each in found.pages if each != path])
    with write_atomically(path) as file:
        file.write(render_index(others, folder, links)[0])


def render_index(found: FoundRuns, folder: Path, links: Links) -> tuple[str, Scripts]:
    """Return the page and its scripts; names are relative to the folder."""
    rows = Rows("runs", _COLUMNS, [_build_row(run, folder, links) for run in found.runs], noun="run")
    states, scripts = {run.state for run in found.runs}, load_scripts(*ROWS, _SCRIPT)
    page = load_template(_TEMPLATE).render(
        table=rows,
        tiles=[
            (f"{len(found.runs):,}", "runs", ""),
            *((f"{sum(run.state == each for run in found.runs):,}", each, "") for each in sorted(states)),
            (format_bytes(sum(run.size_bytes for run in found.runs)), "on the disk", ""),
        ],
        pages=[(str(_relate(each, folder)), links.of_page(each)) for each in found.pages],
        n_unmeasured=sum(bool(run.no_measurement) for run in found.runs),
        n_simulated=sum(run.simulated for run in found.runs),
        scripts=scripts,
    )
    return escape_controls(page), scripts


def _build_row(run: RunEntry, folder: Path, links: Links) -> Mapping[str, object]:
    shown = run.gain_ci95 if run.gain is not None else run.score_ci95
    low, high = shown or (None, None)
    n = "" if run.n is None or run.score is None else f", n = {run.n:,}"
    prompts = f"prompts {run.prompts}" if run.prompts else ""
    return {
        "id": str(_relate(run.folder, folder)),
        "name": run.name,
        "state": run.state,
        "score": run.score if run.gain is None else run.gain,
        "made_of": " · ".join(filter(None, (run.system, format_model(run), run.data, prompts))),
        "cost_usd": run.cost_usd,
        "began": format_start(run),
        "bytes": run.size_bytes,
        "kind": run.kind,
        "system": run.system,
        "model": format_model(run),
        "data": run.data,
        "prompts": run.prompts,
        "reason": run.remark,
        "low": low,
        "high": high,
        "n": run.n,
        "seconds": run.seconds,
        "result": f"{format_score(run)}{n}",
        "cost": format_cost(run),
        "size": format_bytes(run.size_bytes),
        "href": links.of_run(run),
    }


def _relate(path: Path, folder: Path) -> Path:
    return Path(os.path.relpath(path, folder))


def _link(path: Path, folder: Path) -> str:
    """Return a relative address; its beginning keeps a name with a colon from being taken for a scheme."""
    return "./" + quote(os.fsencode(_relate(path, folder)))
