"""`outputs/index.html`: all runs and tuning runs with links to their pages, and other pages such as comparisons.

write_index(OUTPUTS / "index.html", found)
"""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from eval.analysis.run_list.foreign_json import Interval
from eval.analysis.run_list.read_runs import FoundRuns, RunEntry
from eval.reports.html.rows import ROWS, Column, Rows
from eval.reports.html.templates import Scripts, load_scripts, load_template
from eval.reports.run_list.table import format_bytes, format_cost, format_model, format_score, format_start
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls

_TEMPLATE = Path(__file__).with_name("index.html.jinja")
_SCRIPT = Path(__file__).with_name("index.js")


def write_index(path: Path, found: FoundRuns) -> None:
    """Write the page.

    Raises:
        OSError: it cannot be written; one that is already there stays as it was.
    """
    folder = path.parent
    others = FoundRuns(found.runs, [each for each in found.pages if each != path])
    page, _ = render_index(
        others, folder, lambda run: _link(run.report, folder) if run.report else "", lambda page: _link(page, folder)
    )
    with write_atomically(path) as file:
        file.write(page)


def render_index(
    found: FoundRuns, folder: Path, link_run: Callable[[RunEntry], str], link_page: Callable[[Path], str]
) -> tuple[str, Scripts]:
    """Return the page and its scripts; names are relative to the folder. A run without an address is no link."""
    rows = Rows("runs", _list_columns(folder, link_run), found.runs, noun="run")
    states, scripts = {run.state for run in found.runs}, load_scripts(*ROWS, _SCRIPT)
    page = load_template(_TEMPLATE).render(
        table=rows,
        tiles=[
            (f"{len(found.runs):,}", "runs", ""),
            *((f"{sum(run.state == each for run in found.runs):,}", each, "") for each in sorted(states)),
            (format_bytes(sum(run.size_bytes for run in found.runs)), "on the disk", ""),
        ],
        pages=[(str(_relate(each, folder)), link_page(each)) for each in found.pages],
        n_unmeasured=sum(bool(run.no_measurement) for run in found.runs),
        n_simulated=sum(run.simulated for run in found.runs),
        scripts=scripts,
    )
    return escape_controls(page), scripts


def _list_columns(folder: Path, link_run: Callable[[RunEntry], str]) -> list[Column]:
    """Return the columns of a `RunEntry`; of a number that is sorted and exported, `index.js` shows the hidden text."""
    return [
        Column("name", "run", width="3fr"),
        Column("state", "state", width="80px", menu=True),
        Column("score", "score, 95% interval", width="2fr", find=False, read=lambda run: _choose_score(run)[0]),
        Column("made_of", "of", width="2.6fr", read=_describe_parts),
        Column("cost_usd", "cost", kind="usd", width="80px", find=False),
        Column("began", "began (UTC)", width="132px", read=format_start),
        Column("size_bytes", "size", kind="number", width="75px", find=False),
        Column("kind", "kind", kind="hidden", menu=True),
        Column("system", "system", kind="hidden", menu=True),
        Column("model", "model", kind="hidden", menu=True, read=format_model),
        Column("data", "data", kind="hidden", menu=True),
        Column("prompts", "prompts", kind="hidden", menu=True),
        Column("remark", "why", kind="hidden"),
        Column("low", "low", kind="hidden", find=False, read=lambda run: (_choose_score(run)[1] or (None,))[0]),
        Column("high", "high", kind="hidden", find=False, read=lambda run: (_choose_score(run)[1] or (None,))[-1]),
        Column("n", "n", kind="hidden", find=False),
        Column("seconds", "seconds", kind="hidden", find=False),
        Column("id", "id", read=lambda run: str(_relate(run.folder, folder))),
        Column("result", "result", kind="hidden", find=False, export=False, read=_describe_result),
        Column("cost", "cost", kind="hidden", find=False, export=False, read=format_cost),
        Column("size", "size", kind="hidden", find=False, export=False, read=lambda run: format_bytes(run.size_bytes)),
        Column("href", "page", kind="hidden", find=False, export=False, read=link_run),
    ]


def _choose_score(run: RunEntry) -> tuple[float | None, Interval | None]:
    return (run.score, run.score_ci95) if run.gain is None else (run.gain, run.gain_ci95)


def _describe_parts(run: RunEntry) -> str:
    prompts = f"prompts {run.prompts}" if run.prompts else ""
    return " · ".join(filter(None, (run.system, format_model(run), run.data, prompts)))


def _describe_result(run: RunEntry) -> str:
    return format_score(run) + ("" if run.n is None or run.score is None else f", n = {run.n:,}")


def _relate(path: Path, folder: Path) -> Path:
    return Path(os.path.relpath(path, folder))


def _link(path: Path, folder: Path) -> str:
    """Return a relative address; its beginning keeps a name with a colon from being taken for a scheme."""
    return "./" + quote(os.fsencode(_relate(path, folder)))
