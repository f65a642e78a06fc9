"""Client of Wikipedia: the `wikipedia` package for searches and titles, the API itself for the rest.

The package is from 2014. It connects by http, without a time limit, with a user agent that Wikimedia refuses, caches
searches for ever and across languages, warns about its parser, and turns a refusal into a JSON error. Its requests
therefore go through `Wikipedia.send`, like our own; it only parses the replies.

    wiki = Wikipedia(get_settings(WebSettings))
    await wiki.search_titles("mercury")               # ["Mercury", "Mercury (planet)", …]
    page = await wiki.find_page("Mercury (planet)")   # for "Mercury" a ToolError that lists the pages of that name
    await wiki.find_revision(page, before=None)       # Revision(1234, "2025-01-02T03:04:05Z")
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import quote, urlsplit

from mas.tools.files.html_rows import load_object
from mas.tools.files.reader_pool import await_reader
from mas.tools.http.blocking_requests import call_package, run_on_loop
from mas.tools.http.client import Reply, limit_time, open_client, send_request
from mas.tools.http.settings import WebSettings
from mas.tools.http.throttle import wait_for_turn
from mas.tools.http.transport import Rules
from mas.tools.results import ToolError
from mas.tools.web.page_view import FoundPage, PageSource

MAX_OPTIONS = 60
MAX_TEXT_BYTES = 10_000_000  # of a page
MAX_ANSWER_BYTES = 1_000_000  # of the API to anything but a page's text, parsed in this process
READ_TEXT = "mas.tools.files.html_rows:read_wiki_text"
_USER_AGENT_HINT = "set tools.web.contact: it refuses user agents without one"
_current = threading.local()  # .wiki and .loop of the thread that runs the package
_Answer = dict[str, Any]  # JSON of the API
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Page:
    """Existing page, after redirects."""

    title: str
    url: str


@dataclass(frozen=True)
class Revision:
    """Version of a page."""

    id: int
    timestamp: str  # "2025-01-02T03:04:05Z"


class Wikipedia:
    """Client of one Wikipedia, which the settings name."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        host = urlsplit(settings.wikipedia_api).netloc
        self._hosts = (*settings.allow_private_hosts, host)
        self.name = f"Wikipedia ({settings.wikipedia_language})"

    async def search_titles(self, query: str, results: int = 10) -> list[str]:
        """Return the titles of pages that a search finds, best first."""
        return cast(list[str], await self._call_package(lambda package: package.search.fn(query, results=results)))

    async def find_page(self, title: str) -> Page:
        """Return the page of a title.

        Raises:
            ToolError: there is no such page, or it only lists others; the sentence names them.
        """
        found = await self._call_package(lambda package: _find_page(package, title))
        if found is None:
            near = "; ".join(await self.search_titles(title, 5)) or "none"
            raise ToolError(f"{self.name} has no page {title!r}; pages that a search for it finds: {near}.")
        return Page(str(found.title), str(found.url))

    async def query(self, **parameters: str | int) -> _Answer:
        """Return the API's answer to `action=query`, or to another action among the parameters."""
        reply = await self.send({"action": "query", "format": "json", "formatversion": "2", **parameters})
        return load_object(reply.body, self.name)

    async def send(self, parameters: Mapping[str, str | int]) -> Reply:
        """Send a request to the API.

        Raises:
            ToolError: it did not answer, or refused.
        """
        reply = await self._request(parameters, MAX_ANSWER_BYTES)
        _check(load_object(reply.body, self.name), self.name)
        return reply

    async def _request(self, parameters: Mapping[str, str | int], max_bytes: int) -> Reply:
        """Send a request and return the reply as it is, unless its status says that it is refused."""
        await wait_for_turn("wikipedia", self._settings.wikipedia_requests_per_minute)
        async with open_client(self._settings, Rules(max_bytes, self._hosts)) as client:
            api = self._settings.wikipedia_api
            reply = await send_request(client, "GET", api, self._settings, self.name, params=dict(parameters))
        if reply.status == 403:
            raise ToolError(f"{self.name} refuses this program (403; {_USER_AGENT_HINT}); use another source.")
        if reply.status >= 400:
            raise ToolError(f"{self.name} refuses the request ({reply.status}); use another source.")
        return reply

    async def _call_package(self, call: Callable[[ModuleType], _Result]) -> _Result:
        loop = asyncio.get_running_loop()

        def run() -> _Result:
            _current.wiki, _current.loop = self, loop
            try:
                return call(_load_package())
            finally:
                del _current.wiki, _current.loop

        try:
            return await call_package(run)
        except ToolError:
            raise
        except _load_package().DisambiguationError as error:
            raise ToolError(_list_options(error.title, error.options)) from error
        except _load_package().WikipediaException as error:
            raise ToolError(f"{self.name} did not answer the request; try other words.") from error
        except (LookupError, AssertionError, TypeError, AttributeError) as error:  # of the package's parser
            raise ToolError(f"{self.name} has no page like that; find a title with wikipedia_search.") from error

    async def find_revision(self, page: Page, before: str | None) -> Revision:
        """Return the newest version, or the newest one that is not later than the timestamp `before`.

        Raises:
            ToolError: the page did not exist then.
        """
        when = {"rvstart": before, "rvdir": "older"} if before else {}
        found = await self._query_revision(page, **when)
        if found is None:
            first = await self._query_revision(page, rvdir="newer")
            since = f"; its first version is of {first.timestamp[:10]}" if first else ""
            raise ToolError(f"{page.title!r} did not exist on {(before or '')[:10]}{since}; ask for a later date.")
        return found

    async def _query_revision(self, page: Page, **when: str) -> Revision | None:
        answer = await self.query(prop="revisions", titles=page.title, rvlimit=1, rvprop="ids|timestamp", **when)
        pages = answer.get("query", {}).get("pages", [])
        revisions = pages[0].get("revisions", []) if pages else []
        return Revision(int(revisions[0]["revid"]), str(revisions[0]["timestamp"])) if revisions else None

    async def fetch_text(self, revision: Revision) -> bytes:
        """Return the packed rows of a version's text; templates are as they are today.

        Raises:
            ToolError: there is no such version, or it cannot be read.
        """
        wanted: dict[str, str | int] = {
            **{"action": "parse", "format": "json", "formatversion": "2", "oldid": revision.id, "prop": "text"},
            **{"disableeditsection": 1, "disablelimitreport": 1},
        }
        reply = await self._request(wanted, MAX_TEXT_BYTES)
        answer = await await_reader(READ_TEXT, reply.body, {"name": self.name})
        if code := answer.facts.get("code"):
            _refuse(code, self.name)
        return answer.packed

    async def fetch_introductions(self, titles: list[str]) -> dict[str, tuple[str, str]]:
        """Return URL and first sentences of the pages by title."""
        wanted: dict[str, str | int] = {
            **{"titles": "|".join(titles), "prop": "extracts|info", "inprop": "url", "redirects": 1},
            **{"exintro": 1, "explaintext": 1, "exchars": 400, "exlimit": 20},
        }
        answer = await self.query(**wanted)
        pages = answer.get("query", {}).get("pages", [])
        return {str(each["title"]): (str(each.get("fullurl", "")), str(each.get("extract", ""))) for each in pages}

    def build_link(self, title: str) -> str:
        """Return the address of a page for readers."""
        parts = urlsplit(self._settings.wikipedia_api)
        return f"{parts.scheme}://{parts.netloc}/wiki/{quote(title.replace(' ', '_'), safe='/:(),')}"


