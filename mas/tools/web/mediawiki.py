"""Client of Wikipedia: the `wikipedia` package for searches, the API itself for the rest.

The package is from 2014. It connects by http, without a time limit, with a user agent that Wikimedia refuses, caches
searches for ever and across languages, and turns a refusal into a JSON error. Its requests therefore go through
`Wikipedia.ask`, like our own; it only parses the replies.

    wiki = Wikipedia(get_settings(WebSettings))
    await wiki.search_titles("mercury")               # ["Mercury", "Mercury (planet)", …]
    await wiki.read_page("Mercury (planet)", None)    # "Mercury" is a page, too: a list of the pages of that name
"""

import asyncio
import json
import threading
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

from mas.runtime.safe_call import run_in_thread
from mas.tools.files.document import Document, Part, number_lines
from mas.tools.files.html_rows import READ_LINES
from mas.tools.files.reader_pool import await_reader
from mas.tools.http.client import Rules, limit_time, send_request
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.web.page_view import FetchedPage, FoundPage

MAX_ANSWER_BYTES = 10_000_000  # such as a page's text
_USER_AGENT_HINT = "set tools.web.contact: it refuses user agents without one"
_current = threading.local()  # .wiki and .loop of the thread that runs the package
_Answer = dict[str, Any]  # JSON of the API


class Wikipedia:
    """Client of one Wikipedia, which the settings name."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        host = urlsplit(settings.wikipedia_api).netloc
        self._hosts = (*settings.allow_private_hosts, host)
        self.name = f"Wikipedia ({settings.wikipedia_language})"

    async def search_titles(self, query: str, results: int = 10) -> list[str]:
        """Return the titles of pages that a search finds, best first."""
        loop = asyncio.get_running_loop()

        def search() -> list[str]:
            _current.wiki, _current.loop = self, loop
            try:
                return cast(list[str], _load_package().search.fn(query, results=results))
            finally:
                del _current.wiki, _current.loop

        try:
            titles: list[str] = await run_in_thread(search, lambda how: ToolError(f"The request {how}; try again."))
            return titles
        except ToolError:
            raise
        except Exception as error:  # of the package's parser
            raise ToolError(f"{self.name} answered with something unexpected; try other words.") from error

    async def read_page(self, title: str, before: str | None) -> FetchedPage:
        """Return a page as it is today, or as it was at the timestamp `before`; templates are as they are today.

        Raises:
            ToolError: there is no such page, or it did not exist then.
        """
        found = await self._find_page(title, **({"rvstart": before, "rvdir": "older"} if before else {}))
        if found is None:
            near = "; ".join(await self.search_titles(title, 5)) or "none"
            raise ToolError(f"{self.name} has no page {title!r}; pages that a search for it finds: {near}.")
        name, url, versions = str(found["title"]), str(found.get("fullurl", "")), found.get("revisions")
        if not versions:
            oldest = ((await self._find_page(title, rvdir="newer")) or {}).get("revisions")
            since = f"; its first version is of {oldest[0]['timestamp'][:10]}" if oldest else ""
            raise ToolError(f"{name!r} did not exist on {(before or '')[:10]}{since}; ask for a later date.")
        version = int(versions[0]["revid"]), str(versions[0]["timestamp"])
        wanted: dict[str, str | int] = {
            "oldid": version[0],
            "prop": "text",
            "disableeditsection": 1,
            "disablelimitreport": 1,
        }
        html = (await self.ask({"action": "parse", "format": "json", "formatversion": "2", **wanted})).get("parse", {})
        if not isinstance(html, dict) or not isinstance(html.get("text"), str):
            raise ToolError(f"{self.name} gave no text for this page; try another source.")
        text = await await_reader(READ_LINES, html["text"].encode("utf-8", "replace"), {"name": self.name})
        day = f" (as it stood on {before[:10]})" if before else ""
        url = f"{url}?oldid={version[0]}"
        described = f"{self.name}: {name}, version of {version[1]}{day}, {url}"
        return FetchedPage(described, url, name, Document("", [Part(number_lines(text["lines"]))]).limit())

    async def _find_page(self, title: str, **when: str) -> _Answer | None:
        """Return a page with its address and a version: the newest, or the first as `when` says; None: no such page."""
        wanted = {"prop": "info|revisions", "inprop": "url", "redirects": "1", "rvprop": "ids|timestamp"}
        pages = (await self.query(titles=title, rvlimit=1, **wanted, **when)).get("query", {}).get("pages", [])
        return None if not pages or pages[0].get("missing") or pages[0].get("invalid") else dict(pages[0])

    async def query(self, **parameters: str | int) -> _Answer:
        """Return the API's answer to `action=query`."""
        return await self.ask({"action": "query", "format": "json", "formatversion": "2", **parameters})

    async def ask(self, parameters: Mapping[str, str | int]) -> _Answer:
        """Return the API's answer.

        Raises:
            ToolError: it did not answer, or refused.
        """
        api, rules = self._settings.wikipedia_api, Rules(MAX_ANSWER_BYTES, self._hosts)
        reply = await send_request("GET", api, self._settings, self.name, rules, params=dict(parameters))
        if reply.status == 403:
            raise ToolError(f"{self.name} refuses this program (403; {_USER_AGENT_HINT}); use another source.")
        if reply.status >= 400:
            raise ToolError(f"{self.name} refuses the request ({reply.status}); use another source.")
        try:
            answer = json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"{self.name} answered with something that is no JSON; try again later.") from error
        if not isinstance(answer, dict):
            raise ToolError(f"{self.name} answered with something unexpected; try again later.")
        if (refusal := answer.get("error")) is not None:
            code = str(refusal.get("code", "?"))[:60] if isinstance(refusal, dict) else "?"
            if code in ("missingtitle", "nosuchrevid", "nosuchpageid", "invalidtitle"):
                raise ToolError(f"{self.name} has no such page or version ({code}); find a title with wikipedia_tool.")
            raise ToolError(f"{self.name} refuses the request ({code}); try again later or in other words.")
        return answer

    async def fetch_introductions(self, titles: list[str]) -> dict[str, tuple[str, str]]:
        """Return URL and first sentences of the pages by title."""
        wanted: dict[str, str | int] = {
            **{"titles": "|".join(titles), "prop": "extracts|info", "inprop": "url", "redirects": 1},
            **{"exintro": 1, "explaintext": 1, "exchars": 400, "exlimit": 20},
        }
        answer = await self.query(**wanted)
        pages = answer.get("query", {}).get("pages", [])
        return {str(each["title"]): (str(each.get("fullurl", "")), str(each.get("extract", ""))) for each in pages}


