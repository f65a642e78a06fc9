"""Send to MLflow what is missing there of a tuning run, and count what is there; a second time changes nothing.

    python optimize/sync.py latest
    python optimize/sync.py my_run tracking=server tracking.uri=https://mlflow.example.org       # … to another MLflow

A run knows where it belongs; `tracking=…` and its options name another place.

Exit codes: 0 everything is in MLflow · 1 your mistake, explained in one sentence, nothing sent · 3 MLflow does not have
everything: it could not be reached, or refused something.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.workflows.sync import run_sync
from optimize.mlflow_export import TUNING
from optimize.session.tuning_store import find_tuning_run

USAGE = "python optimize/sync.py RUN [tracking=local|server] [tracking.option=value ...]"


def sync(arguments: list[str]) -> int:
    run, overrides = UserErrorParser(USAGE, __doc__).read_run(arguments)
    return run_sync(TUNING, find_tuning_run(run), overrides)


if __name__ == "__main__":
    exit_now(run_cli(lambda: sync(sys.argv[1:])))
