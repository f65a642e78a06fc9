"""What a run that is over shows on the terminal, and the exit code that it ends with.

show(summary, folder, console)
exit_code(summary, fail_under=0.5, console=console)      # 0, 2 or 3
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.command import FAILURES, FINISHED, STOPPED
from eval.paths import OUTPUTS, shown
from eval.reporting.from_store import GOING_ON
from eval.reporting.table import print_table


def show(summary: Mapping[str, Any], folder: Path, console: Console) -> None:
    """The table, and where the rest is; for a run that was stopped the last line says how to go on."""
    print_table(summary, console)
    _line(f"results: {shown(folder)}", console)
    if summary["stopped"] not in (None, GOING_ON):
        _line(going_on(folder), console)


def going_on(folder: Path) -> str:
    """The command that goes on with the run."""
    name = folder.name if folder.parent == OUTPUTS / "eval" else shown(folder)
    return f"go on with: python eval/run.py {shlex.quote(f'run.resume={name}')}"


def exit_code(summary: Mapping[str, Any], fail_under: float | None, console: Console) -> int:
    if summary["stopped"]:
        return STOPPED
    accuracy = summary["accuracy"] or 0.0
    below = fail_under is not None and accuracy < fail_under
    if below:
        _line(f"accuracy {accuracy:.4g} is below run.fail_under={fail_under}", console)
    return FAILURES if below or summary["n_error"] else FINISHED


def _line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
