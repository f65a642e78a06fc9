"""read_page against a loopback website: content, files, limits, redirects, and a sentence for each way to fail."""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mas.tools.files.document import MAX_PAGE_CHARS
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.web.read_page import read_page, read_reply
from tests.mas.tools.web.in_context import LOOPBACK, a_question, events, recorded, using
from tests.patience import PATIENCE_SECONDS
from tests.servers.loopback import running
from tests.servers.website import JAPANESE, Website


@pytest.fixture(scope="module")
def site() -> Iterator[Website]:
    with running(Website()) as server:
        yield server


def read(server: Website, path: str, page: int = 1, search: str | None = None, **changes: Any) -> str:
    fast: dict[str, Any] = {"seconds": PATIENCE_SECONDS}
    with using(WebSettings(allow_private_hosts=[LOOPBACK], **{**fast, **changes})):
        return asyncio.run(read_page(server.base_url + path, page, search))


def test_the_main_content_comes_as_markdown_under_title_date_and_address(site: Website) -> None:
    shown = read(site, "/article")
    first, rest = shown.split("\n", 1)
    assert first == f"Marrow Point, dated 2021-05-06, {site.base_url}/article; page 1 of 1"
    assert "## Keepers" in rest and "| Ruth Odell | 1874 |" in rest
    assert f"[the list of keepers]({site.base_url}/keepers)" in rest
    assert "About this site" not in rest and "track()" not in rest


def test_a_search_looks_through_the_rest_of_the_page_if_the_main_content_has_nothing(site: Website) -> None:
    assert "> " in read(site, "/article", search="birch")
    assert "lines that contain 'quiet lamps': 1" in read(site, "/article", search="quiet lamps")
    assert "lines that contain 'elephant': 0" in read(site, "/article", search="elephant")


def test_a_page_of_tables_alone_is_shown_whole(site: Website) -> None:
    assert "| Team | Points |\n| --- | --- |\n| Otters | 12 |" in read(site, "/tables")


def test_pages_hold_every_paragraph_once_and_say_how_to_go_on(site: Website) -> None:
    with a_question():
        first = read(site, "/long")
        count = int(re.search(r"page 1 of (\d+); the rest: page=2", first)[1])  # type: ignore[index]
        pages = [first, *(read(site, "/long", page) for page in range(2, count + 1))]
        with pytest.raises(ToolError, match=f"no page {count + 1}"):
            read(site, "/long", count + 1)
    found = [int(each) for page in pages for each in re.findall(r"Paragraph (\d+) of", page)]
    assert found == list(range(2_000))
    assert all(len(page) <= MAX_PAGE_CHARS for page in pages)


def test_the_next_page_of_a_question_is_not_fetched_again(site: Website) -> None:
    before = len(site.requests)
    with a_question():
        for page in (1, 2, 3):
            with contextlib.suppress(ToolError):
                read(site, "/article", page)
    assert len(site.requests) - before == 1
    with a_question():
        read(site, "/article")
    assert len(site.requests) - before == 2


def test_a_page_made_by_scripts_points_to_the_browser(site: Website) -> None:
    with pytest.raises(ToolError, match="no text without JavaScript: open it with the browser tools"):
        read(site, "/js-only")


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/text", ["text.txt: text", "line two"]),
        ("/data.json", ["data.json: JSON", '"name": "Rome"']),
        ("/towns.csv", ["towns.csv: table", "2 | Oslo | 9"]),
        ("/report.pdf", ["report.pdf: PDF", "Forty-one lamps were counted"]),
        ("/download", ["download: PDF", "Forty-one lamps were counted"]),
        ("/latin1", ["Caf\N{LATIN SMALL LETTER E WITH ACUTE} am Fluss"]),
        ("/odd-charset", ["still a page"]),
        ("/idna-charset", ["no page is in this"]),
        ("/utf16", ["caf\N{LATIN SMALL LETTER E WITH ACUTE} in sixteen bits"]),
        ("/wrong-meta", ["caf\N{LATIN SMALL LETTER E WITH ACUTE}"]),
        ("/odd-soup", ["soup"]),
        ("/iso-2022-jp", [JAPANESE]),
        ("/hz-meta", [JAPANESE]),
        ("/gzip", ["Ruth Odell"]),
        ("/no-encoding", ["as it is"]),
        ("/chain/4", ["/article; page 1", "Ruth Odell"]),
    ],
)
def test_files_encodings_and_redirects(site: Website, path: str, texts: list[str]) -> None:
    shown = read(site, path)
    assert all(text in shown for text in texts)


