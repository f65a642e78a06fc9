"""The exporter process of one run, started by `ExporterLauncher`: python -m eval.mlflow_export FOLDER

Its standard input begins with an `ExportRequest`, and its end is the end of the run.
"""

import os
import pickle
import sys
from contextlib import closing
from pathlib import Path

from eval.mlflow_export.exporter_launcher import ExportRequest
from eval.runs.folder import RunLock
from eval.runs.logs import Log
from eval.runs.mlflow_state import STATE
from mas.runtime.security.redaction import build_redactor

LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch
_NICENESS = 19  # the lowest priority: the run comes first


def export_folder(folder: Path) -> None:
    """Send the run in a folder, and log what fails: there is nobody to raise to."""
    request: ExportRequest = pickle.load(sys.stdin.buffer)
    log = Log(folder, "mlflow", request.secrets)
    lock = RunLock(folder / STATE)
    with closing(log):
        try:
            lock.take(LOCK_SECONDS)
            kind, redact = request.kind, build_redactor(request.secrets)
            with closing(kind.load()(folder, request.tracking, redact)) as export:
                export.export(sys.stdin.buffer, log, kind.format_sync_command(folder))
        except Exception as error:  # noqa: BLE001
            log.write("error", "the exporter failed", exception=error)
        finally:
            lock.release()


if __name__ == "__main__":
    os.nice(_NICENESS)
    export_folder(Path(sys.argv[1]).absolute())
