"""Long content in pages of whole lines, so that no observation fills the model's context.

pages_of([Part([Line(1, "a"), Line(2, "b")])])     # ["a\\nb"]
"""

from collections.abc import Iterator, Sequence

from mas.tools.files.document import Part

MAX_PAGE_CHARS = 12_000  # of one observation, its header included
MAX_HEADER_CHARS = 2_500  # what read_file says about the file
MAX_HEADING_CHARS = 2_500  # of a part
MAX_PIECE_CHARS = 4_000  # a longer line is split: JSON in one line, base64
_BODY_CHARS = MAX_PAGE_CHARS - MAX_HEADER_CHARS


def pages_of(parts: Sequence[Part]) -> list[str]:
    """The parts as texts below the limit; every line is on exactly one page, a part's heading on each of its pages."""
    pages: list[list[str]] = [[]]
    room = _BODY_CHARS
    for part in parts:
        heading = clipped(part.heading, MAX_HEADING_CHARS)
        opening = [heading] if heading else []
        for piece in _pieces(part):
            needed = _size([*opening, piece])
            if needed > room and pages[-1]:
                pages.append([])
                opening, room = [heading] if heading else [], _BODY_CHARS
            block = [*opening, piece]
            pages[-1] += block
            room -= _size(block)
            opening = []
    return ["\n".join(page) for page in pages]


def clipped(text: str, limit: int) -> str:
    """At most `limit` characters, saying how many are missing."""
    if len(text) <= limit:
        return text
    kept = limit - 40
    return f"{text[:kept]}… ({len(text) - kept} more characters)"


def _size(block: Sequence[str]) -> int:
    return sum(len(text) + 1 for text in block)


def _pieces(part: Part) -> Iterator[str]:
    if not part.lines:
        yield "(empty)"
    for line in part.lines:
        text = f"{line.number} | {line.text}" if part.numbered else line.text
        for start in range(0, max(len(text), 1), MAX_PIECE_CHARS):
            yield text[start : start + MAX_PIECE_CHARS] + ("…" if start + MAX_PIECE_CHARS < len(text) else "")
