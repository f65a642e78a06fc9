"""What the client asks of Wikipedia, request by request, and what it makes of the answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import pytest

from mas.tools.files import tasks
from mas.tools.files.tasks import pack, unpack
from mas.tools.http.settings import WebSettings
from mas.tools.results import ToolError
from mas.tools.web import mediawiki
from mas.tools.web.html_rows import read_rows
from mas.tools.web.mediawiki import Page, Revision, WikiPage, Wikipedia, read_wiki_page, search_wikipedia
from mas.tools.web.page_view import FoundPage
from tests.servers.loopback import Answer, Asked, running
from tests.servers.mediawiki import MediaWikiServer

CONTACT = "tests@example.org"
_Result = TypeVar("_Result")


@pytest.fixture(scope="module")
def wiki() -> Iterator[MediaWikiServer]:
    with running(MediaWikiServer()) as server:
        yield server


def settings(server: MediaWikiServer, **changes: Any) -> WebSettings:
    fast: dict[str, Any] = {"attempts": 1, "seconds": 5, "wikipedia_requests_per_minute": None, "contact": CONTACT}
    return WebSettings(wikipedia_url=server.api_url, **{**fast, **changes})


def ask(
    server: MediaWikiServer, call: Callable[[Wikipedia], Awaitable[_Result]], **changes: Any
) -> tuple[_Result, list[dict[str, str]]]:
    """Return the result of a call and the queries that it has sent."""
    before = len(server.requests)

    async def run() -> _Result:
        return await call(Wikipedia(settings(server, **changes)))

    return asyncio.run(run()), [dict(each.query) for each in server.requests[before:]]


class Saying(MediaWikiServer):
    """Wikipedia that gives one answer to everything."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        super().__init__()
        self.said = Answer(body, status, {"Content-Type": "application/json"})

    def answer(self, asked: Asked) -> Answer:
        return self.said


def fail(server: MediaWikiServer, call: Callable[[Wikipedia], Awaitable[object]], **changes: Any) -> str:
    with pytest.raises(ToolError) as failed:
        ask(server, call, **changes)
    return str(failed.value)


@pytest.mark.parametrize("results", [None, 1])
def test_a_search_asks_for_as_many_titles_as_are_wanted(wiki: MediaWikiServer, results: int | None) -> None:
    limit = {} if results is None else {"results": results}
    titles, (asked,) = ask(wiki, lambda wikipedia: wikipedia.search_titles("varga", **limit))
    assert titles == ["Ada Varga", "Varga Peak"][: results or 10]
    assert (asked["list"], asked["srsearch"], asked["srlimit"]) == ("search", "varga", str(results or 10))


def test_a_page_is_found_by_its_title_and_redirects_are_followed(wiki: MediaWikiServer) -> None:
    for title in ("Ada Varga", "A. Varga"):
        found, _ = ask(wiki, lambda wikipedia, title=title: wikipedia.find_page(title))  # type: ignore[misc]
        assert found == Page("Ada Varga", f"{wiki.base_url}/wiki/Ada_Varga")


def test_a_title_that_there_is_not_costs_a_search_for_five(wiki: MediaWikiServer) -> None:
    before = len(wiki.requests)
    said = fail(wiki, lambda wikipedia: wikipedia.find_page("Nobody"))
    assert said == "Wikipedia (en) has no page 'Nobody'; pages that a search for it finds: none."
    assert wiki.requests[-1].query["srlimit"] == "5" and len(wiki.requests) - before == 2
    assert "finds: Ada Varga; Varga Peak." in fail(wiki, lambda wikipedia: wikipedia.find_page("Varga"))


def test_the_newest_version_or_the_one_of_a_day_is_asked_for(wiki: MediaWikiServer) -> None:
    page = Page("Ada Varga", "")
    asked = {"action": "query", "format": "json", "formatversion": "2", "prop": "revisions", "titles": "Ada Varga"}
    asked |= {"rvlimit": "1", "rvprop": "ids|timestamp"}
    newest, queries = ask(wiki, lambda wikipedia: wikipedia.find_revision(page, None))
    assert (newest, queries) == (Revision(1003, "2024-02-01T00:00:00Z"), [asked])
    older, queries = ask(wiki, lambda wikipedia: wikipedia.find_revision(page, "2022-12-31T23:59:59Z"))
    assert older == Revision(1002, "2022-12-30T23:59:59Z")
    assert queries == [{**asked, "rvstart": "2022-12-31T23:59:59Z", "rvdir": "older"}]


def test_a_page_without_versions_did_not_exist(wiki: MediaWikiServer) -> None:
    page = Page("Ada Varga", "")
    said = fail(wiki, lambda wikipedia: wikipedia.find_revision(page, "2010-12-31T23:59:59Z"))
    assert said == (
        "'Ada Varga' did not exist on 2010-12-31; its first version is of 2019-06-01; ask for a later date."
    )
    assert wiki.requests[-1].query["rvdir"] == "newer" and "rvstart" not in wiki.requests[-1].query
    for body in (b"{}", b'{"query": {}}', b'{"query": {"pages": []}}', b'{"query": {"pages": [{"missing": true}]}}'):
        with running(Saying(body)) as server:
            said = fail(server, lambda wikipedia: wikipedia.find_revision(page, "2010-12-31T23:59:59Z"))
        assert said == "'Ada Varga' did not exist on 2010-12-31; ask for a later date."


