"""Where a sweep of earlier went in MLflow, by the configuration that its runs keep.

tracking, secrets = tracking_of(folder, read_notes(folder))
"""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf

from eval.config.evaluation import build_part
from eval.config.tracking import NoTracking, Tracking
from eval.runs.folder import DATABASE
from eval.runs.store import read_run_info
from eval.workflows.sweep.notes import SweepNotes


def tracking_of(folder: Path, notes: SweepNotes) -> tuple[Tracking | NoTracking, Sequence[str]]:
    """Those of the last job that had a run, and what in them is secret; user and password are the environment's now.

    Raises:
        UserError: MLflow cannot be used as the run used it, or the run's store cannot be read.
    """
    runs = [run for job in notes.jobs if (run := job.run(folder)) and (run / DATABASE).is_file()]
    if not runs:
        return NoTracking(), ()
    config = read_run_info(runs[-1]).config
    if "tracking" not in config:
        return NoTracking(), ()
    tracking = build_part(OmegaConf.create({"tracking": config["tracking"]}).tracking, "tracking")
    tracking.check()
    return tracking, tracking.secrets()
