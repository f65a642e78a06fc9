"""Fetched pages and lists of search results, as tools return them.

source = PageSource("Towns, https://example.org/", "https://example.org/", "Towns")
show_page(source, [Part([Line(1, "Rome")])], page=1, search=None)
# "Towns, https://example.org/; page 1 of 1\\n\\nRome"
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TypeVar

from mas.runtime.sample_context import current_context
from mas.tools.files.document import SMALL_PACKED_BYTES, Answer, Arguments, Document, Part, number_lines, unpack
from mas.tools.files.html_rows import Row, list_headings, select_section
from mas.tools.files.paging import clean_text, clip, lay_out, search_lines
from mas.tools.files.reader_pool import await_reader
from mas.tools.results import Excerpt, ToolError, ToolResult

MAX_KEPT = 6  # pages of one question; the oldest goes
SHOW_DOCUMENT = "mas.tools.web.page_view:show_document"
SHOW_WIKI_ROWS = "mas.tools.web.page_view:show_wiki_rows"
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class PageSource:
    """Origin of a page."""

    description: str  # one line: what it is, where and of when
    url: str
    title: str


@dataclass(frozen=True)
class FetchedPage:
    """Page that was fetched, and its packed content: a document, or rows of Wikipedia."""

    source: PageSource
    packed: bytes


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
    more = "" if found else ', or search="some text" for matching lines alone'
    text, start = lay_out(parts, page, " ".join(source.description.split()), found, more, notes)
    shown = Excerpt(source.url, source.title, start, len(text), has_line_marks=bool(found))
    return ToolResult(text, kind="web_page", excerpts=[shown])


async def show_fetched(task: str, fetched: FetchedPage, wanted: Arguments) -> ToolResult:
    """Return what `show_page` does of a page that was fetched.

    Args:
        task: SHOW_DOCUMENT or SHOW_WIKI_ROWS.
        wanted: `page`, `search`; of a page of Wikipedia also `section` and further `notes`.

    Raises:
        ToolError: there is no such section or page.
    """
    about = {**wanted, "name": "The page", "source": astuple(fetched.source)}
    shown = (await await_reader(task, fetched.packed, about, SMALL_PACKED_BYTES)).facts
    return ToolResult.restore(shown["text"], shown["facts"])


def show_document(packed: bytes, wanted: Mapping[str, Any]) -> Answer:
    """Do the task SHOW_DOCUMENT: a search that the main content lacks goes through all of the page.

    Raises:
        ToolError: there is no such page.
    """
    document, search = Document.unpack(packed), (wanted["search"] or "").strip()
    parts = document.parts
    if search and document.whole and not search_lines(parts, search)[1]:
        parts = document.whole
    return describe_result(show_page(PageSource(*wanted["source"]), parts, wanted["page"], search, document.notes))


def show_wiki_rows(packed: bytes, wanted: Mapping[str, Any]) -> Answer:
    """Do the task SHOW_WIKI_ROWS: the page, or one of its sections, with its headings as a note.

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


async def get_or_fetch(key: tuple[str, ...], make: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return what the question has fetched under this key, or fetch it; outside a question fetch it each time.

    So page 2 is of the same text as page 1, and costs no request.
    """
    context = current_context()
    store: dict[tuple[str, ...], _Result] = {} if context is None else context.tool_state.setdefault("web", {})
    if key not in store:
        store[key] = await make()
        if len(store) > MAX_KEPT:
            del store[next(iter(store))]
    return store[key]
