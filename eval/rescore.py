"""Score the answers of a finished run again, by another rule or by what people said, without calling a model.

    python eval/rescore.py latest scorer=numeric scorer.tolerance=0.5
    python eval/rescore.py my_run scorer=exact run.name=exact
    python eval/rescore.py my_run gold=outputs/gold               by what people said in eval/view.py

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
from eval.cli.command import exit_now, read_option_name, run_cli
from eval.runs.find import find_run
from mas.runtime.errors import UserError


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return the run, the folder `gold`, and the overrides."""
    description = "Score a finished run again, by another rule or by what people said; no model is called."
    usage = "python eval/rescore.py RUN [scorer=NAME] [gold=outputs/gold] [name=value ...]"
    parser = UserErrorParser(usage=usage, description=description)
    runs = "RUN: latest, a name under outputs/eval, or the path of a run's folder"
    changes = "scorer=… and its options; gold=outputs/gold: labels of people, from eval/view.py; run.name=…, run.dir=…"
    parser.add_argument("words", nargs="*", metavar="WORD", help=f"{runs}; {changes}")
    given = parser.parse_args(arguments)
    names = [each for each in given.words if "=" not in each]
    if len(names) != 1:
        raise UserError(f"name one run; {usage}.")
    golds = [each.partition("=")[2] for each in given.words if each.startswith("gold=")]
    given.run, given.gold = names[0], Path(golds[-1]) if golds else None
    given.overrides = [each for each in given.words if "=" in each and not each.startswith("gold=")]
    options = [read_option_name(each) for each in given.overrides]
    for name in options:
        if name not in ("scorer", "run.dir", "run.name") and not name.startswith("scorer."):
            raise UserError(f"{name} cannot be changed by rescoring; give scorer=…, its options, gold=… or run.name=….")
    own = [each for each in given.overrides if read_option_name(each).startswith("scorer.")]
    if own and "scorer" not in options:
        raise UserError(f"{own[0]} is an option of a scorer; name that too: scorer=… {own[0]}.")
    if given.gold is None and "scorer" not in options:
        raise UserError("nothing would be scored differently; give scorer=… or gold=outputs/gold.")
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    original = find_run(given.run)
    from eval.workflows.rescore import rescore_run  # heavier, and only needed for a run that exists

    return rescore_run(original, given.overrides, given.gold)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
