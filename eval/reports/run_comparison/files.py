"""Files that `eval/compare.py` writes."""

import json
from argparse import Namespace
from collections.abc import Sequence

from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun
from eval.analysis.comparison.regression_gate import GateResult
from eval.reports.regression_gate.files import write_json, write_junit, write_markdown
from eval.reports.run_comparison.page import write_comparison
from eval.runs.folder import write_lines


def write_files(given: Namespace, result: ComparisonResult, runs: Sequence[ReadRun], gate: GateResult | None) -> None:
    """Write the files that were asked for; with a gate, JSON is that of its verdict.

    Raises:
        OSError: a file cannot be written.
        UserError: a run's store cannot be read.
    """
    if given.html:
        write_comparison(given.html, result, runs)
    if given.json and gate:
        write_json(given.json, gate)
    elif given.json:
        write_lines(given.json, [json.dumps(result.to_dict(), indent=2)])
    if given.markdown and gate:
        write_markdown(given.markdown, gate, result.comparisons[0].notes)
    if given.junit and gate:
        write_junit(given.junit, gate)
