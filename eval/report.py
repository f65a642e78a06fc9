"""Write the page of a run and all its files from its database, and print its summary, also while the run is going on.

    python eval/report.py latest
    python eval/report.py outputs/eval/2026-11-21_08-30-31_gaia_offline_sample

Exit codes: 0 done · 1 a mistake of the user, in one sentence · 2 done, and some questions of the run failed by error ·
3 done, and the run has not come to all its questions, or the files could not be written.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import STOPPED, exit_now, run_cli
from eval.runs.find import find_run
from mas.runtime.terminal import print_line


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = UserErrorParser("python eval/report.py RUN", __doc__)
    parser.add_argument("run", metavar="RUN", help="latest, a name under outputs/eval, or the path of a run's folder")
    return parser.parse_args(arguments)


def task(arguments: list[str]) -> int:
    folder = find_run(read_arguments(arguments).run)

    from eval.execution.console import Console  # heavier, and only needed for a run that exists
    from eval.reports.run_report.page import write_reports
    from eval.reports.summary_table import choose_exit_code, print_last_lines, print_results
    from eval.runs.own_runs import refuse_unreadable
    from eval.runs.store import open_run

    try:
        with refuse_unreadable(folder), open_run(folder) as store:
            summary = write_reports(folder, store)
    except OSError as error:
        print_line(f"stopped: the files cannot be written: {error}", error=True)
        return STOPPED
    console = Console()
    print_results(summary, folder, console)
    print_last_lines(summary, folder, console)
    return choose_exit_code(summary, None, console)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
