"""Options of `eval/compare.py`, and which belong together.

read_arguments(["baseline", "new", "--gate", "--margin", "0.02"]).gate      # True
"""

import argparse
from pathlib import Path

from eval.cli.arguments import UserErrorParser
from mas.runtime.errors import UserError

_GATE_OPTIONS = ("metrics", "margin", "alpha", "markdown", "junit")


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return what was given on the command line.

    Raises:
        UserError: it cannot be read, or options contradict each other.
    """
    description = "Compare runs question by question, each with the first: paired statistics, cost, what flipped."
    usage = (
        "python eval/compare.py RUN_A RUN_B [RUN_C ...] [--intersection] [--settings] [--html FILE] [--json FILE] "
        "[--gate [--metrics NAMES] [--margin SHARE] [--alpha SHARE] [--markdown FILE] [--junit FILE]]"
    )
    parser = UserErrorParser(usage=usage, description=description)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="latest, a name under outputs/eval, or the path of a run's folder"
    )
    parser.add_argument(
        "--intersection", action="store_true", help="compare the questions that two runs have in common and answered"
    )
    parser.add_argument("--settings", action="store_true", help="list every setting in which two runs differ")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page, with gold answers")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write all numbers and flips, with gold answers; with --gate: its result",
    )
    gate = parser.add_argument_group("gate of a build")
    gate.add_argument("--gate", action="store_true", help="exit with 4 if RUN_B is worse than RUN_A, 5 if undecided")
    gate.add_argument("--metrics", metavar="NAMES", help="score (default), accuracy, f1, cost, latency; commas between")
    gate.add_argument(
        "--margin", action="append", metavar="SHARE", help="loss that is allowed: 0.02 is 2 points; cost=0.10 is 10 %%"
    )
    gate.add_argument("--alpha", type=float, metavar="SHARE", help="probability of a wrong verdict, one-sided; 0.05")
    gate.add_argument("--markdown", type=Path, metavar="FILE", help="write the verdict for a pull request's comment")
    gate.add_argument("--junit", type=Path, metavar="FILE", help="write the verdict as JUnit XML, for a build server")
    given = parser.parse_intermixed_args(arguments)
    _check_options(given)
    return given


def _check_options(given: argparse.Namespace) -> None:
    alone = [name for name in _GATE_OPTIONS if getattr(given, name) is not None and not given.gate]
    if alone:
        raise UserError(f"--{alone[0]} belongs to --gate; add --gate, or leave --{alone[0]} out.")
    if given.gate and given.intersection:
        raise UserError("--gate decides on all questions; leave --intersection out, and compare runs of the same ones.")
    if given.gate and len(given.runs) != 2:
        raise UserError(f"--gate compares a new run with its baseline, and {len(given.runs)} are named; name two runs.")
    files = [path.absolute() for path in (given.html, given.json, given.markdown, given.junit) if path]
    if twice := next((path for path in files if files.count(path) > 1), None):
        raise UserError(f"{twice.name} is to hold two outputs; give each a file of its own.")
