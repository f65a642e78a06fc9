"""Fetched pages and lists of search results, as tools return them.

source = PageSource("Towns, https://example.org/", "https://example.org/", "Towns")
show_page(source, [Part([Line(1, "Rome")])], page=1, search=None)
# "Towns, https://example.org/; page 1 of 1\\n\\nRome"
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from mas.runtime.text import replace_surrogates
from mas.tools.files.document import Document, Part, number_lines
from mas.tools.files.html_rows import Row, list_headings, select_section
from mas.tools.files.paging import MAX_HEADER_CHARS, clip, search_lines, split_pages
from mas.tools.files.reader_pool import await_reader
from mas.tools.files.tasks import SMALL_PACKED_BYTES, Answer, Arguments, unpack
from mas.tools.results import Excerpt, ToolError, ToolResult

SHOW_DOCUMENT = "mas.tools.web.page_view:show_document"
SHOW_WIKI_ROWS = "mas.tools.web.page_view:show_wiki_rows"


@dataclass(frozen=True)
class PageSource:
    """Origin of a page."""

    description: str  # one line: what it is, where and of when
    url: str
    title: str


@dataclass(frozen=True)
class FoundPage:
    """Page that a search found."""

    title: str
    url: str
    text: str  # Wikipedia: the page's first sentences; web search: what the page says about the query


def show_page(
    source: PageSource, parts: list[Part], page: int, search: str | None, notes: Sequence[str] = ()
) -> ToolResult:
    """Return one page of a text, or of its lines that match a search, below a header that names the source.

    Args:
        notes: further lines of the header.

    Raises:
        ToolError: there is no such page.
    """
    found = ""
    if wanted := (search or "").strip():
        parts, count = search_lines(parts, wanted)
        found = f"lines that contain {clip(wanted, 200)!r}: {count}"
    pages = split_pages(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: there are the pages 1 to {len(pages)} for this call.")
    rest = f"page {page} of {len(pages)}"
    if page < len(pages):
        rest += f"; the rest: page={page + 1}" + ("" if found else ', or search="some text" for matching lines alone')
    described = clip(" ".join(source.description.split()), MAX_HEADER_CHARS // 2)
    first = "; ".join(text for text in (described, found, rest) if text)
    header = clip("\n".join([first, *notes]), MAX_HEADER_CHARS - 10)
    text = clean_text(f"{header}\n\n{pages[page - 1]}")
    shown = Excerpt(source.url, source.title, len(header) + 2, len(text), has_line_marks=bool(found))
    return ToolResult(text, kind="web_page", excerpts=[shown])


async def show_packed(source: PageSource, packed: bytes, page: int, search: str | None) -> ToolResult:
    """Return what `show_page` does of a packed document; a search that its main content lacks goes through all of it.

    Raises:
        ToolError: there is no such page.
    """
    wanted = {"name": "The page", "source": astuple(source), "page": page, "search": (search or "").strip()}
    shown = (await await_reader(SHOW_DOCUMENT, packed, wanted, SMALL_PACKED_BYTES)).facts
    return ToolResult.restore(shown["text"], shown["facts"])


def show_document(packed: bytes, wanted: Mapping[str, Any]) -> Answer:
    """Do the task SHOW_DOCUMENT for `show_packed`.

    Raises:
        ToolError: there is no such page.
    """
    document, search = Document.unpack(packed), wanted["search"]
    parts = document.parts
    if search and document.whole and not search_lines(parts, search)[1]:
        parts = document.whole
    return describe_result(show_page(PageSource(*wanted["source"]), parts, wanted["page"], search, document.notes))


async def show_wiki_page(source: PageSource, packed: bytes, wanted: Arguments) -> ToolResult:
    """Return what `show_page` does of a page of Wikipedia, or of one of its sections, with its headings as a note.

    Args:
        packed: its rows.
        wanted: `section`, `page`, `search`, and further `notes`.

    Raises:
        ToolError: there is no such section or page.
    """
    about = {**wanted, "name": source.title, "source": astuple(source)}
    shown = (await await_reader(SHOW_WIKI_ROWS, packed, about, SMALL_PACKED_BYTES)).facts
    return ToolResult.restore(shown["text"], shown["facts"])


def show_wiki_rows(packed: bytes, wanted: Mapping[str, Any]) -> Answer:
    """Do the task SHOW_WIKI_ROWS for `show_wiki_page`.

    Raises:
        ToolError: there is no such section or page.
    """
    rows, source, section = [Row(*row) for row in unpack(packed)], PageSource(*wanted["source"]), wanted["section"]
    chosen, headings = select_section(rows, section) if section else rows, "; ".join(list_headings(rows))
    if chosen is None:
        names = clip(headings, 1_500) or "none"
        raise ToolError(f"{source.title} has no section {clip(section, 200)!r}; its sections: {names}.")
    notes = [] if section else [f"sections: {clip(headings, 800) or 'none'}"]
    part = Part(number_lines(row.text for row in chosen))
    return describe_result(show_page(source, [part], wanted["page"], wanted["search"], [*notes, *wanted["notes"]]))


def describe_result(result: ToolResult) -> Answer:
    """Return a result as facts, for the process that waits for it."""
    return Answer({"text": str(result), "facts": result.describe()})


def show_found_pages(header: str, found: Sequence[FoundPage], if_none: str = "") -> ToolResult:
    """Return a numbered list of pages below a header, each with its address and text."""
    text, excerpts = f"{header}\n\n", []
    for number, each in enumerate(found, start=1):
        title, body = _flatten(each.title, 300), _flatten(each.text, 2_000) or "(no text)"
        text += f"{number}. {title}\n   {each.url}\n   "
        excerpts.append(Excerpt(each.url, title, len(text), len(text) + len(body)))
        text += f"{body}\n"
    return ToolResult(
        clean_text(text.removesuffix("\n") if found else text + if_none), kind="web_search", excerpts=excerpts
    )


def _flatten(text: str, limit: int) -> str:
    return clip(" ".join(text.split()), limit)


def clean_text(text: str) -> str:
    """Replace lone surrogates and NUL, which prompts and databases do not take; no position changes."""
    cleaned: str = replace_surrogates(text.replace("\x00", "\ufffd"))
    return cleaned
