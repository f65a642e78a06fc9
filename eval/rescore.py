"""Score the answers of a finished run again, by another rule or against corrected targets, without calling a model.

    python eval/rescore.py latest scorer=numeric scorer.tolerance=0.5
    python eval/rescore.py latest gold=corrected.jsonl            {"task_id": "q1", "Final answer": "418"} a line
    python eval/rescore.py my_run scorer=exact run.name=exact

It makes a new run and leaves the old one unchanged.

Exit codes: 0 done · 1 a mistake in the command line, nothing made · 2 done, and some questions of the run failed by
error · 3 done, and the run had not answered all its questions; or the files could not be written.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.runs.folder import find_run
from mas.runtime.errors import UserError

_ALLOWED = ("run.dir", "run.name")


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Score a finished run again, by another rule or against corrected targets; no model is called."
    usage = "python eval/rescore.py RUN [scorer=NAME] [gold=FILE.jsonl] [name=value ...]"
    parser = UserErrorParser(usage=usage, description=description, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="latest, a name under outputs/eval, or the path of a run's folder")
    changes = 'scorer=… and its options; gold=FILE: lines {"task_id": …, "Final answer": …}; run.name=…, run.dir=…'
    parser.add_argument("changes", nargs="*", metavar="name=value", help=changes)
    given = parser.parse_args(arguments)
    golds = [change.partition("=")[2] for change in given.changes if change.startswith("gold=")]
    given.gold = Path(golds[-1]) if golds else None
    given.overrides = [change for change in given.changes if not change.startswith("gold=")]
    names = [override.partition("=")[0].lstrip("+~") for override in given.overrides]
    for name in names:
        if name != "scorer" and not name.startswith("scorer.") and name not in _ALLOWED:
            raise UserError(f"{name} cannot be changed by rescoring; give scorer=…, its options, gold=… or run.name=….")
    options = [each for each, name in zip(given.overrides, names, strict=True) if name.startswith("scorer.")]
    if options and "scorer" not in names:
        raise UserError(f"{options[0]} is an option of a scorer; name that too: scorer=… {options[0]}.")
    if given.gold is None and "scorer" not in names:
        raise UserError("nothing would be scored differently; give scorer=… or gold=FILE.jsonl.")
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    original = find_run(given.run)
    from eval.workflows.rescore import rescore_and_report

    return rescore_and_report(original, given.overrides, given.gold, command=arguments)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
