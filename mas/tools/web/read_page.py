"""Tool that reads the web: the main content of pages as markdown, files as `read_file` does."""

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from mas.runtime.untrusted import mark_untrusted
from mas.tools.files.document import Document, Part, clip, number_lines
from mas.tools.files.html_rows import read_rows, remove_unstorable
from mas.tools.files.kinds import READ, READABLE
from mas.tools.files.reader_pool import await_reader
from mas.tools.files.readers.text import check_encoding, decode_anything, find_declared_encoding
from mas.tools.http.client import limit_time, send_request
from mas.tools.http.url_policy import normalize_url
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import WebSettings, get_settings
from mas.tools.web.page_view import FetchedPage, get_or_fetch, show_page

MAX_PAGE_BYTES = 10_000_000  # after decompression
MAX_FILE_BYTES = 30_000_000  # of a PDF or another file
READ_HTML = "mas.tools.web.read_page:read_html"
MIN_CHARS = 250  # a shorter main content is not trusted to be one
NEEDS_BROWSER = "it shows little or no text without JavaScript: open it with the browser tools, if there are any"
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_LIBRARY_ERRORS = (ValueError, AssertionError, TypeError, AttributeError, LookupError, RecursionError)  # trafilatura's
_HTML = ("text/html", "application/xhtml+xml")
_SUFFIXES = {  # of kinds without a signature
    **{"text/csv": ".csv", "text/tab-separated-values": ".tsv", "text/plain": ".txt", "text/markdown": ".md"},
    **{"text/xml": ".xml", "application/xml": ".xml", "application/json": ".json", "application/ld+json": ".json"},
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
}


@mark_untrusted
@mark_read_only
async def read_page(url: str, page: int = 1, search: str | None = None) -> ToolResult:
    """Read a public web page, or a PDF, table or text file on the web, and return its content as text.

    url: the full address, beginning with https:// or http://.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines that contain this text (upper or lower case), with two lines around each.
    """
    settings = get_settings(WebSettings)
    address = normalize_url(url, settings.allow_private_hosts)
    found = await get_or_fetch(("page", address), lambda: _fetch_page(address, settings))
    return await asyncio.to_thread(show_page, found, page, search)  # seconds, of 200,000 lines


async def read_reply(reply: httpx.Response) -> FetchedPage:
    """Return the text of a reply, read in another process."""
    url, content_type = str(reply.url), reply.headers.get("content-type", "")
    kind, start = content_type.partition(";")[0].strip().lower(), reply.content[:1_000].lstrip().lower()
    looks_html = start.startswith((b"<!doctype html", b"<html"))
    if kind in _HTML or (looks_html and kind in ("", "text/plain")):
        if len(reply.content) > MAX_PAGE_BYTES:
            raise ToolError(f"The page is larger than {MAX_PAGE_BYTES} bytes; try a smaller page.")
        about = {"name": "The page", "url": url, "content_type": content_type}
        document = Document.from_facts(await await_reader(READ_HTML, reply.content, about))
        title = document.summary
    else:
        name = _choose_file_name(url, kind)
        try:
            document = Document.from_facts(await await_reader(READ, reply.content, {"name": name}))
        except ToolError as error:
            raise ToolError(f"The file at this address cannot be shown: {error}") from error
        title = f"{name}: {clip(document.summary, 500)}"
    described = f"{clip(title, 300)}, {clip(url, 600)}"
    return FetchedPage(url, title, replace(document, summary=described, unit="sheet"))  # no `sheet` to be given


def _choose_file_name(url: str, content_type: str) -> str:
    """Return a file name from the address, with the type's extension if no reader knows its own."""
    last = unquote(urlsplit(url).path).rpartition("/")[2]
    stem = re.sub(r"[^\w.-]+", "_", last).strip("._")[-80:] or "file"
    suffix, known = _SUFFIXES.get(content_type, ""), Path(stem).suffix.lower()
    if known in (*READABLE, suffix) or (suffix == ".txt" and known):  # servers call most texts plain
        return stem
    return f"{stem}{suffix}"


async def _fetch_page(url: str, settings: WebSettings) -> FetchedPage:
    host = urlsplit(url).hostname or url
    headers = {
        "User-Agent": f"Mozilla/5.0 (compatible; {settings.user_agent})",  # sites refuse other names
        "Accept": "text/html,application/xhtml+xml,application/pdf,*/*;q=0.8",
        "Accept-Language": "en,*;q=0.5",
    }
    reply = await send_request("GET", url, settings, host, MAX_FILE_BYTES, headers=headers)
    if reply.status_code >= 400:
        raise ToolError(
            f"{host} does not give this page ({reply.status_code}); check the address, or try another source."
        )
    async with limit_time(settings.seconds, f"Reading what {host} sent"):
        return await read_reply(reply)


def read_html(body: bytes, about: Mapping[str, str]) -> dict[str, Any]:
    """Return the page at `about["url"]`, its title as the summary: the task READ_HTML of the reader process."""
    html = remove_unstorable(_decode(body, about["content_type"]))
    whole = read_rows(html)
    title, main = _extract_main(html, about["url"])
    body_chars = sum(map(len, whole))
    notes = [NEEDS_BROWSER] if body_chars < MIN_CHARS and "<script" in html.lower() else []
    if not body_chars:
        raise ToolError(f"The page has no text{': ' + NEEDS_BROWSER if notes else '; try another source'}.")
    document = Document(title, [Part(number_lines(whole))], notes)
    if len(main) >= min(MIN_CHARS, body_chars):
        if len(main) < body_chars:
            notes.append("main content alone; a search that finds nothing in it goes through the rest of the page, too")
        lines = number_lines(line.rstrip() for line in main.split("\n"))
        document = replace(document, parts=[Part(lines)], whole=document.parts)
    return document.limit().to_facts()


def _extract_main(html: str, url: str) -> tuple[str, str]:
    """Return title with date, and main content as markdown, as far as the library finds them."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it calls an empty page an error
    title, main = "(no title)", ""
    with suppress(*_LIBRARY_ERRORS):
        about = trafilatura.extract_metadata(html, default_url=url)
        title = clip(str(about.title or title), 250) + (f", dated {about.date}" if about.date else "")
    form: dict[str, Any] = {"output_format": "markdown", "include_links": True, "include_formatting": True}
    with suppress(*_LIBRARY_ERRORS):
        main = trafilatura.extract(html, url=url, favor_recall=True, **form) or ""
    return title, main


def _decode(body: bytes, content_type: str) -> str:
    """Decode the body by byte order mark, utf-8, the header's charset, the page's, or a guess."""
    from trafilatura.utils import decode_file

    named = _CHARSET.search(content_type)
    text, encoding = decode_anything(body, (named and check_encoding(named[1])) or find_declared_encoding(body))
    return str(decode_file(body)) if "guessed" in encoding else text
