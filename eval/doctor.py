"""Report what is missing on this machine for the chosen configuration, and how to get it: one line for each check.

    python eval/doctor.py                                 the default: GAIA Level 1 with gpt-4o-mini
    python eval/doctor.py experiment=offline              any options of eval/run.py

Exit codes: 0 the chosen configuration can run · 1 it cannot. Only lines marked `missing` count; a `warning` does not.
"""

from __future__ import annotations  # read under Pythons that are too old, to say that they are

import os
import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed yet
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from eval.cli.arguments import UserErrorParser
from eval.cli.paths import PROJECT_ROOT
from eval.workflows.doctor import MISSING, run_checks
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line


def main(arguments: list[str]) -> int:
    """Print the findings; return the exit code."""
    description = "Say what is missing for the chosen configuration, and how to get it."
    parser = UserErrorParser(usage="python eval/doctor.py [name=value ...]", description=description)
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="options, as of eval/run.py")
    try:
        given = parser.parse_intermixed_args(arguments)
    except UserError as error:
        print_line(f"error: {error}", error=True)
        return 1
    missing = 0
    for finding in run_checks(given.overrides, PROJECT_ROOT / "pyproject.toml"):
        print_line(str(finding))
        missing += finding.state == MISSING
    print_line(f"\nCannot run: {missing} missing." if missing else "\nCan run.")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that is not UTF-8
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # `| head`: whoever was reading has seen enough
        os._exit(0)
