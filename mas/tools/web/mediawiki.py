"""Wikipedia: the `wikipedia` package for searches and titles, its API itself for what the package cannot do.

The package is from 2014. It asks over http, without a time limit, with a user agent that Wikimedia refuses, remembers
searches for ever and across languages, warns about its parser, and turns a refusal into a JSON error. What it sends
therefore goes through `Wikipedia.ask`, like our own requests; its reading of the replies stays.

    wiki = Wikipedia(get_settings(WebSettings))
    await wiki.titles("mercury")                      # ["Mercury", "Mercury (planet)", …]
    page = await wiki.page("Mercury (planet)")        # DisambiguationError for "Mercury": a ToolError with the options
    await wiki.revision(page, before=None)            # Revision(1234, "2025-01-02T03:04:05Z")
"""

import asyncio
import functools
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlsplit

from mas.runtime.safe_call import in_thread
from mas.tools.files.paging import clip
from mas.tools.http.blocking_requests import call_package, run_on_loop
from mas.tools.http.client import Reply, limit_time, open_client, send_request
from mas.tools.http.settings import WebSettings
from mas.tools.http.throttle import wait_for_turn
from mas.tools.http.transport import Rules
from mas.tools.results import ToolError
from mas.tools.web.html_rows import Row, list_headings, read_rows, select_section
from mas.tools.web.page_view import FoundPage, PageSource

MAX_OPTIONS = 60
_USER_AGENT_HINT = "set tools.web.contact: it refuses user agents without one"
_patched = threading.Lock()
_current = threading.local()  # .wiki and .loop of the thread in which the package is at work


@dataclass(frozen=True)
class Page:
    """An existing page, redirects followed."""

    title: str
    url: str


@dataclass(frozen=True)
class Revision:
    id: int
    timestamp: str  # "2025-01-02T03:04:05Z"


class Wikipedia:
    """One Wikipedia, as the settings name it."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        host = urlsplit(settings.wikipedia_api).netloc
        self._rules = Rules(settings.max_bytes, (*settings.allow_private_hosts, host))
        self.name = f"Wikipedia ({settings.wikipedia_language})"

    async def search_titles(self, query: str, results: int = 10) -> list[str]:
        """Of pages that a search finds, best first."""
        return cast(list[str], await self._in_package(lambda package: package.search.fn(query, results=results)))

    async def page(self, title: str) -> Page:
        """
        Raises:
            ToolError: there is no such page, or it only lists others; the sentence names them.
        """
        found = await self._in_package(lambda package: _page_or_none(package, title))
        if found is None:
            near = "; ".join(await self.search_titles(title, 5)) or "none"
            raise ToolError(f"{self.name} has no page {title!r}; pages that a search for it finds: {near}.")
        return Page(str(found.title), str(found.url))

    async def query(self, **parameters: Any) -> dict[str, Any]:
        """The API's answer to `action=query`, or to another one that is named."""
        reply = await self.ask({"action": "query", "format": "json", "formatversion": "2", **parameters})
        return cast(dict[str, Any], _parsed(reply, self.name))

    async def ask(self, parameters: Mapping[str, Any]) -> Reply:
        """
        Raises:
            ToolError: it did not answer, or refused.
        """
        await wait_for_turn("wikipedia", self._settings.wikipedia_requests_per_minute)
        async with open_client(self._settings, self._rules) as client:
            api = self._settings.wikipedia_api
            reply = await send_request(client, "GET", api, self._settings, self.name, params=dict(parameters))
        if reply.status == 403:
            raise ToolError(f"{self.name} refuses this program (403; {_USER_AGENT_HINT}); use another source.")
        if reply.status >= 400:
            raise ToolError(f"{self.name} refuses the request ({reply.status}); use another source.")
        _check(_parsed(reply, self.name), self.name)
        return reply

    async def _in_package(self, call: Any) -> Any:
        loop = asyncio.get_running_loop()

        def in_its_thread() -> Any:
            _current.wiki, _current.loop = self, loop
            try:
                return call(_package())
            finally:
                del _current.wiki, _current.loop

        try:
            return await call_package(in_its_thread)
        except ToolError:
            raise
        except _package().DisambiguationError as error:
            raise ToolError(_options(error)) from error
        except _package().WikipediaException as error:
            raise ToolError(f"{self.name} did not answer the request; try other words.") from error
        except (LookupError, AssertionError, TypeError, AttributeError) as error:  # how the package reads what is odd
            raise ToolError(f"{self.name} has no page like that; find a title with wikipedia_search.") from error

    async def revision(self, page: Page, before: str | None) -> Revision:
        """The newest one, or the newest that is not younger than the timestamp `before`.

        Raises:
            ToolError: the page did not exist then.
        """
        when = {"rvstart": before, "rvdir": "older"} if before else {}
        found = await self._revision(page, **when)
        if found is None:
            first = await self._revision(page, rvdir="newer")
            since = f"; its first version is of {first.timestamp[:10]}" if first else ""
            raise ToolError(f"{page.title!r} did not exist on {(before or '')[:10]}{since}; ask for a later date.")
        return found

    async def _revision(self, page: Page, **when: str) -> Revision | None:
        answer = await self.query(prop="revisions", titles=page.title, rvlimit=1, rvprop="ids|timestamp", **when)
        pages = answer.get("query", {}).get("pages", [])
        revisions = pages[0].get("revisions", []) if pages else []
        return Revision(int(revisions[0]["revid"]), str(revisions[0]["timestamp"])) if revisions else None

    async def html(self, revision: Revision) -> str:
        """The rendered text of one version; templates are as they are today."""
        answer = await self.query(
            action="parse", oldid=revision.id, prop="text", disableeditsection=1, disablelimitreport=1
        )
        try:
            return str(answer["parse"]["text"])
        except (KeyError, TypeError) as error:
            raise ToolError(f"{self.name} gave no text for this page; try another source.") from error

    async def fetch_introductions(self, titles: list[str]) -> dict[str, tuple[str, str]]:
        """Title → URL and the first sentences."""
        answer = await self.query(
            **{"titles": "|".join(titles), "prop": "extracts|info", "inprop": "url", "redirects": 1},
            **{"exintro": 1, "explaintext": 1, "exchars": 400, "exlimit": 20},
        )
        pages = answer.get("query", {}).get("pages", [])
        return {str(each["title"]): (str(each.get("fullurl", "")), str(each.get("extract", ""))) for each in pages}

    def link(self, title: str) -> str:
        """Where a reader finds the page."""
        parts = urlsplit(self._settings.wikipedia_api)
        return f"{parts.scheme}://{parts.netloc}/wiki/{quote(title.replace(' ', '_'), safe='/:(),')}"


