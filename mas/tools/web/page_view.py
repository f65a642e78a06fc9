"""Fetched pages and lists of search results, as tools return them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mas.runtime.sample_context import current_context
from mas.tools.files.document import Document, clean_text, clip, lay_out
from mas.tools.results import Excerpt, ToolResult

MAX_KEPT = 6  # pages of one question; the oldest goes
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FetchedPage:
    url: str
    title: str
    document: Document  # its summary says what it is, where and of when


@dataclass(frozen=True)
class FoundPage:
    title: str
    url: str
    text: str  # Wikipedia: the page's first sentences; web search: what the page says about the query


def show_page(fetched: FetchedPage, page: int, search: str | None = None) -> ToolResult:
    """Return one page of a text, or of the lines that match a search, below a header."""
    document = fetched.document
    text, start = lay_out(document, " ".join(document.summary.split()), page, (search or "").strip())
    return ToolResult(text, kind="web_page", excerpts=[Excerpt(fetched.url, fetched.title, start, len(text))])


def show_found_pages(header: str, found: Sequence[FoundPage]) -> ToolResult:
    """Return a numbered list of pages below a header, each with its address and text."""
    text, excerpts = f"{header}\n\n", []
    for number, each in enumerate(found, start=1):
        title, body = _flatten(each.title, 300), _flatten(each.text, 2_000) or "(no text)"
        text += f"{number}. {title}\n   {each.url}\n   "
        excerpts.append(Excerpt(each.url, title, len(text), len(text) + len(body)))
        text += f"{body}\n"
    return ToolResult(clean_text(text.rstrip("\n")), kind="web_search", excerpts=excerpts)


def _flatten(text: str, limit: int) -> str:
    return clip(" ".join(text.split()), limit)


async def get_or_fetch(key: tuple[str, ...], make: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return what the question has fetched under this key, or fetch it; outside of one each time.

    So page 2 is of the same text as page 1, and costs no request.
    """
    context = current_context()
    store: dict[tuple[str, ...], _Result] = {} if context is None else context.tool_state.setdefault("web", {})
    if key not in store:
        store[key] = await make()
        if len(store) > MAX_KEPT:
            del store[next(iter(store))]
    return store[key]
