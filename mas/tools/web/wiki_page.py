"""One version of a Wikipedia page, ready to be shown whole or by section.

page = await read("Rome", before="2022-12-31T23:59:59Z", settings=tool_settings().web)
page.section("History")      # its lines; the page's own where the name is empty
"""

from dataclasses import dataclass

from mas.contained import in_thread
from mas.tools.errors import ToolError
from mas.tools.files.pages import clipped
from mas.tools.web.client import within
from mas.tools.web.html_rows import Row, headings, rows, section
from mas.tools.web.mediawiki import Page, Revision, Wikipedia
from mas.tools.web.settings import WebSettings


@dataclass(frozen=True)
class WikiPage:
    """`before`: the day that was asked for; None: today."""

    wiki: str
    page: Page
    revision: Revision
    before: str | None
    rows: list[Row]

    @property
    def source(self) -> str:
        day = f" (as it stood on {self.before[:10]})" if self.before else ""
        where = f"{self.page.url}?oldid={self.revision.id}"
        return f"{self.wiki}: {self.page.title}, version of {self.revision.timestamp}{day}, {where}"

    def section(self, name: str) -> list[str]:
        """
        Raises:
            ToolError: the page has no such section; the sentence names those it has.
        """
        chosen = section(self.rows, name) if name else self.rows
        if chosen is None:
            names = clipped("; ".join(headings(self.rows)), 1_500) or "none"
            raise ToolError(f"{self.page.title} has no section {clipped(name, 200)!r}; its sections: {names}.")
        return [row.text for row in chosen]

    def notes(self, of_section: bool) -> list[str]:
        found = [] if of_section else [f"sections: {clipped('; '.join(headings(self.rows)), 800) or 'none'}"]
        return found + (["templates in it (not the text) are as they are today"] if self.before else [])


async def read(title: str, before: str | None, settings: WebSettings) -> WikiPage:
    """
    Raises:
        ToolError: there is no such page, or Wikipedia did not answer.
    """
    wiki = Wikipedia(settings)
    async with within(2 * settings.seconds, wiki.name):  # four requests
        page = await wiki.page(title)
        revision = await wiki.revision(page, before)
        html = await wiki.html(revision)
    found = await in_thread(lambda: rows(html), lambda how: ToolError(f"The page's text {how}; try another source."))
    return WikiPage(wiki.name, page, revision, before, found)
