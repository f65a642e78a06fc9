"""Tool that searches the web by Tavily's client, which would ask without a key: never here."""

from typing import Any

import httpx

from mas.runtime.untrusted import mark_untrusted
from mas.tools.files.document import clean_text
from mas.tools.http.client import build_busy_error, open_client, retry, to_tool_error
from mas.tools.http.url_policy import BlockedPageError, NotPublicError, normalize_url, refuse_blocked
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import SEARCH_KEY_ENV, WebSettings, get_settings
from mas.tools.web.page_view import FoundPage, show_found_pages

WHAT = "Web search"
MAX_QUERY_CHARS = 400  # limit of the service
MAX_RESULTS = 8
MAX_REPLY_BYTES = 2_000_000  # parsed in this process, by Tavily's client


@mark_untrusted
@mark_read_only
async def tavily_tool(query: str) -> ToolResult:
    """Search the web and return titles, addresses and short excerpts of the pages found.

    query: what to look for, in a few words of at most 400 characters; then read a page with read_page.
    """
    settings, wanted = get_settings(WebSettings), " ".join(clean_text(query).split())
    if not wanted or len(wanted) > MAX_QUERY_CHARS:
        raise ToolError(f"The query has {len(wanted)} characters; give 1 to {MAX_QUERY_CHARS}.")
    found, blocked = [], 0
    for each in await _search(wanted, settings):
        try:
            refuse_blocked(normalize_url(each.url), settings)
            found.append(each)
        except BlockedPageError:
            blocked += 1
        except NotPublicError:  # no page that could be read
            continue
    header = f"Web search for {wanted!r}: {len(found)} results{'' if found else '; try other words'}"
    if blocked:
        header += f"\n{blocked} left out: pages that publish this benchmark's answers are blocked"
    return show_found_pages(header, found[:MAX_RESULTS])


async def _search(query: str, settings: WebSettings) -> list[FoundPage]:
    if not settings.search_api_key:
        raise ToolError(f"{WHAT} is not available: {SEARCH_KEY_ENV} is not set; use another tool.")
    from tavily import AsyncTavilyClient  # type: ignore[import-untyped]

    async def check(response: httpx.Response) -> None:
        """Refuse a reply without the service's own words, which may repeat the key."""
        status = response.status_code
        if status == 429 or status >= 500:
            raise build_busy_error(response, WHAT)
        if status == 400:
            raise ToolError(f"{WHAT} refuses the query as it is (400); use fewer and simpler words.")
        if status != 200:
            sentence = f"refuses this request with the key in {SEARCH_KEY_ENV} ({status}); go on without it."
            raise ToolError(f"{WHAT} {sentence}")

    async def attempt() -> list[FoundPage]:
        try:
            answer = await tavily.search(query, max_results=MAX_RESULTS, timeout=2 * settings.seconds)
            return [_read_page(each, settings.search_api_key) for each in answer["results"]]
        except httpx.HTTPError as error:
            raise to_tool_error(error, WHAT) from error
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise ToolError(
                f"{WHAT} answered with something that cannot be read; try again later or in other words."
            ) from error

    base_url, hooks = settings.search_base_url, {"response": [check]}
    async with open_client(settings, MAX_REPLY_BYTES, base_url=base_url, event_hooks=hooks) as client:
        tavily = AsyncTavilyClient(settings.search_api_key, api_base_url=base_url, client=client)
        return await retry(attempt, settings, WHAT)


def _read_page(found: dict[str, Any], key: str) -> FoundPage:
    """Return a page of the answer, in which the key for the service cannot be read."""
    dated = f" ({found['published_date']})" if found.get("published_date") else ""
    texts = (f"{found.get('title') or ''}{dated}", str(found["url"]), str(found.get("content") or ""))
    return FoundPage(*(text.replace(key, "[key]") for text in texts))
