"""A question's pages: fetched once, the newest few kept, and nothing shared with other questions."""

import asyncio

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.web.page_cache import MAX_KEPT, get_or_fetch


def test_the_newest_pages_of_a_question_are_fetched_once() -> None:
    fetched: list[str] = []

    async def fetch(page: str) -> str:
        async def make() -> str:
            fetched.append(page)
            return page.upper()

        return await get_or_fetch((page,), make)

    async def scenario() -> None:
        pages = [chr(ord("a") + number) for number in range(MAX_KEPT)]
        for page in [*pages, *pages]:
            assert await fetch(page) == page.upper()
        assert fetched == pages
        await fetch("z")
        for page in pages[1:]:
            await fetch(page)
        assert fetched == [*pages, "z"]
        await fetch("a")
        assert fetched[-1] == "a", "the oldest went"

    for number in range(2):
        fetched.clear()
        with use_context(SampleContext(SampleKey(f"q{number}"))):
            asyncio.run(scenario())
    fetched.clear()
    for _ in range(2):
        asyncio.run(fetch("a"))
    assert fetched == ["a", "a"], "outside a question nothing is kept"
