"""Which reader gets what an address sends, and under which name."""

import asyncio

import pytest

from mas.tools.http.client import Reply
from mas.tools.results import ToolError
from mas.tools.web.fetched_page import FetchedPage, _describe_refusal, check_type, read_reply

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
