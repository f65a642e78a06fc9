"""Compare runs question by question, each with the first; no model is called.

    python eval/compare.py baseline careful
    python eval/compare.py outputs/eval/2026-11-21_08-30-31_gaia_offline_sample latest --html comparison.html

    python eval/compare.py baseline careful --gate --margin 0.02 --alpha 0.05
    python eval/compare.py baseline careful --gate --json gate.json

--html FILE: write a page, with gold answers: it is for the runs' owner. --json FILE: write all numbers and the ids of
flips, without answers. --gate: fail a build if the second run is worse than the first; --margin: loss that is allowed
(0.02, which is 2 points); --alpha: probability of a wrong verdict, one-sided (0.05).

Exit codes: 0 compared, whatever the result; with --gate: no worse than allowed · 1 a mistake of the user, in one
sentence · 3 a file could not be written · with --gate: 4 worse than allowed · 5 inconclusive.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse
from dataclasses import asdict

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, INCONCLUSIVE, REGRESSION, STOPPED, exit_now, run_cli
from eval.runs.find import find_run
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line

_GATE_OPTIONS = {"margin": 0.02, "alpha": 0.05}  # and their defaults


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return what was given; UserError: it cannot be read, or options contradict each other."""
    usage = "python eval/compare.py RUN RUN [RUN ...] [--html FILE] [--json FILE] [--gate [--margin X] [--alpha X]]"
    parser = UserErrorParser(usage, __doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="each: latest, a name under outputs/eval, or a folder")
    parser.add_argument("--html", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--gate", action="store_true")
    for name in _GATE_OPTIONS:
        parser.add_argument(f"--{name}", type=float, metavar="X")
    given = parser.parse_intermixed_args(arguments)
    alone = [name for name in _GATE_OPTIONS if getattr(given, name) is not None and not given.gate]
    if alone:
        raise UserError(f"--{alone[0]} belongs to --gate; add --gate, or leave --{alone[0]} out.")
    if given.gate and len(given.runs) != 2:
        raise UserError(f"--gate compares a new run with its baseline, and {len(given.runs)} are named; name two runs.")
    for name, default in _GATE_OPTIONS.items():
        if getattr(given, name) is None:
            setattr(given, name, default)
    if not 0 <= given.margin < 1:
        points = f"; {given.margin:g} points are {given.margin / 100:g}" if 1 <= given.margin < 100 else ""
        raise UserError(
            f"--margin {given.margin:g} is not from 0 to below 1; expected a share such as --margin 0.02{points}."
        )
    if not 0 < given.alpha < 0.5:
        raise UserError(f"--alpha is {given.alpha:g}; expected a probability above 0 and below 0.5, such as 0.05.")
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    folders = [find_run(run) for run in given.runs]

    from eval.analysis.comparison.compare_runs import compare_read_runs, judge_new_run, read_runs
    from eval.execution.console import Console  # heavier, and only needed for runs that exist
    from eval.reports.run_comparison.page import print_comparison, print_gate, write_comparison
    from eval.runs.folder import write_lines
    from eval.runs.own_runs import refuse_unreadable

    with refuse_unreadable(*folders):
        result = compare_read_runs(read_runs(folders))
    gate = judge_new_run(result, given.margin, given.alpha) if given.gate else None
    print_comparison(result, console := Console())
    if gate:
        print_gate(result.comparisons[0], gate, console)
    try:
        if given.html:
            with refuse_unreadable(*folders):  # the page reads the steps of a folder that may be anybody's
                write_comparison(given.html, result)
        if given.json:
            content = result.to_dict() | ({"gate": asdict(gate)} if gate else {})
            write_lines(given.json, [json.dumps(content, indent=2)])
        for file in filter(None, () if gate else (given.html, given.json)):  # the last line of a gate is its verdict
            print_line(f"written: {file}")
    except OSError as error:
        print_line(f"stopped: the comparison cannot be written: {error}", error=True)
        return STOPPED
    return {"pass": FINISHED, "fail": REGRESSION, "inconclusive": INCONCLUSIVE}[gate.verdict] if gate else FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
