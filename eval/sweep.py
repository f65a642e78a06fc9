"""Make a sweep's table again, after runs of it were resumed.

    python eval/sweep.py latest
    python eval/sweep.py outputs/multirun/2026-11-21_08-30-31

Exit codes, the first that applies of 3, 1, 2: 0 done · 1 your mistake, or a job ended by one · 2 questions of a run
failed by error, or its accuracy is below its run.fail_under · 3 a run has not come to all its questions.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, STOPPED, WORST_FIRST, exit_now, run_cli
from mas.runtime.terminal import print_line


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Make the table of a sweep (python eval/run.py -m …) again from its runs, and print it."
    parser = UserErrorParser(usage="python eval/sweep.py SWEEP", description=description)
    parser.add_argument(
        "sweep", metavar="SWEEP", help="latest, a name under outputs/multirun, or the path of a sweep's folder"
    )
    return parser.parse_args(arguments)


def remake_table(arguments: list[str]) -> int:
    from eval.workflows.sweep import find_sweep, read_sweep
    from eval.workflows.sweep_table import make_table

    sweep = read_sweep(find_sweep(read_arguments(arguments).sweep))
    try:
        result = make_table(sweep)
    except OSError as error:
        print_line(f"stopped: the files cannot be written: {error}", error=True)
        return STOPPED
    codes = [row.exit_code for row in result.jobs]
    return next((code for code in WORST_FIRST if code in codes), STOPPED if None in codes else FINISHED)


if __name__ == "__main__":
    exit_now(run_cli(lambda: remake_table(sys.argv[1:])))