def test_what_no_prompt_can_hold_is_mended(site: Website) -> None:
    shown = read(site, "/surrogate")
    shown.encode("utf-8")
    assert "\x00" not in shown and "a pair" in shown


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/status/404", r"127\.0\.0\.1 does not give this page \(404\)"),
        ("/status/403", r"does not give this page \(403\)"),
        ("/status/429", r"too many requests \(429\)"),
        ("/status/500", r"trouble of its own \(500\)"),
        ("/status/503", r"trouble of its own \(503\)"),
        ("/empty", "The page has no text"),
        ("/video", "cannot be shown"),
        ("/binary", "cannot be shown"),
        ("/loop", "redirects in a circle or too often"),
        ("/chain/20", "redirects in a circle or too often"),
        ("/reset", "cannot be reached or broke off"),
        ("/cut", "cannot be reached or broke off"),
        ("/no-http", "cannot be reached or broke off"),
        ("/many-headers", "cannot be reached or broke off"),
        ("/brotli", "compressed in a way"),
        ("/bad-gzip", "could not be read .DecodingError"),
        ("/endless", "larger than 30000000 bytes"),
        ("/bomb", "larger than 30000000 bytes"),
        ("/to?url=file:///etc/passwd", "does not begin with http"),
        ("/to?url=http://127.0.0.2:1/", "not public"),
        ("/to?url=http://[::1]:1/", "not public"),
    ],
)
def test_each_failure_has_its_sentence(site: Website, path: str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence) as failed:
        read(site, path)
    assert len(str(failed.value)) < 400 and "/tmp" not in str(failed.value)


def replied(url: str, content_type: str, content: bytes) -> httpx.Response:
    return httpx.Response(
        200, headers={"content-type": content_type}, content=content, request=httpx.Request("GET", url)
    )


def test_html_has_a_limit_of_its_own() -> None:
    reply = replied("https://example.org/", "text/html", bytes(10_000_001))
    with pytest.raises(ToolError, match="larger than 10000000 bytes"):
        asyncio.run(read_reply(reply))


@pytest.mark.parametrize("path", ["/hang", "/drip"])
def test_the_time_is_for_the_whole_page(site: Website, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(ToolError, match=r"did not answer (within 0\.5 seconds|in time)"):
        read(site, path, seconds=0.5)
    assert time.monotonic() - started < 100


@pytest.mark.slow
def test_what_passes_is_tried_again() -> None:
    with running(Website(["429_retry_after_1", "reset", "ok"])) as server:
        assert "Ruth Odell" in read(server, "/article")
    assert len(server.requests) == 3


@pytest.mark.parametrize("path", ["/leak", "/to?url={base}/leak", "/chain/1?then=/leak"])
def test_a_blocked_page_is_refused_without_its_content_also_behind_a_redirect(site: Website, path: str) -> None:
    before = len(site.requests)
    with recorded() as trace, pytest.raises(ToolError, match="This page is blocked") as refused:
        read(site, path.replace("{base}", site.base_url), more_blocked_sites=["/leak"])
    assert "gold answer" not in str(refused.value)
    assert len(events(trace, "blocked page")) == 1
    assert "/leak" not in [each.path for each in site.requests[before:]]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost/", "file:///etc/passwd", "notaurl", ""])
def test_the_guard_stands_before_the_tool(url: str) -> None:
    with using(WebSettings()), pytest.raises(ToolError, match="This URL is refused"):
        asyncio.run(read_page(url))


@pytest.mark.parametrize(
    ("name", "content_type", "shown"),
    [
        ("towns.csv", "application/vnd.ms-excel", "towns.csv: table"),
        ("towns.php", "text/csv", "towns.php.csv: table"),
    ],
)
def test_the_name_of_a_file_decides_what_it_is_and_its_type_where_the_name_does_not(
    name: str, content_type: str, shown: str
) -> None:
    reply = replied(f"https://example.org/{name}", content_type, b"town,people\nRome,3\n")
    assert asyncio.run(read_reply(reply)).title.startswith(shown)
