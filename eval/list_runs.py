"""List runs and tuning runs; eval/view.py shows them in the browser.

    python eval/list_runs.py                                 all runs below outputs/, the newest first
    python eval/list_runs.py gpt-4o crashed                  those with both words in name, state, model, data, …
    python eval/list_runs.py FOLDER --json                   those in a folder, as JSON

Words are looked for in all texts of a run, in any case.

Exit codes: 0 done · 1 a mistake of the user, in one sentence.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse
import json

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, exit_now, run_cli
from eval.cli.paths import OUTPUTS
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = UserErrorParser("python eval/list_runs.py [FOLDER ...] [WORD ...] [--json]", __doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--json", action="store_true")
    return parser.parse_intermixed_args(arguments)


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    folders = [Path(word) for word in given.words if Path(word).is_dir()]
    words = [word for word in given.words if Path(word) not in folders]
    from eval.analysis.run_list.read_runs import read_runs, select_runs
    from eval.execution.console import Console
    from eval.reports.run_list.page import print_runs

    found = read_runs(folders or [OUTPUTS])
    runs = select_runs(found, words)
    if not runs and (missing := next((word for word in words if "/" in word), None)):
        raise UserError(f"{missing} is no folder, nor in a run's texts; name a folder with runs, or none for outputs/.")
    if given.json:
        print_line(json.dumps([run.to_dict() for run in runs], indent=2, default=str))
    else:
        print_runs(runs, len(found), Console())
    return FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
