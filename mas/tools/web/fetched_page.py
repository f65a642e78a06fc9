"""Fetching of a page or file of the web.

document = await fetch_page("https://example.org/", get_settings(WebSettings))
"""

from urllib.parse import urlsplit

import httpx

from mas.runtime.safe_call import run_in_thread
from mas.tools.http.client import limit_time, open_client, send_request
from mas.tools.http.settings import WebSettings
from mas.tools.http.throttle import wait_for_turn
from mas.tools.http.transport import Rules
from mas.tools.results import ToolError
from mas.tools.web.page_document import PageDocument, check_type, read_reply


async def fetch_page(url: str, settings: WebSettings) -> PageDocument:
    """Fetch a page and return its text.

    Raises:
        ToolError: it must not be read, there is none, or it cannot be shown.
    """

    async def check(response: httpx.Response) -> None:
        check_type(response.headers.get("content-type", "").partition(";")[0].strip().lower())

    host = urlsplit(url).hostname or url
    rules = Rules(settings.max_file_bytes, tuple(settings.allow_private_hosts), settings.blocked)
    headers = {
        "User-Agent": f"Mozilla/5.0 (compatible; {settings.user_agent})",  # many sites refuse other names
        "Accept": "text/html,application/xhtml+xml,application/pdf,*/*;q=0.8",
        "Accept-Language": "en,*;q=0.5",
    }
    await wait_for_turn(f"pages of {urlsplit(url).netloc}", settings.pages_per_minute_and_host)
    async with open_client(settings, rules, headers=headers, event_hooks={"response": [check]}) as client:
        reply = await send_request(client, "GET", url, settings, host)
    if reply.status >= 400:
        raise ToolError(_describe_refusal(reply.status, host))
    async with limit_time(settings.seconds, f"Reading what {host} sent"):
        document: PageDocument = await run_in_thread(
            lambda: read_reply(reply, settings.max_bytes), lambda how: ToolError(f"Reading the page {how}.")
        )
    return document


def _describe_refusal(status: int, host: str) -> str:
    if status in (404, 410):
        return f"{host} has no page at this address ({status}); check the address, or search for the page."
    if status in (401, 402, 403, 407, 451):
        return f"{host} does not let this page be read ({status}); try the browser tools, an archive or another source."
    return f"{host} refuses the request ({status}); try another address."
