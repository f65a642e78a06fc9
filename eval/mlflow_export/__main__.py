"""The exporter process of one run: python -m eval.mlflow_export FOLDER

Its standard input begins with an `ExportRequest`, and its end is the end of the run. Exit codes: 0 everything is in
MLflow · 3 not everything, or nothing · 1 it failed, as `logs/mlflow.log` says.
"""

import os
import pickle
import sys
from contextlib import closing
from pathlib import Path

from eval.mlflow_export.exporter_launcher import ExportRequest
from eval.runs.folder import RunLock
from eval.runs.logs import open_log
from eval.runs.mlflow_state import STATE

LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch
_NICENESS = 19  # the lowest priority: the run comes first


def export_folder(folder: Path) -> int:
    """Send the run in a folder; return the exit code."""
    request: ExportRequest = pickle.load(sys.stdin.buffer)
    log = open_log(folder, "mlflow", request.secrets)
    lock = RunLock(folder / STATE)
    try:
        lock.take(LOCK_SECONDS)
        with closing(request.open_export(folder)) as export:
            state = export.export(sys.stdin.buffer, log, request.sync_command)
        return 0 if state.complete else 3
    except Exception as error:  # noqa: BLE001  the boundary of a process that has nobody to raise to
        log.error("the exporter failed", exception=error)
        return 1
    finally:
        lock.release()
        log.close()


if __name__ == "__main__":
    os.nice(_NICENESS)
    sys.exit(export_folder(Path(sys.argv[1]).absolute()))