class _GuardedRequests:
    """Replacement of the module `requests` in the package."""

    @staticmethod
    def get(url: str, params: Mapping[str, str | int], headers: Mapping[str, str]) -> SimpleNamespace:
        wiki: Wikipedia = _current.wiki
        answer = asyncio.run_coroutine_threadsafe(wiki.ask(params), _current.loop).result()
        return SimpleNamespace(json=lambda: answer)


def _load_package() -> ModuleType:
    """Return the `wikipedia` package, patched to send its requests through our client."""
    import wikipedia

    wikipedia.wikipedia.requests = _GuardedRequests
    return cast(ModuleType, wikipedia)


async def read_wiki_page(title: str, before: str | None, settings: WebSettings) -> FetchedPage:
    """Read a page as `Wikipedia.read_page` does, within the time of the settings.

    Raises:
        ToolError: there is no such page, or Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # three requests, and the reading of the text
        return await wiki.read_page(title, before)


MAX_RESULTS = 20  # introductions in one answer of the API


async def search_wikipedia(query: str, settings: WebSettings, results: int = 10) -> list[FoundPage]:
    """Return the pages that a search finds, best first.

    Raises:
        ToolError: Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # two requests
        titles = await wiki.search_titles(query, min(results, MAX_RESULTS))
        known = await wiki.fetch_introductions(titles) if titles else {}
    return [FoundPage(title, *known.get(title, ("", ""))) for title in titles]
