"""Tool that reads a page or file of the web as text.

await read_page("https://en.wikipedia.org/wiki/K2", search="metres")
"""

import asyncio

from mas.runtime.untrusted import mark_untrusted
from mas.tools.http.blocked_sites import list_blocked, refuse_blocked
from mas.tools.http.url_policy import normalize_url
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolResult
from mas.tools.settings import WebSettings
from mas.tools.tool_context import get_settings
from mas.tools.web.page_view import get_or_fetch, show_document


@mark_untrusted
@mark_read_only
async def read_page(url: str, page: int = 1, search: str | None = None) -> ToolResult:
    """Read a public web page, or a PDF, table or text file on the web, and return its content as text.

    url: the full address, beginning with https:// or http://.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines that contain this text (upper or lower case), with two lines around each.
    """
    from mas.tools.web.fetched_page import fetch_page  # with httpx

    settings = get_settings(WebSettings)
    address = normalize_url(url, settings.allow_private_hosts)
    refuse_blocked(address, list_blocked(settings))

    found = await get_or_fetch(("page", address), lambda: fetch_page(address, settings))
    return await asyncio.to_thread(show_document, found, page, search)  # seconds, of 200,000 lines
