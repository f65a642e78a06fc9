"""What is taken from YouTube's replies: the video, the languages, the lines, and which failure has which sentence."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
import requests
import youtube_transcript_api as api

from mas.tools.http.settings import WebSettings
from mas.tools.results import ToolError
from mas.tools.web import youtube
from mas.tools.web.youtube import Transcript, Video, fetch_transcript, format_time, parse_video_id
from tests.servers.loopback import Answer, Asked, running
from tests.servers.youtube import YouTubeServer

CANNOT_BE_READ = "YouTube answered with something that cannot be read; try again later."


def settings(server: YouTubeServer, **changes: Any) -> WebSettings:
    fast: dict[str, Any] = {"attempts": 1, "seconds": 5, "youtube_requests_per_minute": None}
    return WebSettings(youtube_url=f"{server.base_url}/", **{**fast, **changes})


def fetch(server: YouTubeServer, video: str, language: str = "", **changes: Any) -> Transcript:
    return asyncio.run(fetch_transcript(video, language, settings(server, **changes)))


class Describing(YouTubeServer):
    """YouTube whose player says this of every video."""

    def __init__(self, details: object) -> None:
        super().__init__()
        self.details = details

    def answer(self, asked: Asked) -> Answer:
        said = super().answer(asked)
        if asked.path != "/youtubei/v1/player":
            return said
        return Answer(json.dumps({**json.loads(said.body), "videoDetails": self.details}).encode())


@pytest.mark.parametrize(
    ("given", "video"),
    [
        ("https://www.youtube.com/v/birds000001", "birds000001"),
        ("https://www.youtube.com/e/birds000001/", "birds000001"),
        ("https://www.youtu.be./birds000001/more", "birds000001"),
        ("https://youtube.com/shorts?v=birds000001", "birds000001"),
        ("https://youtube.com/watch/else?v=birds000001", "birds000001"),
        ("https://youtube.com/?v=birds000001&v=other000001", "birds000001"),
    ],
)
def test_rarer_forms_of_an_address_name_the_video_too(given: str, video: str) -> None:
    assert parse_video_id(given) == video


@pytest.mark.parametrize("given", ["https://youtu.be/", "https://youtube.com/shorts/", "http://[::1", "x" * 300])
def test_what_names_no_video_is_repeated_in_part(given: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_video_id(given)
    shown = given if len(given) <= 200 else f"{'x' * 160}… (140 more characters)"
    said = f"{shown!r} is no video of YouTube; give its address or its id of 11 characters."
    assert str(refused.value) == said


def test_a_transcript_is_taken_whole_with_the_video_and_the_other_languages() -> None:
    with running(YouTubeServer()) as server:
        found = fetch(server, "birds000001")
        assert found == Transcript(
            language="English (en)",
            generated=False,
            lines=[
                "[0:00] Welcome to the birds of Marrow. [en]",
                "[0:02] We saw three kinds & more. [en]",
                "[1:02:05] Goodbye \N{GRINNING FACE} [en]",
            ],
            seconds=3729.0,
            others=["de (German)", "en (English (auto-generated), generated)"],
            video=Video("Birds of Marrow", "Marrow Wildlife", 3731),
        )
        assert [(each.method, each.path) for each in server.requests] == [
            ("GET", "/watch"), ("POST", "/youtubei/v1/player"), ("GET", "/api/timedtext")
        ]  # fmt: skip
        spoken = fetch(server, "german00001", "pt")
        assert (spoken.generated, spoken.others, spoken.video) == (True, ["de (German)"], Video())


def test_only_the_headers_that_are_needed_are_passed_on() -> None:
    with running(YouTubeServer()) as server:
        fetch(server, "consent0001")
        asked = server.requests[-2].headers
    assert asked["content-type"] == "application/json" and "accept-language" in asked
    assert "CONSENT=YES+cb.17" in server.requests[1].headers["cookie"]
    assert asked["user-agent"] == WebSettings().user_agent
    assert set(asked) <= {
        *("host", "user-agent", "accept", "accept-encoding", "connection"),
        *("accept-language", "content-type", "content-length", "cookie"),
    }


@pytest.mark.parametrize(
    ("details", "video"),
    [
        ({"title": " A \n b ", "author": "C", "lengthSeconds": "0"}, Video("A b", "C", 0)),
        ({"title": "A", "lengthSeconds": 61}, Video("A", "", 61)),
        ({"title": None, "author": 7, "lengthSeconds": "123456789"}, Video("", "7", 123_456_789)),
        ({"lengthSeconds": "1234567890"}, Video()),
        ({"lengthSeconds": "-3"}, Video()),
        ({"title": "x" * 201}, Video(f"{'x' * 160}… (41 more characters)")),
        ({"author": "x" * 200}, Video("", "x" * 200)),
        ({}, Video()),
        (None, Video()),
        ([], Video()),
    ],
)
def test_facts_of_a_video_are_taken_as_far_as_they_are_there(details: object, video: Video) -> None:
    with running(Describing(details)) as server:
        assert fetch(server, "birds000001").video == video


def test_a_reply_of_absurdly_many_elements_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(YouTubeServer()) as server:
        fetch(server, "birds000001")
        most = 1
        for most in range(1, 60):
            monkeypatch.setattr(youtube, "MAX_ELEMENTS", most)
            try:
                fetch(server, "birds000001")
                break
            except ToolError as error:
                assert str(error) == CANNOT_BE_READ
        bodies = [server.answer(each).body for each in server.requests[-3:]]
    assert most == max(sum(body.count(mark) for mark in (b"<", b"{", b"[")) for body in bodies)


def test_a_reply_has_the_limit_of_pages_or_a_lower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(YouTubeServer()) as server:
        with pytest.raises(ToolError, match="larger than 20 bytes"):
            fetch(server, "birds000001", max_bytes=20)
        monkeypatch.setattr(youtube, "MAX_REPLY_BYTES", 30)
        with pytest.raises(ToolError, match="larger than 30 bytes"):
            fetch(server, "birds000001")


@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_refusal_ends_with_its_status(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(YouTubeServer, "faults", {"refused": Answer(b"", status)})
    with running(YouTubeServer(["refused"])) as server, pytest.raises(ToolError) as refused:
        fetch(server, "birds000001")
    said = f"YouTube refuses the request ({status}); try again later, or search for the text elsewhere."
    assert str(refused.value) == said


def test_each_request_waits_for_its_turn_and_all_have_twice_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[str, float | None]] = []
    limits: list[tuple[float, str]] = []
    real = youtube.limit_time

    async def record(service: str, per_minute: float | None) -> None:
        turns.append((service, per_minute))

    monkeypatch.setattr(youtube, "wait_for_turn", record)
    monkeypatch.setattr(youtube, "limit_time", lambda *given: limits.append(given) or real(*given))
    with running(YouTubeServer()) as server:
        fetch(server, "birds000001", youtube_requests_per_minute=60)
    assert turns == [("youtube", 60)] * 3 and limits == [(10, "YouTube")]


class Caption:
    """Transcript on offer, of which nothing is fetched."""

    def __init__(self, code: str, generated: bool = False) -> None:
        self.language_code, self.language, self.is_generated = code, code.upper(), generated


@pytest.mark.parametrize(
    ("codes", "language", "chosen"),
    [
        ("de en-GB en", "", 2),
        ("de en-GB EN-US", "", 1),
        ("de fr", "", 0),
        ("de-AT de", "de", 1),
        ("fr de-AT de-CH", "de", 1),
        ("fr de-AT de-CH", "DE-ch", 2),
        ("en de-AT", "de-CH", 1),
        ("fr pt", "pt-BR", 1),
    ],
)
def test_the_exact_language_goes_before_another_region_of_it(codes: str, language: str, chosen: int) -> None:
    offered = [cast(api.Transcript, Caption(code)) for code in codes.split()]
    assert youtube._choose(offered, language) is offered[chosen]


def test_a_language_that_is_not_there_is_answered_with_all_there_are() -> None:
    offered = [cast(api.Transcript, Caption(code, code == "fr")) for code in ("en", "fr")]
    with pytest.raises(ToolError) as refused:
        youtube._choose(offered, "x" * 41)
    assert str(refused.value) == (
        "The video has no transcript in '… (41 more characters)'; there are: en (EN); fr (FR, generated)."
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (api.IpBlocked, "YouTube takes this machine for a robot and refuses (address blocked or captcha); "
         "no transcript can be had from here for now."),
        (api.RequestBlocked, "YouTube takes this machine for a robot and refuses (sign-in asked for); "
         "no transcript can be had from here for now."),
        (api.VideoUnavailable, "There is no such video any more, or it is private; check its id or search for "
         "another."),
        (api.InvalidVideoId, "That is no video of YouTube; give its address or its id of 11 characters."),
        (api.FailedToCreateConsentCookie, "YouTube asks for a consent that could not be given; try again later."),
        (api.CouldNotRetrieveTranscript, "The transcript cannot be had (CouldNotRetrieveTranscript); "
         "search for its text elsewhere."),
        (lambda video: api.VideoUnplayable(video, None, []), "YouTube does not play the video (it gives no reason); "
         "search for its text elsewhere."),
        (lambda video: api.VideoUnplayable(video, "not \n here", []), "YouTube does not play the video (not here); "
         "search for its text elsewhere."),
    ],
)  # fmt: skip
def test_each_failure_of_the_package_has_its_sentence(
    make: Callable[[str], Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Transcript:
        raise make("birds000001")

    monkeypatch.setattr(youtube, "_fetch", fail)
    with pytest.raises(ToolError) as failed:
        asyncio.run(fetch_transcript("birds000001", "", WebSettings()))
    assert str(failed.value) == said


@pytest.mark.parametrize("error", [requests.ConnectionError(), ValueError(), KeyError(), TypeError(), AttributeError()])
def test_what_else_goes_wrong_in_the_package_is_a_reply_that_cannot_be_read(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Transcript:
        raise error

    monkeypatch.setattr(youtube, "_fetch", fail)
    with pytest.raises(ToolError) as failed:
        asyncio.run(fetch_transcript("birds000001", "", WebSettings()))
    assert str(failed.value) == CANNOT_BE_READ


@pytest.mark.parametrize(
    ("seconds", "shown"), [(60, "1:00"), (3_599, "59:59"), (3_600, "1:00:00"), (36_061, "10:01:01")]
)
def test_an_hour_adds_a_part_to_a_time(seconds: float, shown: str) -> None:
    assert format_time(seconds) == shown
