"""The tool that searches the web; where it cannot, and the settings say so, Wikipedia's search steps in.

await web_search("height of K2 in metres")
"""

from mas.runtime.sample_context import current_context
from mas.runtime.trace import event
from mas.runtime.untrusted import label_untrusted
from mas.tools.http.settings import WebSettings
from mas.tools.read_only import counted, not_to_be_kept, read_only
from mas.tools.results import ToolError, from_the_web
from mas.tools.tool_context import get_settings

MAX_QUERY_CHARS = 400  # as many as the service takes
FELL_BACK = "web search fell back to Wikipedia"  # the event that says so
_COUNT = "web_search"


@from_the_web
@label_untrusted
@counted(lambda: _spend(get_settings(WebSettings)))
@read_only
async def web_search(query: str) -> str:
    """Search the web and return titles, addresses and short excerpts of the pages found.

    query: what to look for, in a few words of at most 400 characters; then read a page with read_page.
    """
    from mas.tools.web.page_view import clean

    settings, wanted = get_settings(WebSettings), " ".join(clean(query).split())
    if not wanted or len(wanted) > MAX_QUERY_CHARS:
        raise ToolError(f"The query has {len(wanted)} characters; give 1 to {MAX_QUERY_CHARS}.")
    _spend(settings)
    try:
        text = await _web(wanted, settings)
    except ToolError as error:
        if not settings.fall_back_to_wikipedia:
            raise
        if settings.search_api_key:  # the next time web search may work again; without a key it will not
            not_to_be_kept()
        text = await _wikipedia(wanted, settings, error)
    key = settings.search_api_key
    return clean(text.replace(key, "[key]") if key else text)


def missing(settings: WebSettings) -> str | None:
    """What a run's user should know at its start; None: web search has all that it needs."""
    if settings.search_api_key:
        return None
    instead = "Wikipedia's search answers instead" if settings.fall_back_to_wikipedia else "web_search only fails"
    return f"{settings.search_api_key_env} is not set: there is no web search; {instead}."


async def _web(query: str, settings: WebSettings) -> str:
    from mas.tools.http.blocked_sites import BlockedPageError, refuse_blocked
    from mas.tools.http.url_policy import NotPublicError, public_url
    from mas.tools.web import tavily_search
    from mas.tools.web.mediawiki import listed

    found, blocked = [], 0
    for each in await tavily_search.search(query, settings):
        try:
            refuse_blocked(public_url(each.url), settings.blocked)
            found.append(each)
        except BlockedPageError:
            blocked += 1
        except NotPublicError:  # nothing that could be read
            continue
    header = f"Web search for {query!r}: {len(found)} results"
    if blocked:
        header += f"\n{blocked} left out: pages that publish this benchmark's answers are blocked"
    return f"{header}\n\n{listed(found[: settings.search_results]) or '(nothing found; try other words)'}"


async def _wikipedia(query: str, settings: WebSettings, why: ToolError) -> str:
    from mas.tools.web.mediawiki import listed, search

    event(FELL_BACK, level="warning", reason=str(why))
    try:
        found = await search(query[:300], settings, settings.search_results)
    except ToolError as error:
        raise ToolError(f"{why} Wikipedia's search, asked instead, failed too: {error}") from error
    header = f"Wikipedia's search for {query!r}, since web search failed: {len(found)} pages\n{why}"
    return f"{header}\n\n{listed(found) or '(nothing found; try fewer words, or a name)'}"


def _spend(settings: WebSettings) -> None:
    """
    Raises:
        ToolError: the question has made as many searches as it may.
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
