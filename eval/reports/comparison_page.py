"""Runs compared, on one page that opens from the disk, needs no script and loads nothing.

It shows gold answers, and so is for the runs' owner.

    write_comparison(Path("comparison.html"), result)        # result: of eval.analysis.comparison.comparing.compared
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.analysis.comparison.comparing import flips
from eval.cli.terminal_text import visible
from eval.reports.comparison_table import differing, numbers, run_line, short_ids, verdict
from eval.reports.files import template
from eval.runs.folder import whole_file

MAX_FLIPS = 2_000  # of one comparison
_TEMPLATE = Path(__file__).with_name("comparison.html.jinja")


def write_comparison(path: Path, result: Mapping[str, Any]) -> None:
    """
    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    page = template(_TEMPLATE).render(
        result=result,
        runs=list(map(run_line, result["runs"])),
        comparisons=[_shown(made, result) for made in result["comparisons"]],
    )
    with whole_file(path) as file:
        file.write(visible(page))


def _shown(made: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    flipped = list(flips(made))
    return {
        "made": made,
        "numbers": list(numbers(made)),
        "lines": [*verdict(made, len(result["comparisons"])), *made["notes"]],
        "differing": list(differing(made)),
        "flips": flipped[:MAX_FLIPS],
        "short_ids": short_ids([flip["id"] for flip, *_ in flipped]),
        "n_left_out": max(len(flipped) - MAX_FLIPS, 0),
    }
