"""Write the page of a tuning run again from its files, also while the run is going on or after it was killed.

    python optimize/report.py latest
    python optimize/report.py outputs/optimize/2026-11-21_08-30-31_tuned_gepa

Exit codes: 0 done · 1 a mistake of the user, in one sentence · 3 the page could not be written.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, STOPPED, exit_now, run_cli
from mas.runtime.terminal import print_line


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Write the page of a tuning run again from its files."
    parser = UserErrorParser(usage="python optimize/report.py RUN", description=description)
    parser.add_argument("run", metavar="RUN", help="latest, a name under outputs/optimize, or the path of its folder")
    return parser.parse_args(arguments)


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)

    from eval.execution.console import Console  # heavier, and not needed for --help
    from eval.reports.summary_table import print_report_path
    from optimize.reports.tuning_page import write_tuning_page
    from optimize.session.tuning_store import find_tuning_run

    folder = find_tuning_run(given.run)
    try:
        write_tuning_page(folder)
    except OSError as error:
        print_line(f"stopped: the page cannot be written: {error}", error=True)
        return STOPPED
    print_report_path(folder, Console())
    return FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
