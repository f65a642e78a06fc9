"""Runs compared, on one page that opens from the disk, needs no script and loads nothing.

It shows gold answers, and so is for the runs' owner.

    write_comparison(Path("comparison.html"), result)        # result: of compare_runs
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.analysis.comparison.comparing import describe_flips
from eval.cli.terminal_text import escape_controls
from eval.reports.comparison_table import describe_run, describe_verdict, list_differences, list_numbers, shorten_ids
from eval.reports.templates import load_template
from eval.runs.folder import write_atomically

MAX_FLIPS = 2_000  # of one comparison
_TEMPLATE = Path(__file__).with_name("comparison.html.jinja")


def write_comparison(path: Path, result: Mapping[str, Any]) -> None:
    """
    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    page = load_template(_TEMPLATE).render(
        result=result,
        runs=list(map(describe_run, result["runs"])),
        comparisons=[_shown(made, result) for made in result["comparisons"]],
    )
    with write_atomically(path) as file:
        file.write(escape_controls(page))


def _shown(made: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    flipped = list(describe_flips(made))
    return {
        "made": made,
        "numbers": list(list_numbers(made)),
        "lines": [*describe_verdict(made, len(result["comparisons"])), *made["notes"]],
        "differing": list(list_differences(made)),
        "flips": flipped[:MAX_FLIPS],
        "short_ids": shorten_ids([flip["id"] for flip, *_ in flipped]),
        "n_left_out": max(len(flipped) - MAX_FLIPS, 0),
    }
