"""Send to MLflow what is missing there of a tuning run, and count what is there; a second time changes nothing.

    python optimize/sync.py latest
    python optimize/sync.py my_run tracking=server tracking.uri=https://mlflow.example.org       # … to another MLflow

A run knows where it belongs; `tracking=…` and its options name another place. The sealed test's answers are
runs of their own: `python eval/sync.py RUN_FOLDER/sealed/winner`.

Exit codes: 0 everything is in MLflow · 1 your mistake, explained in one sentence, nothing sent · 3 MLflow does not have
everything: it could not be reached, or refused something.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omegaconf import OmegaConf

from eval.cli.command import exit_now, run_cli
from eval.cli.hydra_compat import MISTAKES
from eval.config.tracking import Tracking
from eval.workflows.sync import JsonObject, RunSource, run_sync
from optimize.mlflow_export.tuning_export import TUNING, TuningExport
from optimize.session.config import read_config
from optimize.session.tuning_store import find_tuning_run, read_tuning

if TYPE_CHECKING:
    from eval.mlflow_export.exporter_process import Redact

USAGE = "python optimize/sync.py RUN [tracking=local|server] [tracking.option=value ...]"


class TuningRuns(RunSource):
    """Runs of `optimize/run.py`."""

    noun, kind = "one tuning run", TUNING

    def find(self, name: str) -> Path:
        return find_tuning_run(name)

    def read_tracking(self, folder: Path) -> JsonObject:
        return dict(read_tuning(folder).info.config.get("tracking") or {})

    def is_own(self, folder: Path) -> bool:
        return read_tuning(folder).is_own

    def read_secrets(self, folder: Path) -> Sequence[str]:
        try:
            return read_config(OmegaConf.create(read_tuning(folder).info.config)).base.secrets()
        except (*MISTAKES, ValueError):  # of another version of this program; what it wrote has no secrets
            return ()

    def open_export(self, folder: Path, settings: Tracking, redact: "Redact") -> TuningExport:
        return TuningExport(folder, settings, redact)


def sync(arguments: list[str]) -> int:
    return run_sync(TuningRuns(), arguments, USAGE)


if __name__ == "__main__":
    exit_now(run_cli(lambda: sync(sys.argv[1:])))