class _GuardedRequests:
    """In place of the module `requests` in the package."""

    @staticmethod
    def get(url: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        wiki: Wikipedia = _current.wiki
        reply = run_on_loop(_current.loop, lambda: wiki.ask(params))
        return _Json(reply)


@dataclass(frozen=True)
class _Json:
    reply: Reply

    def json(self) -> Any:
        return json.loads(self.reply.body)


def _package() -> Any:
    """The `wikipedia` package with what is wrong in it mended."""
    import bs4
    import wikipedia

    with _patched:
        module = wikipedia.wikipedia
        if module.requests is not _GuardedRequests:
            module.requests = _GuardedRequests
            module.BeautifulSoup = functools.partial(bs4.BeautifulSoup, features="lxml")
    return wikipedia


def _page_or_none(package: Any, title: str) -> Any:
    try:
        return package.page(title, auto_suggest=False)  # the suggestions are often another page
    except package.PageError:
        return None


def _parsed(reply: Reply, name: str) -> Any:
    try:
        parsed = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{name} answered with something that is no JSON; try again later.") from error
    if not isinstance(parsed, dict):
        raise ToolError(f"{name} answered with something unexpected; try again later.")
    return parsed


def _check(answer: dict[str, Any], name: str) -> None:
    error = answer.get("error")
    if error is None:
        return
    code = str(error.get("code", "?"))[:60] if isinstance(error, dict) else "?"
    if code in ("missingtitle", "nosuchrevid", "nosuchpageid", "invalidtitle"):
        raise ToolError(f"{name} has no such page or version ({code}); find a title with wikipedia_search.")
    raise ToolError(f"{name} refuses the request ({code}); try again later or in other words.")


def _options(error: Any) -> str:
    options = list(dict.fromkeys(str(each) for each in error.options))
    more = f" and {len(options) - MAX_OPTIONS} more" if len(options) > MAX_OPTIONS else ""
    listed = "; ".join(options[:MAX_OPTIONS])
    return f"{error.title!r} only lists other pages; call wikipedia_page with one of these titles: {listed}{more}."


@dataclass(frozen=True)
class WikiPage:
    """`before`: the day that was asked for; None: today."""

    wiki: str
    page: Page
    revision: Revision
    before: str | None
    rows: list[Row]

    @property
    def source(self) -> PageSource:
        day = f" (as it stood on {self.before[:10]})" if self.before else ""
        url = f"{self.page.url}?oldid={self.revision.id}"
        described = f"{self.wiki}: {self.page.title}, version of {self.revision.timestamp}{day}, {url}"
        return PageSource(described, url, self.page.title)

    def section(self, name: str) -> list[str]:
        """
        Raises:
            ToolError: the page has no such section; the sentence names those it has.
        """
        chosen = select_section(self.rows, name) if name else self.rows
        if chosen is None:
            names = clip("; ".join(list_headings(self.rows)), 1_500) or "none"
            raise ToolError(f"{self.page.title} has no section {clip(name, 200)!r}; its sections: {names}.")
        return [row.text for row in chosen]

    def notes(self, of_section: bool) -> list[str]:
        found = [] if of_section else [f"sections: {clip('; '.join(list_headings(self.rows)), 800) or 'none'}"]
        return found + (["templates in it (not the text) are as they are today"] if self.before else [])


async def read_wiki_page(title: str, before: str | None, settings: WebSettings) -> WikiPage:
    """
    Raises:
        ToolError: there is no such page, or Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # four requests
        page = await wiki.page(title)
        revision = await wiki.revision(page, before)
        html = await wiki.html(revision)
    found = await in_thread(
        lambda: read_rows(html), lambda how: ToolError(f"The page's text {how}; try another source.")
    )
    return WikiPage(wiki.name, page, revision, before, found)


MAX_RESULTS = 20  # introductions that the API gives at once


async def search_wikipedia(query: str, settings: WebSettings, results: int = 10) -> list[FoundPage]:
    """Pages in the order of the search.

    Raises:
        ToolError: Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # two requests
        titles = await wiki.search_titles(query, min(results, MAX_RESULTS))
        known = await wiki.fetch_introductions(titles) if titles else {}
    return [
        FoundPage(title, known.get(title, ("", ""))[0] or wiki.link(title), known.get(title, ("", ""))[1])
        for title in titles
    ]
