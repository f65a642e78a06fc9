"""Which reader gets what an address sends, and under which name."""

import asyncio
from typing import Any

import pytest

from mas.tools.http.client import Reply
from mas.tools.http.settings import WebSettings
from mas.tools.results import ToolError
from mas.tools.web import fetched_page
from mas.tools.web.fetched_page import (
    FetchedPage,
    _choose_file_name,
    _describe_refusal,
    check_type,
    fetch_page,
    read_reply,
)
from tests.servers.loopback import Answer, Asked, LoopbackServer, running

PAGE = b"<!DOCTYPE html><html><head><title>Towns</title></head><body><p>Rome is a town.</p></body></html>"


def fetch(body: bytes, content_type: str, url: str = "https://example.org/a", most: int = 10_000) -> FetchedPage:
    headers = {"content-type": content_type} if content_type else {}
    return asyncio.run(read_reply(Reply(url, 200, headers, body), most))


@pytest.mark.parametrize(
    ("content_type", "is_page"),
    [("text/html", True), ("application/xhtml+xml", True), ("text/plain", True), ("", True), ("text/csv", False)],
)
def test_html_is_known_by_its_type_or_its_beginning(content_type: str, is_page: bool) -> None:
    assert (fetch(b"\n " + PAGE, content_type).title == "Towns") is is_page


def test_a_page_may_be_as_large_as_the_limit() -> None:
    assert fetch(PAGE, "text/html", most=len(PAGE)).title == "Towns"
    with pytest.raises(ToolError, match=f"larger than {len(PAGE) - 1} bytes"):
        fetch(PAGE, "text/html", most=len(PAGE) - 1)


@pytest.mark.parametrize(
    ("url", "content_type", "name"),
    [
        ("https://example.org/data/towns", "text/csv", "towns.csv"),
        ("https://example.org/data/towns.csv", "text/csv", "towns.csv"),
        ("https://example.org/towns.CSV", "text/csv", "towns.CSV"),
        ("https://example.org/towns.php", "text/csv", "towns.php.csv"),
        ("https://example.org/notes", "text/plain", "notes.txt"),
        ("https://example.org/notes.md", "text/plain", "notes.md"),
        ("https://example.org/", "text/csv", "file.csv"),
        ("https://example.org/%2e%2e%2Fa%20b.csv", "text/csv", "a_b.csv"),
        ("https://example.org/towns", "", "towns"),
    ],
)
def test_a_file_has_a_bare_name_whose_extension_fits_its_type(url: str, content_type: str, name: str) -> None:
    assert fetch(b"town,people\nRome,3\n", content_type, url).title.startswith(f"{name}: ")


def test_a_file_that_cannot_be_read_says_so() -> None:
    with pytest.raises(ToolError, match="The file at this address cannot be shown: "):
        fetch(b"%PDF-1.4 damaged", "application/pdf")


@pytest.mark.parametrize(
    ("content_type", "is_refused"),
    [("audio/mpeg", True), ("video/mp4", True), ("font/woff", True), ("application/wasm", True),
     ("application/x-msdownload", True), ("image/png", False), ("text/html", False), ("", False)],
)  # fmt: skip
def test_sound_video_and_programs_are_not_fetched(content_type: str, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(ToolError, match="not text; read_page cannot show it"):
            check_type(content_type)
    else:
        check_type(content_type)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(404, "has no page"), (410, "has no page"), (401, "does not let"), (403, "does not let"), (402, "does not let"),
     (407, "does not let"), (451, "does not let"), (400, "refuses the request"), (500, "refuses the request")],
)  # fmt: skip
def test_a_refusal_says_what_to_do_instead(status: int, sentence: str) -> None:
    told = _describe_refusal(status, "example.org")
    assert told.startswith(f"example.org {sentence}") and f"({status})" in told


