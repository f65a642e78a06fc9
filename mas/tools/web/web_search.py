"""Tool that searches the web, or Wikipedia if web search fails and the settings allow it.

await tavily_tool("height of K2 in metres")
"""

from collections.abc import Sequence

from mas.runtime.sample_context import current_context
from mas.runtime.trace import event
from mas.runtime.untrusted import mark_untrusted
from mas.tools.files.paging import clean_text
from mas.tools.http.blocked_sites import BlockedPageError, list_blocked, refuse_blocked
from mas.tools.http.url_policy import NotPublicError, normalize_url
from mas.tools.read_only import count_calls, mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import WebSettings
from mas.tools.tool_context import get_settings
from mas.tools.web.page_view import FoundPage, show_found_pages

MAX_QUERY_CHARS = 400  # limit of the service
FELL_BACK = "web search fell back to Wikipedia"  # name of the event
_COUNT = "web_search"


@mark_untrusted
@count_calls(lambda: _count_search(get_settings(WebSettings)))
@mark_read_only
async def tavily_tool(query: str) -> ToolResult:
    """Search the web and return titles, addresses and short excerpts of the pages found.

    query: what to look for, in a few words of at most 400 characters; then read a page with read_page.
    """
    settings, wanted = get_settings(WebSettings), " ".join(clean_text(query).split())
    if not wanted or len(wanted) > MAX_QUERY_CHARS:
        raise ToolError(f"The query has {len(wanted)} characters; give 1 to {MAX_QUERY_CHARS}.")
    _count_search(settings)
    try:
        return await _search_web(wanted, settings)
    except ToolError as error:
        if not settings.fall_back_to_wikipedia:
            raise
        return await _search_wikipedia(wanted, settings, error)


def describe_missing_search(settings: WebSettings) -> str | None:
    """Return a sentence for the run's user if web search has no key."""
    if settings.search_api_key:
        return None
    instead = "Wikipedia's search answers instead" if settings.fall_back_to_wikipedia else "tavily_tool only fails"
    return f"{settings.search_api_key_env} is not set: there is no web search; {instead}."


async def _search_web(query: str, settings: WebSettings) -> ToolResult:
    from mas.tools.web import tavily_search  # with httpx

    found, blocked = [], 0
    for each in await tavily_search.search_tavily(query, settings):
        try:
            refuse_blocked(normalize_url(each.url), list_blocked(settings))
            found.append(each)
        except BlockedPageError:
            blocked += 1
        except NotPublicError:  # no page that could be read
            continue
    header = f"Web search for {query!r}: {len(found)} results"
    if blocked:
        header += f"\n{blocked} left out: pages that publish this benchmark's answers are blocked"
    return _show(header, found[: tavily_search.MAX_RESULTS], "(nothing found; try other words)", settings)


async def _search_wikipedia(query: str, settings: WebSettings, why: ToolError) -> ToolResult:
    from mas.tools.web.mediawiki import search_wikipedia

    event(FELL_BACK, level="warning", reason=str(why))
    try:
        found = await search_wikipedia(query[:300], settings)
    except ToolError as error:
        raise ToolError(f"{why} Wikipedia's search, asked instead, failed too: {error}") from error
    header = f"Wikipedia's search for {query!r}, since web search failed: {len(found)} pages\n{why}"
    shown = _show(header, found, "(nothing found; try fewer words, or a name)", settings)
    # With a key web search may work again the next time; without one it will not.
    return shown.as_substitute(is_temporary=bool(settings.search_api_key))


def _show(header: str, found: Sequence[FoundPage], if_none: str, settings: WebSettings) -> ToolResult:
    """Return the pages as text in which the key for the service cannot be read."""

    def hide(text: str) -> str:
        return text.replace(settings.search_api_key, "[key]") if settings.search_api_key else text

    hidden = [FoundPage(hide(each.title), hide(each.url), hide(each.text)) for each in found]
    return show_found_pages(hide(header), hidden, if_none)


def _count_search(settings: WebSettings) -> None:
    """Count a search of the question.

    Raises:
        ToolError: the question has made all its searches.
    """
    context, most = current_context(), settings.max_searches_per_question
    if context is None:
        return
    made = context.tool_state.get(_COUNT, 0)
    if most is not None and made >= most:
        raise ToolError(
            f"The question has made its {most} web searches (tools.web.max_searches_per_question); "
            "go on with the pages that it has found."
        )
    context.tool_state[_COUNT] = made + 1
