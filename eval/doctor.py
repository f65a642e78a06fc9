"""What is missing on this machine for the chosen configuration, and how to get it: one line a check.

python eval/doctor.py                                 the default: GAIA Level 1 with gpt-4o-mini
python eval/doctor.py experiment=offline              any options of eval/run.py
python eval/doctor.py --deep                          search the web once with the key, and Wikipedia

Exit codes: 0 the chosen configuration can run · 1 it cannot. Only lines marked `missing` count; a `warning` does not.
"""

from __future__ import annotations  # read under Pythons that are too old, to say that they are

import os
import sys
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed yet
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from eval.cli.arguments import Parser
from eval.cli.paths import PROJECT_ROOT
from eval.workflows.checks.finding import MISSING, Finding
from eval.workflows.checks.installation import packages, python_version
from mas.runtime.errors import UserError


def main(arguments: list[str]) -> int:
    usage = "python eval/doctor.py [--deep] [name=value ...]"
    parser = Parser(usage=usage, description="Say what is missing for the chosen configuration, and how to get it.")
    parser.add_argument("--deep", action="store_true", help="search the web once with the key, and Wikipedia")
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="options, as of eval/run.py")
    try:
        given = parser.parse_intermixed_args(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    missing = 0
    for finding in findings(given.overrides, given.deep):
        print(finding, flush=True)
        missing += finding.state == MISSING
    print(f"\nCannot run: {missing} missing." if missing else "\nCan run.")
    return 1 if missing else 0


def findings(overrides: list[str], deep: bool = False) -> Iterator[Finding]:
    """Each as soon as it is known; without Python and packages nothing else can be looked at."""
    version = python_version()
    yield version
    if version.state == MISSING:
        return
    installed = packages(PROJECT_ROOT / "pyproject.toml")
    yield installed
    if installed.state != MISSING:
        from eval.workflows.checks.everything import of_configuration, of_machine

        yield from of_configuration(overrides, deep)
        yield from of_machine()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # `| head`: whoever was reading has seen enough
        os._exit(0)
