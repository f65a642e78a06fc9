"""Web search by Tavily's own client, never without a key: without one that client would ask anonymously.

await search_tavily("height of K2", get_settings(WebSettings))     # [FoundPage("K2", "https://…", "K2 is …"), …]
"""

from typing import Any
from urllib.parse import urlsplit

import httpx
from tavily import AsyncTavilyClient  # type: ignore[import-untyped]
from tavily import errors as tavily_errors

from mas.tools.http.client import TransientError, open_client, read_retry_after, retry, to_tool_error, wait_for_turn
from mas.tools.http.transport import Rules
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.web.page_view import FoundPage

WHAT = "Web search"
MAX_REPLY_BYTES = 2_000_000  # parsed in this process, by Tavily's client
_REFUSALS = (
    *(tavily_errors.UsageLimitExceededError, tavily_errors.InvalidAPIKeyError),
    *(tavily_errors.ForbiddenError, tavily_errors.BadRequestError),
)
_UNREADABLE = f"{WHAT} answered with something that cannot be read; try again later or in other words."


async def search_tavily(query: str, settings: WebSettings) -> list[FoundPage]:
    """Return the pages that Tavily finds.

    Raises:
        ToolError: there is no key, or the service did not answer, or refused.
    """
    if not settings.search_api_key:
        raise ToolError(describe_missing_key(settings))
    await wait_for_turn("search", settings.search_requests_per_minute)
    host = urlsplit(settings.search_base_url).netloc
    rules = Rules(MAX_REPLY_BYTES, (*settings.allow_private_hosts, host))
    async with open_client(settings, rules, base_url=settings.search_base_url, follow_redirects=False) as client:
        return await retry(_Attempt(client, query, settings), settings, WHAT)


def describe_missing_key(settings: WebSettings) -> str:
    return f"{WHAT} is not available: the environment variable {settings.search_api_key_env} holds no key."


class _Attempt:
    """One request; records status and headers, which Tavily's exceptions leave out."""

    def __init__(self, client: httpx.AsyncClient, query: str, settings: WebSettings) -> None:
        self._query, self._settings = query, settings
        self._status, self._headers = 0, httpx.Headers()
        client.event_hooks = {"response": [self._record]}
        self._tavily = AsyncTavilyClient(settings.search_api_key, api_base_url=settings.search_base_url, client=client)

    async def _record(self, response: httpx.Response) -> None:
        self._status, self._headers = response.status_code, response.headers

    async def __call__(self) -> list[FoundPage]:
        try:
            answer = await self._tavily.search(
                self._query, max_results=self._settings.search_results, timeout=self._settings.seconds
            )
            return _read_pages(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._to_error(error) from error
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise ToolError(_UNREADABLE) from error
        except tavily_errors.TimeoutError as error:
            raise TransientError(f"{WHAT} did not answer in time; try again later.") from error
        except _REFUSALS as error:
            raise self._to_error(error) from error

    def _to_error(self, error: Exception) -> ToolError:
        """Return the error for a status; not the service's own words, which may repeat the key."""
        key = self._settings.search_api_key_env
        if isinstance(error, httpx.HTTPError | httpx.InvalidURL) and not isinstance(error, httpx.HTTPStatusError):
            return to_tool_error(error, WHAT)
        if self._status == 429:
            wait = read_retry_after(self._headers)
            return TransientError(f"{WHAT} refuses for now: too many requests (429); try again later.", wait)
        if self._status >= 500:
            sentence = f"{WHAT} has trouble of its own ({self._status}); try again later."
            return TransientError(sentence, read_retry_after(self._headers))
        why = {
            400: "the query as it is (400); use fewer and simpler words",
            401: f"the key in {key} (401)",
            403: f"this request with the key in {key} (403)",
            432: f"further searches: the plan of the key in {key} is used up (432)",
            433: f"further searches: the spending limit of the key in {key} is reached (433)",
        }.get(self._status, f"the request ({self._status})")
        return ToolError(
            f"{WHAT} refuses {why}." if self._status == 400 else f"{WHAT} refuses {why}; go on without it."
        )


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
