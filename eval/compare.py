"""Compare runs question by question, each with the first; no model is called.

    python eval/compare.py baseline careful
    python eval/compare.py outputs/eval/2026-11-21_08-30-31_gaia_offline_sample latest --html comparison.html
    python eval/compare.py baseline level_1_only --intersection        only the questions that both have
    python eval/compare.py baseline careful --settings                 every setting in which they differ

Exit codes: 0 compared, whatever the result · 1 a mistake of the user, in one sentence · 3 a file could not be written.
The page and the JSON hold targets, as the report of a run does: they are for the runs' owner.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse
import json

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, STOPPED, exit_now, run_cli
from eval.runs.folder import find_run
from mas.runtime.terminal import print_line


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Compare runs question by question, each with the first: paired statistics, cost, what flipped."
    usage = "python eval/compare.py RUN_A RUN_B [RUN_C ...] [--intersection] [--settings] [--html FILE] [--json FILE]"
    parser = UserErrorParser(usage=usage, description=description, allow_abbrev=False)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="latest, a name under outputs/eval, or the path of a run's folder"
    )
    parser.add_argument(
        "--intersection", action="store_true", help="compare the questions that two runs have in common and answered"
    )
    parser.add_argument("--settings", action="store_true", help="list every setting in which two runs differ")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page, with gold answers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers and flips, with gold answers")
    return parser.parse_intermixed_args(arguments)


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    folders = [find_run(run) for run in given.runs]

    from eval.analysis.comparison.compare_runs import compare_runs
    from eval.execution.console import Console  # heavier, and only needed for runs that exist
    from eval.reports.comparison_page import write_comparison
    from eval.reports.comparison_table import print_comparison
    from eval.runs.folder import write_lines
    from eval.runs.foreign_run import refuse_unreadable

    with refuse_unreadable(*folders):
        result = compare_runs(folders, given.intersection)
    print_comparison(result, Console(), given.settings)
    try:
        if given.html:
            write_comparison(given.html, result)
        if given.json:
            write_lines(given.json, [json.dumps(result.to_dict(), indent=2)])
    except OSError as error:
        print_line(f"stopped: the comparison cannot be written: {error}", error=True)
        return STOPPED
    return FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