def test_the_text_of_a_version_comes_as_packed_rows(wiki: MediaWikiServer) -> None:
    packed, (asked,) = ask(wiki, lambda wikipedia: wikipedia.fetch_text(Revision(2001, "")))
    assert [row[0] for row in unpack(packed)] == ["Varga Peak is a mountain of 4,218 metres."]
    assert asked == {
        "action": "parse", "format": "json", "formatversion": "2", "oldid": "2001", "prop": "text",
        "disableeditsection": "1", "disablelimitreport": "1",
    }  # fmt: skip
    said = fail(wiki, lambda wikipedia: wikipedia.fetch_text(Revision(9, "")))
    assert said == "Wikipedia (en) has no such page or version (nosuchrevid); find a title with wikipedia_search."


def test_introductions_are_asked_for_all_at_once(wiki: MediaWikiServer) -> None:
    found, (asked,) = ask(wiki, lambda wikipedia: wikipedia.fetch_introductions(["Ada Varga", "Long list"]))
    base = f"{wiki.base_url}/wiki/"
    assert found == {
        "Ada Varga": (f"{base}Ada_Varga", "Ada Varga is a singer from Lowland."),
        "Long list": (f"{base}Long_list", ""),
    }
    assert asked == {
        "action": "query", "format": "json", "formatversion": "2", "titles": "Ada Varga|Long list",
        "prop": "extracts|info", "inprop": "url", "redirects": "1", "exintro": "1", "explaintext": "1",
        "exchars": "400", "exlimit": "20",
    }  # fmt: skip
    with running(Saying(b'{"query": {"pages": [{"title": "A"}]}}')) as server:
        assert ask(server, lambda wikipedia: wikipedia.fetch_introductions(["A"]))[0] == {"A": ("", "")}
    with running(Saying(b"{}")) as server:
        assert ask(server, lambda wikipedia: wikipedia.fetch_introductions(["A"]))[0] == {}


def test_links_for_readers_keep_the_marks_that_addresses_of_wikipedia_keep(wiki: MediaWikiServer) -> None:
    build = Wikipedia(settings(wiki)).build_link
    assert build("Mercury (planet)") == f"{wiki.base_url}/wiki/Mercury_(planet)"
    assert build("A/B: c, d?") == f"{wiki.base_url}/wiki/A/B:_c,_d%3F"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{}", 400, "Wikipedia (en) refuses the request (400); use another source."),
        (b"{}", 404, "Wikipedia (en) refuses the request (404); use another source."),
        (
            b"{}",
            403,
            "Wikipedia (en) refuses this program (403; set tools.web.contact: it refuses user agents without one); "
            "use another source.",
        ),
        (b"<html>", 200, "Wikipedia (en) answered with something that is no JSON; try again later."),
        (b"[" * 100_000, 200, "Wikipedia (en) answered with something that is no JSON; try again later."),
        (b"[]", 200, "Wikipedia (en) answered with something unexpected; try again later."),
        (b'{"error": "x"}', 200, "Wikipedia (en) refuses the request (?); try again later or in other words."),
        (b'{"error": {}}', 200, "Wikipedia (en) refuses the request (?); try again later or in other words."),
        (
            b'{"error": {"code": "%s"}}' % (b"c" * 61),
            200,
            f"Wikipedia (en) refuses the request ({'c' * 60}); try again later or in other words.",
        ),
        *(
            (
                b'{"error": {"code": "%s"}}' % code.encode(),
                200,
                f"Wikipedia (en) has no such page or version ({code}); find a title with wikipedia_search.",
            )
            for code in ("missingtitle", "nosuchrevid", "nosuchpageid", "invalidtitle")
        ),
    ],
)
def test_an_answer_that_is_none_has_its_sentence(body: bytes, status: int, said: str) -> None:
    with running(Saying(body, status)) as server:
        assert fail(server, lambda wikipedia: wikipedia.query(titles="A")) == said


def test_an_answer_of_any_other_form_is_returned() -> None:
    with running(Saying(b'{"error": null, "a": 1}', 399)) as server:
        assert ask(server, lambda wikipedia: wikipedia.query(action="other"))[0] == {"error": None, "a": 1}
        assert server.requests[0].query == {"action": "other", "format": "json", "formatversion": "2"}


def test_answers_have_a_limit_of_their_own_and_texts_that_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mediawiki, "MAX_ANSWER_BYTES", 100)
    with running(Saying(b"{}" + b" " * 150)) as server:
        said = fail(server, lambda wikipedia: wikipedia.query(titles="A"))
        assert "larger than 100 bytes" in said
        assert "larger than 50 bytes" in fail(server, lambda wikipedia: wikipedia.query(titles="A"), max_bytes=50)
    text = b'{"parse": {"text": "<p>Rome</p>%s"}}' % (b" " * 150)
    with running(Saying(text)) as server:
        packed, _ = ask(server, lambda wikipedia: wikipedia.fetch_text(Revision(1, "")))
        assert unpack(packed) == [["Rome", 0]]
        assert "larger than 150 bytes" in fail(
            server, lambda wikipedia: wikipedia.fetch_text(Revision(1, "")), max_bytes=150
        )


