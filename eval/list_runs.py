"""List runs and tuning runs, write their index page, and delete those that are no longer needed.

    python eval/list_runs.py                                     all runs below outputs/, the newest first
    python eval/list_runs.py model=gpt-4o since=7d sort=score    of the last week, the best first
    python eval/list_runs.py --html                              also as outputs/index.html
    python eval/list_runs.py clean state=crashed older=30d       what would be deleted; --yes deletes it

Exit codes: 0 done · 1 a mistake of the user, in one sentence · 3 the page could not be written, or a run not deleted.
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
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line

CLEAN = "clean"
_USAGE = "python eval/list_runs.py [clean] [FOLDER ...] [filter=value ...] [--json] [--html [FILE]] [--yes]"


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = (
        "List runs and tuning runs. Filters: system=, model=, data=, prompts=, name= (names, patterns), state=, kind=, "
        "since=, older= (a date, or an age such as 7d). Other words are looked for. sort= orders."
    )
    parser = UserErrorParser(usage=_USAGE, description=description)
    parser.add_argument("words", nargs="*", metavar="WORD", help="a folder, filter=value, or a text")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON")
    page = OUTPUTS / "index.html"
    parser.add_argument("--html", metavar="FILE", nargs="?", type=Path, const=page, help="write the index page")
    parser.add_argument("--yes", action="store_true", help="with clean: delete what is shown")
    return parser.parse_intermixed_args(arguments)


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    is_cleaning = given.words[:1] == [CLEAN]
    words = given.words[1:] if is_cleaning else given.words
    folders = [Path(word) for word in words if "=" not in word and Path(word).is_dir()]
    if missing := next((word for word in words if "/" in word and "=" not in word and not Path(word).is_dir()), None):
        raise UserError(f"{missing} is no folder; name one with runs in it, or leave it out for outputs/.")
    if given.yes and not is_cleaning:
        raise UserError("--yes only belongs to clean; leave it out.")
    if is_cleaning and (given.html or given.json):
        raise UserError("clean writes no page and no JSON; leave out --html and --json.")
    filters = [word for word in words if Path(word) not in folders]
    return clean(folders, filters, given.yes) if is_cleaning else show(folders, filters, given)


def show(folders: list[Path], filters: list[str], given: argparse.Namespace) -> int:
    from eval.analysis.run_list.read_runs import FoundRuns, read_runs
    from eval.analysis.run_list.selection import Selection
    from eval.execution.console import Console
    from eval.reports.run_list.page import write_index
    from eval.reports.run_list.table import print_runs

    selection = Selection.read(filters)
    found = read_runs(folders or [OUTPUTS])
    runs = selection.select(found.runs)
    if given.json:
        print_line(json.dumps([run.to_dict() for run in runs], indent=2, default=str))
    else:
        print_runs(runs, len(found.runs), Console())
    if given.html:
        try:
            write_index(given.html.absolute(), FoundRuns(runs, found.pages))
        except OSError as error:
            print_line(f"stopped: {given.html} cannot be written: {error}", error=True)
            return STOPPED
        print_line(f"page: {given.html.absolute()}", error=given.json)
    return FINISHED


def clean(folders: list[Path], filters: list[str], is_confirmed: bool) -> int:
    from eval.analysis.run_list.cleaning import plan_cleaning, read_protection
    from eval.analysis.run_list.read_runs import read_runs
    from eval.analysis.run_list.selection import Selection
    from eval.execution.console import Console
    from eval.reports.run_list.table import format_bytes, print_plan
    from eval.runs.deletion import delete_run

    selection = Selection.read(filters)
    if selection.is_empty:
        raise UserError("clean needs to know which runs; give a filter such as state=crashed, older=30d or name=try_*.")
    runs = selection.select(read_runs(folders or [OUTPUTS]).runs)
    plan = plan_cleaning(runs, read_protection(PROJECT_ROOT / "prompts", OUTPUTS / "gold"), OUTPUTS)
    print_plan(plan, Console())
    total = f"{len(plan.chosen)} of {len(runs)} runs, {format_bytes(plan.n_bytes)}"
    if not is_confirmed:
        print_line(f"nothing was deleted: {total}; add --yes to delete them. MLflow keeps what it has of them.")
        return FINISHED
    n_failed = 0
    for run in plan.chosen:
        try:
            delete_run(run.folder, OUTPUTS)
        except (UserError, OSError) as error:
            n_failed += 1
            print_line(f"not deleted: {run.folder}: {error}", error=True)
    print_line(f"deleted: {total}" + (f", but {n_failed} could not be" if n_failed else ""))
    return STOPPED if n_failed else FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