class _GuardedRequests:
    """Replacement of the module `requests` in the package."""

    @staticmethod
    def get(url: str, params: Mapping[str, str | int], headers: Mapping[str, str]) -> "_Json":
        wiki: Wikipedia = _current.wiki
        reply = run_on_loop(_current.loop, lambda: wiki.send(params))
        return _Json(reply)


@dataclass(frozen=True)
class _Json:
    reply: Reply

    def json(self) -> _Answer:
        return cast(_Answer, json.loads(self.reply.body))


def _load_package() -> ModuleType:
    """Return the `wikipedia` package, patched to send its requests through our client."""
    import wikipedia
    from bs4 import BeautifulSoup

    wikipedia.wikipedia.requests = _GuardedRequests
    wikipedia.wikipedia.BeautifulSoup = partial(BeautifulSoup, features="lxml")  # it names no parser, with a warning
    return cast(ModuleType, wikipedia)


def _find_page(package: ModuleType, title: str) -> Any:
    try:
        return package.page(title, auto_suggest=False)  # the suggestions are often another page
    except package.PageError:
        return None


def _check(answer: _Answer, name: str) -> None:
    error = answer.get("error")
    if error is None:
        return
    _refuse(str(error.get("code", "?"))[:60] if isinstance(error, dict) else "?", name)


def _refuse(code: str, name: str) -> NoReturn:
    if code in ("missingtitle", "nosuchrevid", "nosuchpageid", "invalidtitle"):
        raise ToolError(f"{name} has no such page or version ({code}); find a title with wikipedia_search.")
    raise ToolError(f"{name} refuses the request ({code}); try again later or in other words.")


def _list_options(title: str, found: Iterable[object]) -> str:
    options = list(dict.fromkeys(str(each) for each in found))
    more = f" and {len(options) - MAX_OPTIONS} more" if len(options) > MAX_OPTIONS else ""
    listed = "; ".join(options[:MAX_OPTIONS])
    return f"{title!r} only lists other pages; call wikipedia_page with one of these titles: {listed}{more}."


@dataclass(frozen=True)
class WikiPage:
    """Page of Wikipedia in one version."""

    wiki: str
    page: Page
    revision: Revision
    before: str | None  # the day that was asked for; None: today
    packed: bytes  # rows

    @property
    def source(self) -> PageSource:
        day = f" (as it stood on {self.before[:10]})" if self.before else ""
        url = f"{self.page.url}?oldid={self.revision.id}"
        described = f"{self.wiki}: {self.page.title}, version of {self.revision.timestamp}{day}, {url}"
        return PageSource(described, url, self.page.title)


async def read_wiki_page(title: str, before: str | None, settings: WebSettings) -> WikiPage:
    """Read a page as it is today, or as it was at the timestamp `before`.

    Raises:
        ToolError: there is no such page, or Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # four requests, and the reading of the text
        page = await wiki.find_page(title)
        revision = await wiki.find_revision(page, before)
        packed = await wiki.fetch_text(revision)
    return WikiPage(wiki.name, page, revision, before, packed)


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
    return [
        FoundPage(title, known.get(title, ("", ""))[0] or wiki.build_link(title), known.get(title, ("", ""))[1])
        for title in titles
    ]
