"""Fetching of a page, and its text: the main content of HTML as markdown; other files as the file readers show them.

document = await fetch_page("https://example.org/", get_settings(WebSettings))
# PageDocument(title="Towns", date="2024-05-01", parts=[…], whole=[…], …)
"""

import codecs
import logging
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from mas.runtime.safe_call import run_in_thread
from mas.tools.files.document import Part, number_lines
from mas.tools.files.paging import clip
from mas.tools.http.client import Reply, limit_time, open_client, send_request
from mas.tools.http.settings import WebSettings
from mas.tools.http.throttle import wait_for_turn
from mas.tools.http.transport import Rules
from mas.tools.results import ToolError
from mas.tools.web.html_rows import read_rows, remove_unstorable
from mas.tools.web.page_view import PageSource

MIN_CHARS = 250  # a shorter main content is not trusted to be one
NEEDS_BROWSER = "it shows little or no text without JavaScript: open it with the browser tools, if there are any"
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(r"<meta[^>]{0,200}charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LIBRARY_ERRORS = (ValueError, AssertionError, TypeError, AttributeError, LookupError, RecursionError)  # trafilatura's
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
class PageDocument:
    """Text of a page."""

    url: str
    title: str
    date: str  # of publication, as the page says; empty: it does not say
    parts: list[Part]  # the main content
    whole: list[Part] = field(default_factory=list)  # with menus and side columns; empty: `parts` is all
    notes: list[str] = field(default_factory=list)

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


def read_reply(reply: Reply, max_html_bytes: int) -> PageDocument:
    """Return the text of a reply.

    Raises:
        ToolError: it has no text, or is of a kind that cannot be read.
    """
    start = reply.body[:1_000].lstrip().lower()
    looks_html = start.startswith((b"<!doctype html", b"<html"))
    if reply.content_type in _HTML or (looks_html and reply.content_type in ("", "text/plain")):
        if len(reply.body) > max_html_bytes:
            raise ToolError(f"The page is larger than {max_html_bytes} bytes; try a smaller page.")
        return _read_html(reply)
    return _read_file(reply)


def _read_html(reply: Reply) -> PageDocument:
    html = remove_unstorable(_decode_body(reply))
    whole = [row.text for row in read_rows(html)]
    main, title, date = _extract_main(html, reply.url)
    body_chars = sum(map(len, whole))
    notes = [NEEDS_BROWSER] if body_chars < MIN_CHARS and "<script" in html.lower() else []
    if not body_chars:
        raise ToolError(f"The page has no text{': ' + NEEDS_BROWSER if notes else '; try another source'}.")
    if len(main) < min(MIN_CHARS, body_chars):
        return PageDocument(reply.url, title, date, [Part(number_lines(whole))], notes=notes)
    if len(main) < body_chars:
        notes.append("main content alone; a search that finds nothing in it goes through the rest of the page, too")
    main_lines = [line.rstrip() for line in main.split("\n")]
    return PageDocument(reply.url, title, date, [Part(number_lines(main_lines))], [Part(number_lines(whole))], notes)


def _extract_main(html: str, url: str) -> tuple[str, str, str]:
    """Return main content as markdown, title and date; each is empty if there is none or the library fails."""
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it calls an empty page an error
    main, title, date = "", "", ""
    with suppress(*_LIBRARY_ERRORS):
        about = trafilatura.extract_metadata(html, default_url=url)
        title, date = (str(about.title or ""), str(about.date or "")) if about else ("", "")
    with suppress(*_LIBRARY_ERRORS):
        main = (
            trafilatura.extract(
                html, url=url, output_format="markdown", include_links=True, include_formatting=True, favor_recall=True
            )
            or ""
        )
    return main, title, date


def _decode_body(reply: Reply) -> str:
    """Decode the body by its byte order mark, the header's charset, the page's own, or a guess."""
    from trafilatura.utils import decode_file

    body = reply.body
    if mark := next((encoding for start, encoding in _MARKS if body.startswith(start)), None):
        return body.decode(mark, "replace")
    for place, text in ((_CHARSET, reply.headers.get("content-type", "")), (_META, body[:4_096].decode("latin-1"))):
        if (named := place.search(text)) and not named[1].lower().startswith(("utf-16", "utf-32")):
            with suppress(LookupError):
                return body.decode(named[1], "replace")
    return decode_file(body)


def _read_file(reply: Reply) -> PageDocument:
    """Read a file from a temporary folder."""
    from mas.tools.files.kinds import read_document

    name = _choose_file_name(reply)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(reply.body)
        try:
            document = read_document(path)
        except ToolError as error:
            raise ToolError(f"The file at this address cannot be shown: {error}") from error
    title = f"{name}: {clip(document.summary, 500)}"
    return PageDocument(reply.url, title, "", document.parts, notes=document.notes)


def _choose_file_name(reply: Reply) -> str:
    """Return a bare file name from the address, with an extension that fits the type."""
    last = unquote(urlsplit(reply.url).path).rpartition("/")[2]
    stem = re.sub(r"[^\w.-]+", "_", last).strip("._")[-80:] or "file"
    suffix = _SUFFIXES.get(reply.content_type, "")
    if suffix and not (suffix == ".txt" and Path(stem).suffix):  # servers call most texts plain
        return stem if stem.lower().endswith(suffix) else f"{stem}{suffix}"
    return stem


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
