"""Text of an HTML page, as the reader process makes it: the main content as markdown, and all lines of the page.

facts = read_html(b"<html>…", {"url": "https://example.org/", "content_type": "text/html"})
facts["title"], facts["date"], Document.from_facts(facts["document"])
"""

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mas.tools.files.document import Document, Part, number_lines
from mas.tools.files.html_rows import read_rows, remove_unstorable
from mas.tools.files.readers.text import check_encoding, decode_anything, find_declared_encoding
from mas.tools.results import ToolError

MIN_CHARS = 250  # a shorter main content is not trusted to be one
NEEDS_BROWSER = "it shows little or no text without JavaScript: open it with the browser tools, if there are any"
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_LIBRARY_ERRORS = (ValueError, AssertionError, TypeError, AttributeError, LookupError, RecursionError)  # trafilatura's


def read_html(body: bytes, about: Mapping[str, str]) -> dict[str, Any]:
    """Return title and date of a page, and its text.

    Args:
        about: its `url`, and the `content_type` of the reply.

    Raises:
        ToolError: it has no text.
    """
    html = remove_unstorable(_decode(body, about["content_type"]))
    whole = read_rows(html)
    main, title, date = _extract_main(html, about["url"])
    body_chars = sum(map(len, whole))
    notes = [NEEDS_BROWSER] if body_chars < MIN_CHARS and "<script" in html.lower() else []
    if not body_chars:
        raise ToolError(f"The page has no text{': ' + NEEDS_BROWSER if notes else '; try another source'}.")
    all_lines = [Part(number_lines(whole))]
    if len(main) < min(MIN_CHARS, body_chars):
        document = Document(title, all_lines, notes)
    else:
        if len(main) < body_chars:
            notes.append("main content alone; a search that finds nothing in it goes through the rest of the page, too")
        main_lines = number_lines(line.rstrip() for line in main.split("\n"))
        document = Document(title, [Part(main_lines)], notes, whole=all_lines)
    return {"title": title, "date": date, "document": document.limit().to_facts()}


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


def _decode(body: bytes, content_type: str) -> str:
    """Decode the body by its byte order mark, utf-8, the header's charset, the page's own, or a guess."""
    from trafilatura.utils import decode_file

    named = _CHARSET.search(content_type)
    text, encoding = decode_anything(body, (named and check_encoding(named[1])) or find_declared_encoding(body))
    return str(decode_file(body)) if "guessed" in encoding else text
