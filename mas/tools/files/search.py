"""The lines of a document that hold a text, with their neighbours.

found, count = matching([Part([Line(1, "a"), Line(2, "B"), Line(3, "c")])], "b")
found[0].lines       # [Line(1, "  1 | a"), Line(2, "> 2 | B"), Line(3, "  3 | c")], count is 1
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from mas.tools.files.document import Line, Part

CONTEXT_LINES = 2
MAX_LINE_CHARS = 1_000  # of a longer line only the surroundings of the matches are shown
AROUND_CHARS = 200


def matching(parts: Sequence[Part], wanted: str) -> tuple[list[Part], int]:
    """Parts with matching lines (marked `>`) and their context alone, and the number of matching lines.

    Upper and lower case are the same.
    """
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    found, count = [], 0
    for part in parts:
        hits = {position for position, line in enumerate(part.lines) if pattern.search(line.text)}
        count += len(hits)
        if hits:
            found.append(replace(part, lines=_with_context(part.lines, hits, pattern), numbered=False))
    return found, count


def _with_context(lines: list[Line], hits: set[int], pattern: re.Pattern[str]) -> list[Line]:
    near = {hit + step for hit in hits for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
    shown: list[Line] = []
    previous = None
    for position in sorted(near & set(range(len(lines)))):
        number, text = lines[position]
        if previous is not None and position > previous + 1:
            shown.append(Line(number, "--"))
        mark = ">" if position in hits else " "
        shown.append(Line(number, f"{mark} {number} | {_shortened(text, pattern)}"))
        previous = position
    return shown


def _shortened(text: str, pattern: re.Pattern[str]) -> str:
    if len(text) <= MAX_LINE_CHARS:
        return text
    windows: list[list[int]] = []
    for match in pattern.finditer(text):
        start, end = max(0, match.start() - AROUND_CHARS), min(len(text), match.end() + AROUND_CHARS)
        if windows and start <= windows[-1][1]:
            windows[-1][1] = end
        else:
            windows.append([start, end])
    return "… " + " … ".join(text[start:end] for start, end in windows or [[0, AROUND_CHARS]]) + " …"
