"""Show the difference of two prompt sets by agent and word.

    python optimize/diff.py baseline tuned                        sets under prompts/
    python optimize/diff.py baseline latest:c004                  a candidate of a tuning run

Exit codes: 0 done, different or not · 1 a mistake in the command, explained in one sentence.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, exit_now, run_cli


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = UserErrorParser(
        usage="python optimize/diff.py A B",
        description="How two prompt sets differ, agent by agent and word by word.",
    )
    whose = "a set under prompts/, the path of a folder, or RUN:ID, a candidate of a tuning run"
    parser.add_argument("a", metavar="A", help=whose)
    parser.add_argument("b", metavar="B", help="the same")
    return parser.parse_args(arguments)


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)

    from eval.execution.console import Console
    from optimize.publishing.prompt_diff import show_difference
    from optimize.session.tuning_store import find_set

    a, b = find_set(given.a), find_set(given.b)
    show_difference(a, b, Console(highlight=False, soft_wrap=True))
    return FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
