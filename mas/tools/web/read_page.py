"""Tool that reads a page or file of the web as text.

await read_page("https://en.wikipedia.org/wiki/K2", search="metres")
"""

from mas.runtime.untrusted import mark_untrusted
from mas.tools.http.settings import WebSettings
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolResult
from mas.tools.tool_context import get_settings


@mark_untrusted
@mark_read_only
async def read_page(url: str, page: int = 1, search: str | None = None) -> ToolResult:
    """Read a public web page, or a PDF, table or text file on the web, and return its content as text.

    url: the full address, beginning with https:// or http://.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines that contain this text (upper or lower case), with two lines around each.
    """
    from mas.tools.http.blocked_sites import refuse_blocked
    from mas.tools.http.url_policy import normalize_url
    from mas.tools.web.fetched_page import fetch_page
    from mas.tools.web.page_cache import get_or_fetch
    from mas.tools.web.page_view import show_packed

    settings = get_settings(WebSettings)
    address = normalize_url(url, settings.allow_private_hosts)
    refuse_blocked(address, settings.blocked)

    found = await get_or_fetch(("page", address), lambda: fetch_page(address, settings))
    return await show_packed(found.source, found.packed, page, search)
