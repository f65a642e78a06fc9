"""Fetching of a page, and its text: the main content of HTML as markdown; other files as the file readers show them.

page = await fetch_page("https://example.org/", get_settings(WebSettings))
# FetchedPage(url="https://example.org/", title="Towns", date="2024-05-01", packed=b"…")
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from mas.tools.files.kinds import read_content
from mas.tools.files.paging import clip
from mas.tools.files.reader_pool import await_reader
from mas.tools.http.client import Reply, limit_time, open_client, send_request
from mas.tools.http.settings import WebSettings
from mas.tools.http.throttle import wait_for_turn
from mas.tools.http.transport import Rules
from mas.tools.results import ToolError
from mas.tools.web.page_view import PageSource

MAX_PAGE_BYTES = 10_000_000  # after decompression
MAX_FILE_BYTES = 30_000_000  # of a PDF or another file
READ_HTML = "mas.tools.web.html_page:read_html"
_HTML = ("text/html", "application/xhtml+xml")
_SUFFIXES = {
    "application/pdf": ".pdf",
    "application/json": ".json",
    "application/ld+json": ".jsonld",
    "application/zip": ".zip",
    "text/csv": ".csv",
    "text/plain": ".txt",
    "text/xml": ".xml",
    "application/xml": ".xml",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
}


@dataclass(frozen=True)
class FetchedPage:
    """Page of the web."""

    url: str
    title: str
    date: str  # of publication, as the page says; empty: it does not say
    packed: bytes  # document

    @property
    def source(self) -> PageSource:
        dated = f", dated {self.date}" if self.date else ""
        described = f"{clip(self.title, 300) or '(no title)'}{dated}, {clip(self.url, 600)}"
        return PageSource(described, self.url, self.title)


def check_type(content_type: str) -> None:
    """Refuse replies that are neither text nor a document.

    Raises:
        ToolError: the reply is one of them.
    """
    family = content_type.partition("/")[0]
    if family in ("audio", "video", "font") or content_type in ("application/x-msdownload", "application/wasm"):
        raise ToolError(f"This address gives {clip(content_type, 60)}, not text; read_page cannot show it.")


async def read_reply(reply: Reply) -> FetchedPage:
    """Return the text of a reply, read in another process.

    Raises:
        ToolError: it has no text, or is of a kind that cannot be read.
    """
    start = reply.body[:1_000].lstrip().lower()
    looks_html = start.startswith((b"<!doctype html", b"<html"))
    if reply.content_type in _HTML or (looks_html and reply.content_type in ("", "text/plain")):
        if len(reply.body) > MAX_PAGE_BYTES:
            raise ToolError(f"The page is larger than {MAX_PAGE_BYTES} bytes; try a smaller page.")
        about = {"name": "The page", "url": reply.url, "content_type": reply.headers.get("content-type", "")}
        page = await await_reader(READ_HTML, reply.body, about)
        return FetchedPage(reply.url, page.facts["title"], page.facts["date"], page.packed)
    name = _choose_file_name(reply)
    try:
        document = await read_content(reply.body, name)
    except ToolError as error:
        raise ToolError(f"The file at this address cannot be shown: {error}") from error
    return FetchedPage(reply.url, f"{name}: {clip(document.facts['summary'], 500)}", "", document.packed)


def _choose_file_name(reply: Reply) -> str:
    """Return a bare file name from the address, with an extension that fits the type."""
    last = unquote(urlsplit(reply.url).path).rpartition("/")[2]
    stem = re.sub(r"[^\w.-]+", "_", last).strip("._")[-80:] or "file"
    suffix = _SUFFIXES.get(reply.content_type, "")
    if suffix and not (suffix == ".txt" and Path(stem).suffix):  # servers call most texts plain
        return stem if stem.lower().endswith(suffix) else f"{stem}{suffix}"
    return stem


async def fetch_page(url: str, settings: WebSettings) -> FetchedPage:
    """Fetch a page and return its text.

    Raises:
        ToolError: it must not be read, there is none, or it cannot be shown.
    """

    async def check(response: httpx.Response) -> None:
        check_type(response.headers.get("content-type", "").partition(";")[0].strip().lower())

    host = urlsplit(url).hostname or url
    rules = Rules(MAX_FILE_BYTES, tuple(settings.allow_private_hosts), settings.blocked)
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
        return await read_reply(reply)


def _describe_refusal(status: int, host: str) -> str:
    if status in (404, 410):
        return f"{host} has no page at this address ({status}); check the address, or search for the page."
    if status in (401, 402, 403, 407, 451):
        return f"{host} does not let this page be read ({status}); try the browser tools, an archive or another source."
    return f"{host} refuses the request ({status}); try another address."
