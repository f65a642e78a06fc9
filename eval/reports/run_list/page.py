"""`outputs/index.html`: all runs and tuning runs with links to their pages.

write_index(OUTPUTS / "index.html", runs)
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from eval.analysis.run_list.read_runs import RunEntry
from eval.reports.formats import list_parts
from eval.reports.html.rows import ROWS, Column, Rows
from eval.reports.html.templates import Scripts, load_scripts, load_template
from eval.reports.run_list.table import format_cost, format_model, format_score, format_start
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls

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
    Column("began", "began (UTC)", width="132px"),
    *(Column(name, name, kind="hidden", menu=True) for name in ("kind", "system", "model", "data", "prompts")),
    Column("remark", "why", kind="hidden"),
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
    }


def _relate(path: Path, folder: Path) -> Path:
    return Path(os.path.relpath(path, folder))


def _link(path: Path, folder: Path) -> str:
    """Return a relative address; its beginning keeps a name with a colon from being taken for a scheme."""
    return "./" + quote(os.fsencode(_relate(path, folder)))