def test_the_source_is_described_in_one_line() -> None:
    dated = FetchedPage("https://example.org/", "Towns", "2024-05-01", b"").source
    assert (dated.description, dated.url, dated.title) == (
        "Towns, dated 2024-05-01, https://example.org/", "https://example.org/", "Towns"
    )  # fmt: skip
    assert FetchedPage("https://example.org/", "", "", b"").source.description == "(no title), https://example.org/"


class Site(LoopbackServer):
    """Site that gives one answer to everything."""

    said = Answer(b"<p>Rome</p>", headers={"Content-Type": "text/html; charset=utf-8"})

    def answer(self, asked: Asked) -> Answer:
        return self.said


def fetch_from(site: Site, **changes: Any) -> FetchedPage:
    host = site.base_url.removeprefix("http://")
    settings = WebSettings(**{"allow_private_hosts": [host], "attempts": 1, "seconds": 7, **changes})
    return asyncio.run(fetch_page(f"{site.base_url}/a", settings))


def test_a_page_is_asked_for_as_a_browser_would_after_its_turn_and_within_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, limits = list[tuple[str, float | None]](), list[tuple[float, str]]()
    real = fetched_page.limit_time

    async def record(service: str, per_minute: float | None) -> None:
        turns.append((service, per_minute))

    monkeypatch.setattr(fetched_page, "wait_for_turn", record)
    monkeypatch.setattr(fetched_page, "limit_time", lambda *given: limits.append(given) or real(*given))
    with running(Site()) as site:
        page = fetch_from(site, pages_per_minute_and_host=30, contact="me@example.org")
    assert (page.url, page.title, page.date) == (f"{site.base_url}/a", "", "")
    (asked,) = site.requests
    assert (asked.method, asked.path) == ("GET", "/a")
    assert asked.headers["user-agent"] == "Mozilla/5.0 (compatible; mas-harness/0.1 (me@example.org) httpx)"
    assert asked.headers["accept"] == "text/html,application/xhtml+xml,application/pdf,*/*;q=0.8"
    assert asked.headers["accept-language"] == "en,*;q=0.5"
    assert turns == [(f"pages of {site.base_url.removeprefix('http://')}", 30)]
    assert limits == [(7, "Reading what 127.0.0.1 sent")]


@pytest.mark.parametrize(("status", "is_refused"), [(399, False), (400, True), (404, True)])
def test_a_status_from_400_on_is_a_refusal(status: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "said", Answer(b"<p>Rome</p>", status, {"Content-Type": "text/html"}))
    with running(Site()) as site:
        if not is_refused:
            assert fetch_from(site).url == f"{site.base_url}/a"
            return
        with pytest.raises(ToolError) as refused:
            fetch_from(site)
    assert str(refused.value) == _describe_refusal(status, "127.0.0.1")


def test_a_file_has_a_limit_of_its_own_and_a_sound_is_refused_by_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Site()) as site:
        with pytest.raises(ToolError, match="larger than 5 bytes"):
            fetch_from(site, max_file_bytes=5)
        with pytest.raises(ToolError, match="The page is larger than 5 bytes; try a smaller page"):
            fetch_from(site, max_bytes=5)
        monkeypatch.setattr(Site, "said", Answer(b"x" * 100, headers={"Content-Type": "Audio/MPEG; a=b"}))
        with pytest.raises(ToolError) as refused:
            fetch_from(site, max_file_bytes=5)
    assert str(refused.value) == "This address gives audio/mpeg, not text; read_page cannot show it."


@pytest.mark.parametrize(
    ("url", "content_type", "name"),
    [
        (f"https://example.org/{'x' * 100}.csv", "", f"{'x' * 76}.csv"),
        ("https://example.org/._notes_.", "text/plain", "notes.txt"),
        ("https://example.org/data.json", "application/ld+json", "data.json.jsonld"),
        ("https://example.org/a.PDF", "application/pdf", "a.PDF"),
    ],
)
def test_long_and_odd_names_are_trimmed(url: str, content_type: str, name: str) -> None:
    assert _choose_file_name(Reply(url, 200, {"content-type": content_type}, b"")) == name
