"""What a search in Wikipedia finds: for its own tool, and for web search where that has nothing better.

await search("mercury", settings, results=5)     # [Found("Mercury", "https://en.wikipedia.org/wiki/Mercury", "…"), …]
"""

from dataclasses import dataclass

from mas.tools.files.pages import clipped
from mas.tools.web.client import within
from mas.tools.web.mediawiki import Wikipedia
from mas.tools.web.settings import WebSettings

MAX_RESULTS = 20  # introductions that the API gives at once


@dataclass(frozen=True)
class Found:
    title: str
    url: str
    text: str  # the page's first sentences; for web search what the page says about the query


async def search(query: str, settings: WebSettings, results: int = 10) -> list[Found]:
    """Pages in the order of the search.

    Raises:
        ToolError: Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with within(2 * settings.seconds, wiki.name):  # two requests
        titles = await wiki.titles(query, min(results, MAX_RESULTS))
        known = await wiki.introductions(titles) if titles else {}
    return [
        Found(title, known.get(title, ("", ""))[0] or wiki.link(title), known.get(title, ("", ""))[1])
        for title in titles
    ]


def listed(found: list[Found]) -> str:
    """Numbered, each with its address and text."""
    entries = [
        f"{number}. {_line(each.title, 300)}\n   {each.url}\n   {_line(each.text, 2_000) or '(no text)'}"
        for number, each in enumerate(found, start=1)
    ]
    return "\n".join(entries)


def _line(text: str, limit: int) -> str:
    return clipped(" ".join(text.split()), limit)
