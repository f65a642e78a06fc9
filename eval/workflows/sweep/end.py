"""The end of a sweep: its table made, shown, kept, and brought into MLflow by a process of its own.

make_table(folder, notes, LocalTracking(), secrets=[])
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from eval.analysis.sweep import SweepResult
from eval.cli.command import STOPPED
from eval.cli.paths import shown
from eval.config.tracking import NoTracking, Tracking
from eval.mlflow_export.exporter_launcher import SWEEP, ExporterLauncher
from eval.reports.sweep_table import print_sweep, render_markdown
from eval.runs.folder import format_resume_hint
from eval.workflows.sweep.notes import SweepNotes, write_notes
from eval.workflows.sweep.result import build_result

TABLE = "sweep.md"


def make_table(folder: Path, notes: SweepNotes, tracking: Tracking | NoTracking, secrets: Sequence[str]) -> SweepResult:
    """
    Returns:
        The content of `sweep.json`.

    Raises:
        StoreError: a run's store cannot be read.
        OSError: the sweep's folder cannot be written.
    """
    result = build_result(folder, notes)
    write_notes(folder, notes, result)
    (folder / TABLE).write_text(render_markdown(result), "utf-8")
    console = Console()
    print_sweep(result, console)
    _line(f"sweep: {shown(folder)}", console)
    for job in notes.jobs:
        run = job.run(folder)
        if result.jobs[job.job].exit_code == STOPPED and run is not None:
            _line(f"job {job.job}: {format_resume_hint(run)}", console)
    if any(row.exit_code in (STOPPED, None) for row in result.jobs):
        _line(f"then make the table again: {SWEEP.sync_command(folder)}", console)
    if not isinstance(tracking, NoTracking):
        _track(folder, tracking, secrets, console)
    return result


def _track(folder: Path, tracking: Tracking, secrets: Sequence[str], console: Console) -> None:
    """Send the sweep's page. A failure of MLflow is a warning, and so is Ctrl-C."""
    _line("sending the sweep's page to MLflow …", console)
    with ExporterLauncher(tracking, folder, secrets, SWEEP) as exporter:
        outcome = exporter.finish(lambda text: _line(text, console))
    if outcome.warning:
        print(f"warning: the sweep's page is not in MLflow: {outcome.warning}", file=sys.stderr)
    elif outcome.view_line:
        _line(outcome.view_line, console)


def _line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
