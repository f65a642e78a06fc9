"""Report what is missing on this machine for the chosen configuration, and how to get it: one line for each check.

    python eval/doctor.py                                 the default: GAIA Level 1 with gpt-4o-mini
    python eval/doctor.py experiment=offline              any options of eval/run.py

Exit codes: 0 the chosen configuration can run · 1 it cannot. Only lines marked `missing` count; a `warning` does not.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.workflows.doctor import MISSING, run_checks
from mas.runtime.terminal import print_line


def main(arguments: list[str]) -> int:
    """Print the findings; return the exit code."""
    description = "Say what is missing for the chosen configuration, and how to get it."
    parser = UserErrorParser(usage="python eval/doctor.py [name=value ...]", description=description)
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="options, as of eval/run.py")
    given = parser.parse_intermixed_args(arguments)
    missing = 0
    for finding in run_checks(given.overrides):
        print_line(str(finding))
        missing += finding.state == MISSING
    print_line(f"\nCannot run: {missing} missing." if missing else "\nCan run.")
    return 1 if missing else 0


if __name__ == "__main__":
    exit_now(run_cli(lambda: main(sys.argv[1:])))
