"""Tools for Wikipedia: find pages, and read one as it is today or was on a given day.

Searches go through the `wikipedia` package. It connects by http, without a time limit and with a user agent that
Wikimedia refuses, so its requests go through `Wikipedia.request`, like our own; it only parses the replies.
"""

import asyncio
import calendar
import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from mas.runtime.safe_call import run_in_thread
from mas.runtime.untrusted import mark_untrusted
from mas.tools.files.document import Document, Part, clean_text, clip, number_lines
from mas.tools.files.html_rows import READ_LINES, list_headings, select_section
from mas.tools.files.reader_pool import await_reader
from mas.tools.http.client import limit_time, send_request
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import WebSettings, get_settings
from mas.tools.web.page_view import FetchedPage, FoundPage, get_or_fetch, show_found_pages, show_page

_NO_TITLE = re.compile(r"[<>\[\]{}|\x00-\x1f\x7f\ud800-\udfff]")  # MediaWiki does not allow them
MAX_QUERY_CHARS = 300  # as many as the search takes
MAX_TITLE_CHARS = 255
MAX_ANSWER_BYTES = 10_000_000  # such as a page's text
MAX_RESULTS = 10
_Answer = dict[str, Any]  # JSON of the API
_request: ContextVar[Callable[[Mapping[str, Any]], _Answer]] = ContextVar("request")  # for its thread
_REQUESTS = SimpleNamespace(  # instead of the module `requests` in the package
    get=lambda url, params, headers: SimpleNamespace(json=lambda: _request.get()(params))
)


@mark_untrusted
@mark_read_only
async def wikipedia_tool(query: str) -> ToolResult:
    """Search Wikipedia and return the titles of the pages found, with their first sentences.

    query: a few words, best a name; then read one of the pages with wikipedia_page.
    """
    wanted = clean_text(query).strip()[:MAX_QUERY_CHARS]
    if not wanted:
        raise ToolError("The query is empty; give a few words to search for.")
    settings = get_settings(WebSettings)
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # two requests
        titles = await wiki.search_titles(wanted)
        if not titles:
            raise ToolError(f"Wikipedia has no page for {wanted!r}; try fewer or other words.")
        known = await wiki.fetch_introductions(titles)
    found = [FoundPage(title, *known.get(title, ("", ""))) for title in titles]
    return show_found_pages(f"{wiki.name}, search for {wanted!r}: {len(found)} pages", found)


@mark_untrusted
@mark_read_only
async def wikipedia_page(
    title: str, section: str | None = None, as_of: str | None = None, page: int = 1, search: str | None = None
) -> ToolResult:
    """Read a Wikipedia page as text, its tables row by row, today or as the page stood on a given day.

    title: the exact title, as wikipedia_tool gives it.
    section: the heading of one section alone, such as "Discography"; the answer for the whole page lists them.
    as_of: a date such as 2022-12-31 (or 2022-12, 2022: their last day), for the version that stood then.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines or rows that contain this text (upper or lower case), with two lines around each.
    """
    name, _, fragment = title.replace("_", " ").partition("#")
    name, wanted = name.strip(), (section or fragment).strip()
    if not name or _NO_TITLE.search(name) or len(name.encode()) > MAX_TITLE_CHARS:
        raise ToolError(f"{clip(title, 200)!r} is no title of a page; find one with wikipedia_tool.")
    settings, before = get_settings(WebSettings), _parse_day_end(as_of)
    key = ("wikipedia", settings.wikipedia_api, name, before or "")
    wiki = Wikipedia(settings)
    async with limit_time(2 * settings.seconds, wiki.name):  # three requests, and reading
        found = await get_or_fetch(key, lambda: wiki.read_page(name, before))
    lines = [line.text for line in found.document.parts[0].lines]
    headings = "; ".join(list_headings(lines)) or "none"
    chosen = select_section(lines, wanted) if wanted else lines
    if chosen is None:
        sections = clip(headings, 1_500)
        raise ToolError(f"{found.title} has no section {clip(wanted, 200)!r}; its sections: {sections}.")
    notes = [] if wanted else [f"sections: {clip(headings, 800)}"]
    notes += ["templates in it (not the text) are as they are today"] if before else []
    document = replace(found.document, parts=[Part(number_lines(chosen))], notes=[*found.document.notes, *notes])
    return show_page(replace(found, document=document), page, search)


