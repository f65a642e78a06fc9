"""The lines of a document from one number to another, as the file's own program counts them.

between([Part([Line(1, "a"), Line(2, "b"), Line(3, "c")])], "2-9", "notes.txt", "sheet")
# [Part([Line(2, "b"), Line(3, "c")], numbered=True)], "lines 2-3 of 1-3"
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from mas.tools.errors import ToolError
from mas.tools.files.document import Part
from mas.tools.files.pages import clipped

EXAMPLE_LINES = 41  # of the range that a refusal proposes
_RANGE = re.compile(r"(?:(?:line|row)s? ?)?([0-9]{1,9})(?: ?[-\u2013] ?([0-9]{1,9}))?", re.IGNORECASE)


def between(parts: Sequence[Part], wanted: str, file: str, unit: str) -> tuple[list[Part], str]:
    """The parts that reach into the range, with its lines alone, and in words what is shown.

    Sheets and pages are each counted from their own start. What a range asks for beyond the end is left out.

    Args:
        wanted: "7" or "100-140".
        unit: what a part is called.

    Raises:
        ToolError: that is no range, or it is beyond all lines.
    """
    counted = [part for part in parts if part.lines]
    if not counted:
        raise ToolError(f"{file} has no lines; call read_file again without `lines`.")
    first, last = _ends(wanted)
    word = "row" if all(part.numbered for part in counted) else "line"
    start, end = min(map(_start, counted)), max(map(_end, counted))
    if not (first <= last and start <= last and first <= end):
        has = f"{word}s {start} to {end}" + (f" in its longest {unit}" if len(counted) > 1 else "")
        raise ToolError(
            f"{file} has the {has}; give `lines` one of these numbers or a range such as "
            f'"{start}-{min(end, start + EXAMPLE_LINES - 1)}", not {clipped(repr(wanted), 100)}.'
        )
    reached = [part for part in counted if _start(part) <= last and first <= _end(part)] or counted
    shown = [replace(part, lines=[line for line in part.lines if first <= line.number <= last]) for part in reached]
    among = f"{start}-{end}" if len(shown) == 1 else f"each {unit}"
    low, high = max(first, start), min(last, end)
    words = f"{word}s {low}-{high} of {among}" if low < high else f"{word} {low} of {among}"
    return [replace(part, numbered=True) for part in shown], words


def _ends(wanted: str) -> tuple[int, int]:
    """Both included; of what is no range the end is before the start."""
    found = _RANGE.fullmatch(wanted)
    return (int(found[1]), int(found[2] or found[1])) if found else (1, 0)


def _start(part: Part) -> int:
    return min(line.number for line in part.lines)


def _end(part: Part) -> int:
    return max(line.number for line in part.lines)
