"""A tuning run that has come to its verdict and is resumed: the verdict is shown again, and nothing else is loaded.

shown_again("latest")          # 0, or 2 (`optimize.ending`); None if there is none yet
"""

import sys
from collections.abc import Sequence

from optimize.ending import exit_code
from optimize.resuming import RESUME, find_tuning_run
from optimize.run_files import RunFiles


def shown_again(run: str, given: Sequence[str] = ()) -> int | None:
    """The exit code of a run that has come to its verdict, which is printed; None: it has not.

    `given`: what was typed, without what the run was started with.
    """
    files = RunFiles(find_tuning_run(run))
    verdict = files.read("verdict")
    if verdict is None or verdict["resumable"]:
        return None
    from optimize.reporting import show_verdict

    show_verdict(files)
    if any(not each.startswith(f"{RESUME}=") for each in given):
        print("this run is over: the options given now change nothing", file=sys.stderr)
    return exit_code(verdict)
