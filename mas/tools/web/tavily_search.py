"""Web search by Tavily's own client, never without a key: without one that client would ask anonymously.

await search_tavily("height of K2", get_settings(WebSettings))     # [FoundPage("K2", "https://…", "K2 is …"), …]
"""

from typing import Any
from urllib.parse import urlsplit

import httpx
from tavily import AsyncTavilyClient  # type: ignore[import-untyped]
from tavily import errors as tavily_errors

from mas.tools.http.client import (
    Rules,
    TransientError,
    describe_busy,
    open_client,
    read_retry_after,
    retry,
    to_tool_error,
    wait_for_turn,
)
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.web.page_view import FoundPage

WHAT = "Web search"
MAX_RESULTS = 8
MAX_REPLY_BYTES = 2_000_000  # parsed in this process, by Tavily's client
_UNREADABLE = f"{WHAT} answered with something that cannot be read; try again later or in other words."


async def search_tavily(query: str, settings: WebSettings) -> list[FoundPage]:
    """Return the pages that Tavily finds.

    Raises:
        ToolError: there is no key, or the service did not answer, or refused.
    """
    if not settings.search_api_key:
        raise ToolError(describe_missing_key(settings))

    async def check(response: httpx.Response) -> None:
        if response.status_code != 200:
            raise _describe_refusal(response, settings.search_api_key_env)

    async def attempt() -> list[FoundPage]:
        try:
            found = await tavily.search(query, max_results=MAX_RESULTS, timeout=settings.seconds)
            return _read_pages(found)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise to_tool_error(error, WHAT) from error
        except tavily_errors.TimeoutError as error:
            raise TransientError(f"{WHAT} did not answer in time; try again later.") from error
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise ToolError(_UNREADABLE) from error

    await wait_for_turn(settings.search_base_url)
    base_url, host = settings.search_base_url, urlsplit(settings.search_base_url).netloc
    rules, hooks = Rules(MAX_REPLY_BYTES, (*settings.allow_private_hosts, host)), {"response": [check]}
    async with open_client(settings, rules, base_url=base_url, follow_redirects=False, event_hooks=hooks) as client:
        tavily = AsyncTavilyClient(settings.search_api_key, api_base_url=base_url, client=client)
        return await retry(attempt, settings, WHAT)


def describe_missing_key(settings: WebSettings) -> str:
    return f"{WHAT} is not available: the environment variable {settings.search_api_key_env} holds no key."


def _describe_refusal(response: httpx.Response, key: str) -> ToolError:
    """Return the error for a status; not the service's own words, which may repeat the key.

    Args:
        key: variable that holds it.
    """
    status = response.status_code
    if status == 429 or status >= 500:
        return TransientError(describe_busy(status, WHAT), read_retry_after(response.headers))
    if status == 400:
        return ToolError(f"{WHAT} refuses the query as it is (400); use fewer and simpler words.")
    why = {
        401: f"the key in {key} (401)",
        403: f"this request with the key in {key} (403)",
        432: f"further searches: the plan of the key in {key} is used up (432)",
        433: f"further searches: the spending limit of the key in {key} is reached (433)",
    }.get(status, f"the request ({status})")
    return ToolError(f"{WHAT} refuses {why}; go on without it.")


def _read_pages(answer: dict[str, Any]) -> list[FoundPage]:
    """Return the pages of an answer.

    Raises:
        ToolError: the answer does not have the documented form.
    """
    results = answer.get("results")
    if not isinstance(results, list):
        raise ToolError(_UNREADABLE)
    found = []
    for each in results:
        dated = f" ({each['published_date']})" if each.get("published_date") else ""
        found.append(FoundPage(f"{each.get('title') or ''}{dated}", str(each["url"]), str(each.get("content") or "")))
    return found
