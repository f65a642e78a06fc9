"""Runs compared, on one page that opens from the disk, needs no script and loads nothing.

The page holds targets, and so is for the runs' owner.

    write_comparison(Path("comparison.html"), compare_runs(folders, intersection=False))
"""

from pathlib import Path

from eval.analysis.comparison.compare_runs import ComparisonResult, RunComparison, describe_answers
from eval.reports.comparison_table import (
    describe_marks,
    describe_run,
    describe_verdict,
    list_differences,
    list_numbers,
    shorten_ids,
)
from eval.reports.html.templates import load_template
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls

MAX_FLIPS = 2_000  # of one comparison
_TEMPLATE = Path(__file__).with_name("comparison.html.jinja")


def write_comparison(path: Path, result: ComparisonResult) -> None:
    """Write the page.

    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    page = load_template(_TEMPLATE).render(
        result=result,
        runs=list(map(describe_run, result.runs)),
        comparisons=[_build_section(each, len(result.comparisons)) for each in result.comparisons],
    )
    with write_atomically(path) as file:
        file.write(escape_controls(page))


def _build_section(pair: RunComparison, n_comparisons: int) -> dict[str, object]:
    flips = pair.comparison.flips
    return {
        "pair": pair,
        "numbers": list(list_numbers(pair)),
        "lines": [*describe_verdict(pair, n_comparisons), *pair.notes],
        "legend": describe_marks(pair),
        "differing": list(list_differences(pair)),
        "flips": [(flip, *describe_answers(flip)) for flip in flips[:MAX_FLIPS]],
        "short_ids": shorten_ids([flip.id for flip in flips]),
        "n_left_out": max(len(flips) - MAX_FLIPS, 0),
    }