def _parse_day_end(as_of: str | None) -> str | None:
    """Return the last second of a day, month or year, as the API takes it; None for the present."""
    text = (as_of or "").strip()
    if not text:
        return None
    try:
        year, *rest = (int(part) for part in text[:10].split("-"))
        month = rest[0] if rest else 12
        day = rest[1] if len(rest) > 1 else calendar.monthrange(year, month)[1]
        end = datetime(year, month, day, 23, 59, 59, tzinfo=UTC)
    except ValueError as error:
        raise ToolError(f"as_of={clip(text, 40)!r} is no date; expected one such as 2022-12-31.") from error
    return end.strftime("%Y-%m-%dT%H:%M:%SZ") if end < datetime.now(UTC) else None


class Wikipedia:
    """Client of one Wikipedia, which the settings name."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self.name = f"Wikipedia ({settings.wikipedia_language})"

    async def search_titles(self, query: str, results: int = MAX_RESULTS) -> list[str]:
        """Return the titles of pages that a search finds, best first."""
        import wikipedia

        loop = asyncio.get_running_loop()
        wikipedia.wikipedia.requests = _REQUESTS
        _request.set(lambda parameters: asyncio.run_coroutine_threadsafe(self.request(parameters), loop).result())
        try:
            return await run_in_thread(
                lambda: list(wikipedia.search.fn(query, results=results)),
                lambda how: ToolError(f"The request {how}; try again."),
            )
        except ToolError:
            raise
        except Exception as error:  # of the package's parser
            raise ToolError(f"{self.name} answered with something unexpected; try other words.") from error

    async def fetch_introductions(self, titles: list[str]) -> dict[str, tuple[str, str]]:
        """Return URL and first sentences of the pages by title."""
        wanted = {"exintro": 1, "explaintext": 1, "exchars": 400, "exlimit": 20, "redirects": 1}
        found = await self._query_pages(titles="|".join(titles), prop="extracts|info", inprop="url", **wanted)
        return {str(each["title"]): (str(each.get("fullurl", "")), str(each.get("extract", ""))) for each in found}

    async def read_page(self, title: str, before: str | None) -> FetchedPage:
        """Return a page as it is, or was at the timestamp `before`; templates are today's."""
        wanted: dict[str, Any] = {"prop": "info|revisions", "inprop": "url", "rvprop": "ids|timestamp", "rvlimit": 1}
        when = {"rvstart": before, "rvdir": "older"} if before else {}
        found = await self._query_pages(titles=title, redirects=1, **wanted, **when)
        if not found or found[0].get("missing") or found[0].get("invalid"):
            near = "; ".join(await self.search_titles(title, 5)) or "none"
            raise ToolError(f"{self.name} has no page {title!r}; pages that a search for it finds: {near}.")
        name, versions = str(found[0]["title"]), found[0].get("revisions")
        if not versions:
            raise ToolError(f"{name!r} did not exist on {(before or '')[:10]}; ask for a later date.")
        version = int(versions[0]["revid"])
        parse = {"action": "parse", "oldid": version, "prop": "text", "disableeditsection": 1, "disablelimitreport": 1}
        html = (await self.request(parse)).get("parse", {})
        if not isinstance(html, dict) or not isinstance(html.get("text"), str):
            raise ToolError(f"{self.name} gave no text for this page; try another source.")
        text = await await_reader(READ_LINES, html["text"].encode("utf-8", "replace"), {"name": self.name})
        day = f" (as it stood on {before[:10]})" if before else ""
        url = f"{found[0].get('fullurl', '')}?oldid={version}"
        described = f"{self.name}: {name}, version of {versions[0]['timestamp']}{day}, {url}"
        return FetchedPage(url, name, Document(described, [Part(number_lines(text["lines"]))]).limit())

    async def _query_pages(self, **parameters: Any) -> list[_Answer]:
        return list((await self.request(parameters)).get("query", {}).get("pages", []))

    async def request(self, parameters: Mapping[str, Any]) -> _Answer:
        """Return the API's answer; ToolError: it refuses, or answers with something else."""
        api, settings = self._settings.wikipedia_api, self._settings
        known = {"action": "query", "format": "json", "formatversion": "2", **parameters}
        reply = await send_request("GET", api, settings, self.name, MAX_ANSWER_BYTES, params=known)
        if (status := reply.status_code) >= 400:
            hint = "; set tools.web.contact: it refuses user agents without one" if status == 403 else ""
            raise ToolError(f"{self.name} refuses the request ({status}{hint}); use another source.")
        try:
            answer = json.loads(reply.content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise ToolError(f"{self.name} answered with something unexpected; try again later.")
        if refusal := answer.get("error"):
            code = str(refusal.get("code", "?"))[:60] if isinstance(refusal, dict) else "?"
            raise ToolError(f"{self.name} refuses the request ({code}); try again later or in other words.")
        return answer