def test_what_the_package_cannot_read_is_no_page() -> None:
    with running(Saying(b'{"query": {"pages": {"1": {}}}}')) as server:
        said = fail(server, lambda wikipedia: wikipedia.find_page("A"))
        assert said == "Wikipedia (en) has no page like that; find a title with wikipedia_search."


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_list_of_pages_is_parsed_in_this_process_if_it_is_small(
    wiki: MediaWikiServer, beyond: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    html = "<ul><li><a>Rome</a></li></ul>"
    monkeypatch.setattr(mediawiki, "SMALL_BYTES", len(html) - beyond)
    monkeypatch.setattr(mediawiki._current, "wiki", Wikipedia(settings(wiki)), raising=False)
    for name in ("run_task", "call_reader"):
        monkeypatch.setattr(mediawiki, name, lambda *given, name=name: parsed.append(name) or tasks.run_task(*given))
    assert [link.a.get_text() for link in mediawiki._LinksOfList(html).find_all("li")] == ["Rome"]
    assert parsed == ["call_reader" if beyond else "run_task"]


def test_every_request_waits_for_its_turn(wiki: MediaWikiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[str, float | None]] = []

    async def record(service: str, per_minute: float | None) -> None:
        turns.append((service, per_minute))

    monkeypatch.setattr(mediawiki, "wait_for_turn", record)
    before = len(wiki.requests)
    asyncio.run(search_wikipedia("varga", settings(wiki, wikipedia_requests_per_minute=90)))
    assert turns == [("wikipedia", 90)] * (len(wiki.requests) - before) and len(turns) == 2


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str]]:
    """Limits of time that were set, in their order."""
    found: list[tuple[float, str]] = []
    real = mediawiki.limit_time

    def record(seconds: float, what: str) -> AbstractAsyncContextManager[None]:
        @asynccontextmanager
        async def limit() -> Any:
            found.append((seconds, what))
            async with real(seconds, what):
                yield

        return limit()

    monkeypatch.setattr(mediawiki, "limit_time", record)
    return found


def test_a_page_is_read_with_its_version_within_twice_the_time(
    wiki: MediaWikiServer, limits: list[tuple[float, str]]
) -> None:
    found = asyncio.run(read_wiki_page("Vargapeak", "2021-06-30T23:59:59Z", settings(wiki, wikipedia_language="de")))
    url = f"{wiki.base_url}/wiki/Varga_Peak"
    assert found == WikiPage(
        "Wikipedia (de)",
        Page("Varga Peak", url),
        Revision(2001, "2020-01-01T00:00:00Z"),
        "2021-06-30T23:59:59Z",
        pack(read_rows("<p>Varga Peak is a mountain of 4,218 metres.</p>")),
    )
    assert limits == [(10, "Wikipedia (de)")]
    assert found.source.description == (
        f"Wikipedia (de): Varga Peak, version of 2020-01-01T00:00:00Z (as it stood on 2021-06-30), {url}?oldid=2001"
    )
    assert (found.source.url, found.source.title) == (f"{url}?oldid=2001", "Varga Peak")
    today = WikiPage("Wikipedia (de)", found.page, found.revision, None, b"").source
    assert today.description == f"Wikipedia (de): Varga Peak, version of 2020-01-01T00:00:00Z, {url}?oldid=2001"


def test_a_search_returns_pages_with_their_first_sentences_within_twice_the_time(
    wiki: MediaWikiServer, limits: list[tuple[float, str]]
) -> None:
    base = f"{wiki.base_url}/wiki/"
    before = len(wiki.requests)
    assert asyncio.run(search_wikipedia("varga", settings(wiki))) == [
        FoundPage("Ada Varga", f"{base}Ada_Varga", "Ada Varga is a singer from Lowland."),
        FoundPage("Varga Peak", f"{base}Varga_Peak", "Varga Peak is a mountain."),
    ]
    assert limits == [(10, "Wikipedia (en)")]
    assert wiki.requests[before].query["srlimit"] == "10"
    before = len(wiki.requests)
    assert asyncio.run(search_wikipedia("zzz", settings(wiki), 21)) == []
    assert [each.query["srlimit"] for each in wiki.requests[before:]] == ["20"], "no title, no introduction"


def test_a_page_whose_introduction_is_missing_has_the_address_for_readers(
    wiki: MediaWikiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def know_little(self: Wikipedia, titles: list[str]) -> dict[str, tuple[str, str]]:
        return {titles[0]: ("", "known")}

    monkeypatch.setattr(Wikipedia, "fetch_introductions", know_little)
    base = f"{wiki.base_url}/wiki/"
    assert asyncio.run(search_wikipedia("varga", settings(wiki))) == [
        FoundPage("Ada Varga", f"{base}Ada_Varga", "known"),
        FoundPage("Varga Peak", f"{base}Varga_Peak", ""),
    ]
