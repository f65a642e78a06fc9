"""Score a finished run anew, by another rule or against corrected gold answers, without asking any model.

python eval/rescore.py latest scorer=numeric scorer.tolerance=0.5
python eval/rescore.py latest gold=corrected.jsonl            {"task_id": "q1", "Final answer": "418"} a line
python eval/rescore.py my_run scorer=exact run.name=exact

It makes a new run beside the old one, which stays as it is.

Exit codes: 0 done · 1 your mistake, told in one sentence, nothing made · 2 done, and some questions of the run failed
by error · 3 done, and the run had not come to all its questions, or the files could not be written.
"""

import argparse
import sys
from pathlib import Path

from eval.cli.arguments import Parser
from eval.cli.command import STOPPED, exit_now, run_cli
from eval.cli.hydra_compat import MISTAKES
from eval.cli.paths import shown
from eval.runs.folder import DATABASE, find_run
from mas.runtime.errors import UserError

_ALLOWED = ("run.dir", "run.name")


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Score a finished run anew, by another rule or against corrected gold answers; no model is asked."
    usage = "python eval/rescore.py RUN [scorer=NAME] [gold=FILE.jsonl] [name=value ...]"
    parser = Parser(usage=usage, description=description, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="latest, a name under outputs/eval, or the path of a run's folder")
    parser.add_argument(
        "changes",
        nargs="*",
        metavar="name=value",
        help='scorer=… and its options; gold=FILE: lines {"task_id": …, "Final answer": …}; run.name=…, run.dir=…',
    )
    given = parser.parse_args(arguments)
    golds = [change.partition("=")[2] for change in given.changes if change.startswith("gold=")]
    given.gold = Path(golds[-1]) if golds else None
    given.overrides = [change for change in given.changes if not change.startswith("gold=")]
    for override in given.overrides:
        name = _name(override)
        if name != "scorer" and not name.startswith("scorer.") and name not in _ALLOWED:
            raise UserError(f"{name} cannot be changed by rescoring; give scorer=…, its options, gold=… or run.name=….")
    options = [override for override in given.overrides if _name(override).startswith("scorer.")]
    if options and not any(_name(override) == "scorer" for override in given.overrides):
        raise UserError(f"{options[0]} is an option of a scorer; name that too: scorer=… {options[0]}.")
    if given.gold is None and not any(override.startswith("scorer") for override in given.overrides):
        raise UserError("there is nothing to score anew by; give scorer=… or gold=FILE.jsonl.")
    return given


def _name(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    original = find_run(given.run)

    from rich.console import Console

    from eval.reports.files import write_reports
    from eval.reports.summary_table import choose_exit_code, print_summary
    from eval.runs.store import RunStore, StoreError
    from eval.workflows.rescore import rescored

    try:
        folder = rescored(original, given.overrides, given.gold, command=arguments)
        with RunStore(folder / DATABASE) as store:
            summary = write_reports(folder, store)
    except MISTAKES:  # some of Hydra's are OSErrors
        raise
    except (StoreError, OSError) as error:
        print(f"stopped: {error}", file=sys.stderr)
        return STOPPED
    console = Console()
    print_summary(summary, console)
    for name, path in (("scored again from", original), ("results", folder)):
        console.print(f"{name}: {shown(path)}", markup=False, highlight=False, soft_wrap=True)
    return choose_exit_code(summary, None, console)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
