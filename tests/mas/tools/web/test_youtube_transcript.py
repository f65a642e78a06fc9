"""youtube_transcript_tool against a loopback YouTube: the real client all the way, a sentence for each way to fail."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.web.youtube import parse_video_id, youtube_transcript_tool
from tests.mas.tools.web.in_context import LOOPBACK, a_question, using
from tests.patience import PATIENCE_SECONDS
from tests.servers.loopback import running
from tests.servers.youtube import YouTubeServer


@pytest.fixture(scope="module")
def youtube() -> Iterator[YouTubeServer]:
    with running(YouTubeServer()) as server:
        yield server


def settings(server: YouTubeServer, **changes: Any) -> WebSettings:
    fast: dict[str, Any] = {"seconds": PATIENCE_SECONDS}
    return WebSettings(youtube_url=server.base_url, allow_private_hosts=[LOOPBACK], **{**fast, **changes})


def transcript(server: YouTubeServer, video: str, seconds: float = PATIENCE_SECONDS, **arguments: Any) -> str:
    with using(settings(server, seconds=seconds)):
        return asyncio.run(youtube_transcript_tool(video, **arguments))


def test_lines_come_with_their_times_under_language_and_origin(youtube: YouTubeServer) -> None:
    shown = transcript(youtube, "https://www.youtube.com/watch?v=birds000001&t=42s")
    assert shown.split("\n") == [
        "YouTube video birds000001; transcript in English (en), written by people, until 1:02:09, "
        "https://www.youtube.com/watch?v=birds000001; page 1 of 1",
        "Video Title: Birds of Marrow",
        "Channel: Marrow Wildlife",
        "Duration: 3731 seconds",
        "",
        "[0:00:00] Welcome to the birds of Marrow. [en]",
        "[0:00:02] We saw three kinds & more. [en]",
        "[1:02:05] Goodbye \N{GRINNING FACE} [en]",
    ]


@pytest.mark.parametrize(
    "given",
    [
        "birds000001",
        " birds000001 ",
        "https://youtu.be/birds000001?si=abc",
        "youtu.be/birds000001",
        "http://m.youtube.com/watch?app=desktop&v=birds000001#t=1",
        "https://www.youtube.com/shorts/birds000001",
        "https://www.youtube.com/embed/birds000001?start=3",
        "https://www.youtube.com/live/birds000001",
        "https://www.youtube-nocookie.com/embed/birds000001",
        "www.youtube.com/watch?v=birds000001",
    ],
)
def test_every_form_of_an_address_names_the_video(given: str) -> None:
    assert parse_video_id(given) == "birds000001"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "tooshort",
        "waytoolongforanid",
        "https://vimeo.com/12345678901",
        "https://www.youtube.com/playlist?list=PL123",
        "https://www.youtube.com/@channel",
        "https://www.youtube.com/watch?v=../../etc",
        "https://youtube.com.evil.test/watch?v=birds000001",
        "https://notyoutube.com/watch?v=birds000001",
        "http://[::1",
        "\ud800",
    ],
)
def test_what_is_no_video_is_refused_and_not_sent(youtube: YouTubeServer, given: str) -> None:
    before = len(youtube.requests)
    with pytest.raises(ToolError, match="is no video of YouTube"):
        transcript(youtube, given)
    assert len(youtube.requests) == before


def test_a_video_without_an_english_transcript_is_read_in_its_own_language(youtube: YouTubeServer) -> None:
    assert "transcript in German (de)" in transcript(youtube, "german00001")


@pytest.mark.parametrize(
    ("video", "sentence"),
    [
        ("nocaptions1", "^No transcript found for this YouTube video. Its subtitles are disabled"),
        ("missing0001", "no such video any more, or it is private"),
        ("private0001", "cannot be had .VideoUnplayable"),
        ("adults00001", "cannot be had .AgeRestricted"),
        ("robot000001", "for a robot and refuses"),
        ("captcha0001", "for a robot and refuses"),
        ("toomany0001", r"too many requests \(429\)"),
        ("gone0000001", "YouTube refuses the request"),
        ("changed0001", "cannot be had .YouTubeDataUnparsable"),
        ("garbled0001", "something that cannot be read"),
        ("potoken0001", "cannot be had .PoTokenRequired"),
        ("emptytext01", "something that cannot be read"),
        ("notxml00001", "something that cannot be read"),
        ("entities001", "something that cannot be read"),
        ("inside00001", "This URL is refused: its host is an address that is not public"),
    ],
)
def test_each_failure_has_its_sentence(youtube: YouTubeServer, video: str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence) as failed:
        transcript(youtube, video)
    assert len(str(failed.value)) < 300 and "\n" not in str(failed.value)


def test_the_consent_page_is_answered_once(youtube: YouTubeServer) -> None:
    assert "Welcome to the birds" in transcript(youtube, "consent0001")


@pytest.mark.slow
def test_what_passes_is_tried_again() -> None:
    with running(YouTubeServer(["503", "ok", "429_retry_after_1"])) as server, using(settings(server)):
        assert "Welcome to the birds" in asyncio.run(youtube_transcript_tool("birds000001"))
    assert len(server.requests) == 5


def test_a_long_talk_is_paged_searched_and_fetched_once_a_question(youtube: YouTubeServer) -> None:
    with a_question():
        first = transcript(youtube, "longtalk001")
        before = len(youtube.requests)
        count = int(re.search(r"page 1 of (\d+)", first)[1])  # type: ignore[index]
        pages = [first, *(transcript(youtube, "longtalk001", page=number) for number in range(2, count + 1))]
        assert len(re.findall(r"Sentence \d+ of", "".join(pages))) == 2_000
        found = transcript(youtube, "longtalk001", search="sentence 1999")
        assert "> 2000 | [1:06:38] Sentence 1999 of the talk. [en]" in found
        assert len(youtube.requests) == before
