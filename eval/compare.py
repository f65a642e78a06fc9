"""Compare runs question by question, each with the first; no model is called.

    python eval/compare.py baseline careful
    python eval/compare.py outputs/eval/2026-11-21_08-30-31_gaia_offline_sample latest --html comparison.html
    python eval/compare.py baseline level_1_only --intersection        only the questions that both have
    python eval/compare.py baseline careful --settings                 every setting in which they differ

    python eval/compare.py baseline careful --gate --margin 0.02 --alpha 0.05
    python eval/compare.py baseline careful --gate --metrics score,cost --margin cost=0.10 --markdown comment.md

Exit codes: 0 compared, whatever the result; with --gate: no worse than allowed · 1 a mistake of the user, in one
sentence · 3 a file could not be written · with --gate: 4 worse than allowed · 5 inconclusive.
The page and the JSON hold targets: they are for the runs' owner. With --gate, Markdown, JUnit and JSON hold none.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from eval.cli.command import FINISHED, INCONCLUSIVE, REGRESSION, STOPPED, exit_now, run_cli
from eval.cli.compare_arguments import read_arguments
from eval.runs.folder import find_run
from mas.runtime.terminal import print_line


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    folders = [find_run(run) for run in given.runs]

    from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs
    from eval.analysis.comparison.regression_gate import judge_runs, read_gate_settings
    from eval.execution.console import Console  # heavier, and only needed for runs that exist
    from eval.reports.comparison_table import print_comparison
    from eval.reports.regression_gate.sentences import print_gate
    from eval.reports.run_comparison.files import write_files
    from eval.runs.foreign_run import refuse_unreadable

    settings = read_gate_settings(given.metrics, given.margin or (), given.alpha) if given.gate else None
    with refuse_unreadable(*folders):
        runs = read_runs(folders)
        gate = judge_runs(runs[0], runs[1], settings) if settings else None
        result = compare_read_runs(runs, given.intersection)
    print_comparison(result, console := Console(), given.settings)
    if gate:
        print_gate(gate, console)
    try:
        with refuse_unreadable(*folders):  # the page reads the steps of a folder that may be anybody's
            write_files(given, result, runs, gate)
    except OSError as error:
        print_line(f"stopped: the comparison cannot be written: {error}", error=True)
        return STOPPED
    return {"pass": FINISHED, "fail": REGRESSION, "inconclusive": INCONCLUSIVE}[gate.verdict] if gate else FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
