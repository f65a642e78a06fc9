"""wikipedia_tool and wikipedia_page against a loopback MediaWiki, through the `wikipedia` package and the API."""

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.web.wikipedia_pages import wikipedia_page, wikipedia_tool
from tests.mas.tools.web.in_context import LOOPBACK, a_question, using
from tests.patience import PATIENCE_SECONDS
from tests.servers.loopback import running
from tests.servers.mediawiki import MediaWikiServer

CONTACT = "tests@example.org"


@pytest.fixture(scope="module")
def wiki() -> Iterator[MediaWikiServer]:
    with running(MediaWikiServer()) as server:
        yield server


def settings(server: MediaWikiServer, **changes: Any) -> WebSettings:
    fast: dict[str, Any] = {"seconds": PATIENCE_SECONDS, "contact": CONTACT}
    return WebSettings(wikipedia_url=server.api_url, allow_private_hosts=[LOOPBACK], **{**fast, **changes})


def page(server: MediaWikiServer, title: str, **arguments: Any) -> str:
    with using(settings(server)):
        return asyncio.run(wikipedia_page(title, **arguments))


def find(server: MediaWikiServer, query: str, **changes: Any) -> str:
    with using(settings(server, **changes)):
        return asyncio.run(wikipedia_tool(query))


def test_a_search_gives_titles_with_first_sentences(wiki: MediaWikiServer) -> None:
    shown = find(wiki, "varga")
    assert shown.startswith("Wikipedia (en), search for 'varga': 2 pages\n\n1. Ada Varga\n")
    assert "Ada Varga is a singer from Lowland." in shown


def test_a_search_without_a_result_is_a_sentence(wiki: MediaWikiServer) -> None:
    with pytest.raises(ToolError, match="has no page for 'zzz'"):
        find(wiki, "zzz")
    with pytest.raises(ToolError, match="query is empty"):
        find(wiki, " ")


def test_every_request_names_a_contact(wiki: MediaWikiServer) -> None:
    before = len(wiki.requests)
    find(wiki, "varga")
    sent = wiki.requests[before:]
    assert sent and all(f"({CONTACT})" in each.headers["user-agent"] for each in sent)


def test_without_a_contact_the_refusal_names_the_setting(wiki: MediaWikiServer) -> None:
    with pytest.raises(ToolError, match=r"\(403; set tools\.web\.contact"):
        find(wiki, "varga", contact="")


def test_a_page_comes_with_its_version_and_every_cell_of_its_tables(wiki: MediaWikiServer) -> None:
    shown = page(wiki, "Ada Varga")
    first, second, *_ = shown.split("\n")
    assert "Ada Varga, version of 2024-02-01T00:00:00Z" in first and "?oldid=1003" in first
    assert second == "sections: Life; Youth; Discography; Mathematics; References"
    assert "| 1999 | First \\| Light | North |\n| 1999 | Second Dawn | South |\n| 2003 | Third Noon | South |" in shown
    assert "| Born | 1 March 1950 / Marrow, Lowland |\n| Genres | Folk / Jazz |" in shown
    assert "- Live\n  - Marrow 2001" in shown
    assert "Area {\\pi r^2} known." in shown
    assert "1. Portrait <https://press.example.org/varga>, 2001" in shown


def test_what_only_serves_editors_and_navigation_is_left_out(wiki: MediaWikiServer) -> None:
    shown = page(wiki, "Ada Varga")
    for text in ("[edit]", "[1]", "alert(1)", "color:red", "(1950-03-01)", "a dozen names", "junk", "^"):
        assert text not in shown.replace("{\\pi r^2}", "")


@pytest.mark.parametrize("title", ["A. Varga", "ada Varga", "Ada_Varga", " Ada Varga "])
def test_redirects_and_spellings_lead_to_the_page(wiki: MediaWikiServer, title: str) -> None:
    assert page(wiki, title).startswith("Wikipedia (en): Ada Varga, version of")


@pytest.mark.parametrize(
    ("as_of", "version", "albums"),
    [
        ("2022-12-31", 1002, 4),
        ("2022-12-30", 1002, 4),
        ("2022-12-29", 1001, 3),
        ("2022-12", 1002, 4),
        ("2022", 1002, 4),
        ("2019-06-01", 1001, 3),
        ("2020-06-30T10:00:00Z", 1001, 3),
        ("2999-01-01", 1003, 5),
        ("", 1003, 5),
    ],
)
def test_a_page_as_it_stood_on_a_day(wiki: MediaWikiServer, as_of: str, version: int, albums: int) -> None:
    shown = page(wiki, "Ada Varga", as_of=as_of)
    assert f"?oldid={version}" in shown and f"She has {albums} albums." in shown


