"""Send to MLflow what is missing there of a run, and count what is there; a second time changes nothing.

python eval/sync.py latest
python eval/sync.py my_run tracking=server tracking.uri=https://mlflow.example.org       # … to another MLflow

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


def sync(arguments: list[str]) -> int:
    usage = "python eval/sync.py RUN [tracking=local|server] [tracking.option=value ...]"
    run, overrides = UserErrorParser(usage, __doc__).read_run(arguments)
    from eval.mlflow_export.exporter import EVALUATION
    from eval.runs.find import find_run
    from eval.workflows.sync import run_sync

    return run_sync(EVALUATION, find_run(run), overrides)


if __name__ == "__main__":
    exit_now(run_cli(lambda: sync(sys.argv[1:])))
