"""Score the answers of a finished run again, by another rule or by what people said, without calling a model.

    python eval/rescore.py latest scorer=numeric scorer.tolerance=0.5
    python eval/rescore.py my_run scorer=exact run.name=exact
    python eval/rescore.py my_run gold=outputs/gold               by what people said in eval/view.py

RUN: latest, a name under outputs/eval, or the path of a run's folder. It makes a new run and leaves the old one
unchanged.

Exit codes: 0 done · 1 a mistake in the command line, nothing made · 2 done, and some questions of the run failed by
error · 3 done, and the run had not answered all its questions; or the files could not be written.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, read_option_name, run_cli
from eval.runs.find import find_run
from mas.runtime.errors import UserError


def read_arguments(arguments: list[str]) -> tuple[str, list[str], Path | None]:
    """Return the run, the overrides, and the folder `gold`."""
    usage = "python eval/rescore.py RUN [scorer=NAME] [gold=outputs/gold] [name=value ...]"
    run, options = UserErrorParser(usage, __doc__).read_run(arguments)
    golds = [each.removeprefix("gold=") for each in options if each.startswith("gold=")]
    overrides = [each for each in options if not each.startswith("gold=")]
    names = list(map(read_option_name, overrides))
    for name, override in zip(names, overrides, strict=True):
        if name not in ("scorer", "run.dir", "run.name") and not name.startswith("scorer."):
            raise UserError(f"{name} cannot be changed by rescoring; give scorer=…, its options, gold=… or run.name=….")
        if name.startswith("scorer.") and "scorer" not in names:
            raise UserError(f"{override} is an option of a scorer; name that too: scorer=… {override}.")
    if not golds and "scorer" not in names:
        raise UserError("nothing would be scored differently; give scorer=… or gold=outputs/gold.")
    return run, overrides, Path(golds[-1]) if golds else None


def task(arguments: list[str]) -> int:
    run, overrides, gold = read_arguments(arguments)
    original = find_run(run)
    from eval.workflows.rescore import rescore_run  # heavier, and only needed for a run that exists

    return rescore_run(original, overrides, gold)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
