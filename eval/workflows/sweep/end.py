"""The end of a sweep: its table made, shown, kept, and brought into MLflow by a process of its own.

make_table(folder, notes, LocalTracking(), secrets=[])
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.cli.command import STOPPED, signal_of
from eval.cli.paths import OUTPUTS, shown
from eval.config.tracking import NoTracking, Tracking
from eval.mlflow_export.exporter_launcher import format_view_line, handover
from eval.reports.sweep_table import print_sweep, render_markdown
from eval.runs.folder import format_resume_hint
from eval.workflows.sweep.notes import SweepNotes, write_notes
from eval.workflows.sweep.result import sweep_result

TABLE = "sweep.md"


def make_table(
    folder: Path, notes: SweepNotes, tracking: Tracking | NoTracking, secrets: Sequence[str]
) -> dict[str, Any]:
    """
    Returns:
        The content of `sweep.json`.

    Raises:
        StoreError: a run's store cannot be read.
        OSError: the sweep's folder cannot be written.
    """
    result = sweep_result(folder, notes)
    write_notes(folder, notes, result)
    (folder / TABLE).write_text(render_markdown(result), "utf-8")
    console = Console()
    print_sweep(result, console)
    _line(f"sweep: {shown(folder)}", console)
    for job in notes.jobs:
        run = job.run(folder)
        if result["jobs"][job.job]["exit_code"] == STOPPED and run is not None:
            _line(f"job {job.job}: {format_resume_hint(run)}", console)
    if any(row["exit_code"] in (STOPPED, None) for row in result["jobs"]):
        name = folder.name if folder.parent == OUTPUTS / "multirun" else shown(folder)
        _line(f"then make the table again: python eval/sweep.py {shlex.quote(name)}", console)
    if not isinstance(tracking, NoTracking):
        _track(folder, tracking, secrets, console)
    return result


def _track(folder: Path, tracking: Tracking, secrets: Sequence[str], console: Console) -> None:
    """MLflow's failure is a warning, and so is Ctrl-C; it is not imported here."""
    _line("sending the sweep's page to MLflow … (Ctrl-C: leave it)", console)
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "eval.mlflow_export.sweep_page", str(folder)],
            input=handover(tracking, {*secrets, *tracking.secrets()}).line(),
            capture_output=True,
            text=True,
            timeout=tracking.wait_seconds + 30,  # it has a page and two files to send
            env={**os.environ, **tracking.environment()},
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
        )
        told: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        told = {"warning": f"the process that sends it did not end well ({type(error).__name__})"}
    except KeyboardInterrupt as interrupt:
        told = {"warning": f"stopped by {signal_of(interrupt)}"}
    if warning := told.get("warning"):
        again = f"try again with: python eval/sweep.py {shlex.quote(shown(folder))}"
        print(f"warning: the sweep's page is not in MLflow: {warning}; {again}", file=sys.stderr)
    elif line := format_view_line(tracking, told.get("link")):
        _line(line, console)


def _line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
