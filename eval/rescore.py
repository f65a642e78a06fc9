"""Score the answers of a finished run again, by another rule or against corrected targets, without calling a model.

    python eval/rescore.py latest scorer=numeric scorer.tolerance=0.5
    python eval/rescore.py latest gold=corrected.jsonl            {"task_id": "q1", "Final answer": "418"} a line
    python eval/rescore.py my_run scorer=exact run.name=exact
    python eval/rescore.py outputs gold=outputs/gold              all runs, by what people said in eval/view.py

It makes new runs and leaves the old ones unchanged. What people said is also sent to the MLflow of the old run, if any.

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
from eval.runs.find import find_runs, is_folder_of_runs
from mas.runtime.errors import UserError

_ALLOWED = ("run.dir", "run.name")


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Score finished runs again, by another rule or against corrected targets; no model is called."
    usage = "python eval/rescore.py RUN [scorer=NAME] [gold=FILE.jsonl | gold=outputs/gold] [name=value ...]"
    parser = UserErrorParser(usage=usage, description=description)
    runs = "latest, a name under outputs/eval, the path of a run's folder, or a folder of runs, such as outputs"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    changes = (
        'scorer=… and its options; gold=FILE: lines {"task_id": …, "Final answer": …}; gold=outputs/gold: labels of '
        "people, from eval/view.py; run.name=…, run.dir=…"
    )
    parser.add_argument("changes", nargs="*", metavar="name=value", help=changes)
    given = parser.parse_args(arguments)
    words = [*given.runs, *given.changes]
    given.runs, given.changes = [each for each in words if "=" not in each], [each for each in words if "=" in each]
    if not given.runs:
        raise UserError(f"name a run, or a folder of runs; {usage}.")
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
    if "run.dir" in names and len(given.runs) > 1:
        raise UserError("run.dir is the folder of one run; leave it out, or name one run.")
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    found = [find_runs(word) for word in given.runs]
    originals = list(dict.fromkeys(run for runs in found for run in runs))
    from eval.workflows.rescore import rescore_all, rescore_and_report

    if len(given.runs) == 1 and not is_folder_of_runs(given.runs[0]):
        return rescore_and_report(originals[0], given.overrides, given.gold, command=arguments)
    return rescore_all(originals, given.overrides, given.gold, command=arguments)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
