"""A fetched text as a tool returns it: the source first, then one page of it or the lines that match a search.

shown("example.org: Towns", [Part([Line(1, "Rome")])], page=1, search=None)
# "example.org: Towns; page 1 of 1\\n\\nRome"
"""

from collections.abc import Sequence

from mas.runtime.text import encodable
from mas.tools.files.document import Line, Part
from mas.tools.files.paging import MAX_HEADER_CHARS, clipped, matching, pages_of
from mas.tools.results import ToolError


def shown(source: str, parts: list[Part], page: int, search: str | None, notes: Sequence[str] = ()) -> str:
    """
    Args:
        source: one line: what it is, where and of when.
        notes: what else there is to say, a line each.

    Raises:
        ToolError: there is no such page.
    """
    found = ""
    if wanted := (search or "").strip():
        parts, count = matching(parts, wanted)
        found = f"lines that contain {clipped(wanted, 200)!r}: {count}"
    pages = pages_of(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: there are the pages 1 to {len(pages)} for this call.")
    rest = f"page {page} of {len(pages)}"
    if page < len(pages):
        rest += f"; the rest: page={page + 1}" + ("" if found else ', or search="some text" for matching lines alone')
    first = "; ".join(text for text in (clipped(" ".join(source.split()), MAX_HEADER_CHARS // 2), found, rest) if text)
    header = clipped("\n".join([first, *notes]), MAX_HEADER_CHARS - 10)
    return clean(f"{header}\n\n{pages[page - 1]}")


def lines(texts: Sequence[str]) -> list[Line]:
    """Numbered from 1."""
    return [Line(number, text) for number, text in enumerate(texts, start=1)]


def clean(text: str) -> str:
    """Fit for a prompt and a database: no half surrogate pairs, no NUL."""
    mended: str = encodable(text.replace("\x00", "\ufffd"))
    return mended