def test_a_day_before_the_first_version_is_a_sentence(wiki: MediaWikiServer) -> None:
    with pytest.raises(ToolError, match="did not exist on 2010-12-31"):
        page(wiki, "Ada Varga", as_of="2010")


@pytest.mark.parametrize("as_of", ["yesterday", "2022-02-30", "31.12.2022", "2022-13", "0000"])
def test_what_is_no_date_is_refused(wiki: MediaWikiServer, as_of: str) -> None:
    with pytest.raises(ToolError, match="is no date; expected one such as 2022-12-31"):
        page(wiki, "Ada Varga", as_of=as_of)


def test_a_section_holds_its_subsections_and_nothing_else(wiki: MediaWikiServer) -> None:
    life = page(wiki, "Ada Varga", section="life")
    assert "## Life\nBorn in Marrow.\n### Youth\nShe sang" in life and "Discography" not in life
    assert "Born in Marrow" not in page(wiki, "Ada Varga", section="Youth")
    assert "## Discography" in page(wiki, "Ada Varga#Discography")


def test_an_unknown_section_is_refused_with_those_there_are(wiki: MediaWikiServer) -> None:
    with pytest.raises(ToolError, match="no section 'Films'; its sections: Life; Youth; Discography"):
        page(wiki, "Ada Varga", section="Films")


def test_a_disambiguation_is_a_page_that_lists_others(wiki: MediaWikiServer) -> None:
    assert "- Mercury (planet), the smallest\n- Mercury (element)" in page(wiki, "Mercury")


def test_a_title_that_there_is_not_is_answered_with_what_a_search_finds(wiki: MediaWikiServer) -> None:
    with pytest.raises(
        ToolError, match=r"has no page 'Varga'; pages that a search for it finds: Ada Varga; Varga Peak"
    ):
        page(wiki, "Varga")


def test_long_pages_are_paged_searched_and_fetched_once_a_question(wiki: MediaWikiServer) -> None:
    with a_question():
        first = page(wiki, "Long list")
        before = len(wiki.requests)
        count = int(re.search(r"page 1 of (\d+)", first)[1])  # type: ignore[index]
        pages = [first, *(page(wiki, "Long list", page=number) for number in range(2, count + 1))]
        assert len(re.findall(r"Entry \d+ of", "".join(pages))) == 2_000
        assert "lines that contain 'entry 1999': 1" in page(wiki, "Long list", search="entry 1999")
        assert len(wiki.requests) == before


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("401", r"refuses the request \(401\)"),
        ("403", r"refuses the request \(403; set tools\.web\.contact"),
        ("429", r"too many requests \(429\)"),
        ("503", r"trouble of its own \(503\)"),
        ("ratelimited", r"refuses the request \(ratelimited\)"),
        ("html", "something unexpected"),
        ("deep", "something unexpected"),
        ("list", "something unexpected"),
        ("nothing", "something unexpected"),
        ("endless", "larger than 10000000 bytes"),
        ("hang", r"did not answer (within (0\.5|1) seconds|in time)"),
        ("drip", r"did not answer (within (0\.5|1) seconds|in time)"),
    ],
)
def test_each_failure_has_its_sentence_in_both_tools(fault: str, sentence: str) -> None:
    with running(MediaWikiServer({"every": 1, "fault": fault})) as server:
        web = settings(server, seconds=0.5 if fault in ("hang", "drip") else PATIENCE_SECONDS)
        for call in (wikipedia_page, wikipedia_tool):
            started = time.monotonic()
            with using(web), pytest.raises(ToolError, match=sentence):
                asyncio.run(call("Ada Varga"))
            assert time.monotonic() - started < 100


@pytest.mark.slow
def test_what_passes_is_tried_again() -> None:
    with running(MediaWikiServer(["503", "429_retry_after_1", "ok"])) as server, using(settings(server)):
        assert "She has 5 albums" in asyncio.run(wikipedia_page("Ada Varga"))
