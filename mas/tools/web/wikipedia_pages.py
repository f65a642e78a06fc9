"""Tools for Wikipedia: find pages, and read one as it is today or was on a given day.

await wikipedia_tool("first person on the moon")
await wikipedia_page("Neil Armstrong", section="Early life", as_of="2022-12-31")
"""

import calendar
import re
from datetime import UTC, datetime

from mas.runtime.untrusted import mark_untrusted
from mas.tools.files.document import Part, number_lines
from mas.tools.files.html_rows import list_headings, select_section
from mas.tools.files.paging import clean_text, clip
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import WebSettings
from mas.tools.tool_context import get_settings
from mas.tools.web.page_view import get_or_fetch, show_found_pages, show_page

_NO_TITLE = re.compile(r"[<>\[\]{}|\x00-\x1f\x7f\ud800-\udfff]")  # characters that MediaWiki does not allow
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?")
MAX_QUERY_CHARS = 300  # as many as the search takes
MAX_TITLE_CHARS = 255


@mark_untrusted
@mark_read_only
async def wikipedia_tool(query: str) -> ToolResult:
    """Search Wikipedia and return the titles of the pages found, with their first sentences.

    query: a few words, best a name; then read one of the pages with wikipedia_page.
    """
    from mas.tools.web.mediawiki import search_wikipedia  # with httpx

    wanted = clean_text(query).strip()[:MAX_QUERY_CHARS]
    if not wanted:
        raise ToolError("The query is empty; give a few words to search for.")
    settings = get_settings(WebSettings)
    found = await search_wikipedia(wanted, settings)
    if not found:
        raise ToolError(f"Wikipedia has no page for {wanted!r}; try fewer or other words.")
    header = f"Wikipedia ({settings.wikipedia_language}), search for {wanted!r}: {len(found)} pages"
    return show_found_pages(header, found)


@mark_untrusted
@mark_read_only
async def wikipedia_page(
    title: str, section: str | None = None, as_of: str | None = None, page: int = 1, search: str | None = None
) -> ToolResult:
    """Read a Wikipedia page as text, its tables row by row, today or as the page stood on a given day.

    title: the exact title, as wikipedia_tool gives it.
    section: the heading of one section alone, such as "Discography"; the answer for the whole page lists them.
    as_of: a date such as 2022-12-31 (or 2022-12, 2022: their last day), for the version that stood then.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines or rows that contain this text (upper or lower case), with two lines around each.
    """
    from mas.tools.web.mediawiki import read_wiki_page  # with httpx

    name, _, fragment = title.strip().partition("#")
    name = name.replace("_", " ").strip()
    if not name or _NO_TITLE.search(name) or len(name.encode()) > MAX_TITLE_CHARS:
        raise ToolError(f"{clip(title, 200)!r} is no title of a page; find one with wikipedia_tool.")
    settings, before = get_settings(WebSettings), _parse_day_end(as_of)
    key = ("wikipedia", settings.wikipedia_api, name, before or "")
    found = await get_or_fetch(key, lambda: read_wiki_page(name, before, settings))
    lines = [line.text for line in found.document.parts[0].lines]
    headings, wanted = "; ".join(list_headings(lines)), (section or fragment.replace("_", " ")).strip()
    chosen = select_section(lines, wanted) if wanted else lines
    if chosen is None:
        names = clip(headings, 1_500) or "none"
        raise ToolError(f"{found.title} has no section {clip(wanted, 200)!r}; its sections: {names}.")
    notes = [] if wanted else [f"sections: {clip(headings, 800) or 'none'}"]
    notes += ["templates in it (not the text) are as they are today"] if before else []
    return show_page(found, page, search, [Part(number_lines(chosen))], notes)


def _parse_day_end(as_of: str | None) -> str | None:
    """Return the last second of a day, month or year, as the API takes it; None for the present.

    Raises:
        ToolError: it is not a date.
    """
    text = (as_of or "").strip()
    if not text:
        return None
    date = _DATE.fullmatch(text[:10])
    try:
        if date is None:
            raise ValueError
        year, month = int(date[1]), int(date[2] or 12)
        day = int(date[3]) if date[3] else calendar.monthrange(year, month)[1]
        end = datetime(year, month, day, 23, 59, 59, tzinfo=UTC)
    except ValueError as error:
        raise ToolError(f"as_of={clip(text, 40)!r} is no date; expected one such as 2022-12-31.") from error
    return end.strftime("%Y-%m-%dT%H:%M:%SZ") if end < datetime.now(UTC) else None
