"""Transcripts of YouTube videos, by `youtube-transcript-api` and our guarded client.

parse_video_id("https://youtu.be/dQw4w9WgXcQ?t=43")                     # "dQw4w9WgXcQ"
await fetch_transcript("dQw4w9WgXcQ", language="en", settings=get_settings(WebSettings))   # Transcript(…)
"""

import asyncio
import json
import re
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

import requests
import youtube_transcript_api as api
from requests.adapters import BaseAdapter

from mas.runtime.safe_call import run_in_thread
from mas.tools.files.paging import clip
from mas.tools.http.client import Reply, Rules, limit_time, send_request
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings

MAX_REPLY_BYTES = 5_000_000  # the package parses it in this process; ten hours of subtitles have 1,400,000
_ORIGIN = "https://www.youtube.com"  # where the package asks
_PLAYER = "/youtubei/v1/player"  # its reply describes the video, too; the package does not pass that on
_SENT_HEADERS = ("accept-language", "content-type", "cookie")
_MAX_NAME_CHARS = 200
_ID = re.compile(r"([A-Za-z0-9_-]{11})")
_ADDRESS = re.compile(
    r"(?:https?:)?(?://)?(?:(?:[\w-]+\.)*youtube(?:-nocookie)?\.com(?::\d+)?/(?:watch/?\?(?:[^#]*&)?v="
    r"|(?:shorts|embed|live|v|e)/)|(?:www\.)?youtu\.be/)([A-Za-z0-9_-]{11})(?![A-Za-z0-9_-])",
    re.ASCII | re.IGNORECASE,
)
_NO_TRANSCRIPT = "No transcript found for this YouTube video."
_SENTENCES: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (api.RequestBlocked, "YouTube takes this machine for a robot and refuses; no transcript can be had from here."),
    (api.VideoUnavailable, "There is no such video any more, or it is private; check its id or search for another."),
    (api.TranscriptsDisabled, f"{_NO_TRANSCRIPT} Its subtitles are disabled; search the web for what is said in it."),
)


@dataclass(frozen=True)
class Transcript:
    language: str  # "English (en)"
    generated: bool  # by speech recognition
    lines: list[str]  # "[0:15] what is said"
    seconds: float  # until the end of the last line
    others: list[str]  # languages of the other transcripts
    title: str = ""  # of the video, as its player shows it; what YouTube does not say is empty or None
    channel: str = ""
    duration_seconds: int | None = None


def parse_video_id(url_or_id: str) -> str:
    """Return the id of a video from its address or the id itself.

    Raises:
        ToolError: it is neither.
    """
    text = url_or_id.strip()
    found = _ID.fullmatch(text) or _ADDRESS.match(text)
    if found is None:
        raise ToolError(f"{clip(text, 200)!r} is no video of YouTube; give its address or its id of 11 characters.")
    return found[1]


async def fetch_transcript(video: str, language: str, settings: WebSettings) -> Transcript:
    """Return the transcript in a language; if that is empty, in English or else the first one.

    Raises:
        ToolError: there is none, or YouTube does not give it.
    """
    adapter = _GuardedAdapter(asyncio.get_running_loop(), settings)
    async with limit_time(2 * settings.seconds, "YouTube"):  # three or four requests
        try:
            found: Transcript = await run_in_thread(
                lambda: _fetch(video, language, _make_session(adapter)),
                lambda how: ToolError(f"The request {how}; try again."),
            )
        except api.CouldNotRetrieveTranscript as error:
            raise ToolError(_describe_error(error)) from error
        except (requests.RequestException, ParseError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ToolError("YouTube answered with something that cannot be read; try again later.") from error
    return replace(found, **adapter.about)


def _fetch(video: str, language: str, http: requests.Session) -> Transcript:
    available = list(api.YouTubeTranscriptApi(http_client=http).list(video))  # those written by people come first
    chosen = _choose(available, language)
    fetched = chosen.fetch()
    texts = [f"[{format_time(each.start)}] {' '.join(each.text.split())}" for each in fetched]
    end = max((each.start + each.duration for each in fetched), default=0.0)
    others = [_describe_transcript(each) for each in available if each is not chosen]
    return Transcript(f"{chosen.language} ({chosen.language_code})", chosen.is_generated, texts, end, others)


def _choose(available: "list[api.Transcript]", language: str) -> "api.Transcript":
    """Choose a transcript by its exact code, then by one of another region; `available` is not empty."""
    for wanted in (language.lower(),) if language else ("en", ""):
        for exact in (True, False):
            for each in available:
                code = str(each.language_code).lower()
                if code == wanted or not wanted or (not exact and code.split("-")[0] == wanted.split("-")[0]):
                    return each
    names = clip("; ".join(_describe_transcript(each) for each in available), 1_000) or "none"
    raise ToolError(f"{_NO_TRANSCRIPT} It has none in {clip(language, 40)!r}; there are: {names}.")


def _describe_transcript(transcript: "api.Transcript") -> str:
    generated = ", generated" if transcript.is_generated else ""
    return f"{transcript.language_code} ({transcript.language}{generated})"


def format_time(seconds: float) -> str:
    """Return a time such as "1:02:03", below an hour "2:03"."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _describe_error(error: api.CouldNotRetrieveTranscript) -> str:
    known = next((sentence for kind, sentence in _SENTENCES if isinstance(error, kind)), None)
    return known or f"The transcript cannot be had ({type(error).__name__}); search for its text elsewhere."


class _GuardedAdapter(BaseAdapter):
    """Adapter that sends the package's requests by our client, on the tool's loop, to the host of the settings."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: WebSettings) -> None:
        super().__init__()
        self.about: dict[str, Any] = {}  # facts about the video, as in `Transcript`
        self._loop, self._settings = loop, settings
        host = urlsplit(settings.youtube_url).netloc
        self._rules = Rules(MAX_REPLY_BYTES, (*settings.allow_private_hosts, host))

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        reply = asyncio.run_coroutine_threadsafe(self._ask(request), self._loop).result()
        response = requests.Response()
        response.status_code, response.url, response.request = reply.status, reply.url, request
        response.headers.update(reply.headers)
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        response.raw = BytesIO(reply.body)
        return response

    async def _ask(self, request: requests.PreparedRequest) -> Reply:
        url = str(request.url)
        if url.startswith(f"{_ORIGIN}/"):
            url = self._settings.youtube_url.rstrip("/") + url.removeprefix(_ORIGIN)
        headers = {name: value for name, value in request.headers.items() if name.lower() in _SENT_HEADERS}
        sent = {"headers": headers, "content": request.body if isinstance(request.body, bytes) else None}
        reply = await send_request(str(request.method), url, self._settings, "YouTube", self._rules, **sent)
        if reply.status >= 400:
            sentence = "try again later, or search for the text elsewhere."
            raise ToolError(f"YouTube refuses the request ({reply.status}); {sentence}")
        if urlsplit(url).path == _PLAYER:
            self.about = _read_about(reply.body)
        return reply

    def close(self) -> None:
        """Do nothing: no connection is kept open."""


def _make_session(adapter: BaseAdapter) -> requests.Session:
    """Return a session that uses the adapter alone and nothing of the environment."""
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _read_about(body: bytes) -> dict[str, Any]:
    """Return the facts in a reply of the player; what is missing or of another type is left out."""
    try:
        details = json.loads(body)["videoDetails"]
        title, channel, seconds = (str(details.get(key) or "") for key in ("title", "author", "lengthSeconds"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    length = int(seconds) if re.fullmatch(r"[0-9]{1,9}", seconds) else None
    return {"title": _clip_name(title), "channel": _clip_name(channel), "duration_seconds": length}


def _clip_name(text: str) -> str:
    return clip(" ".join(text.split()), _MAX_NAME_CHARS)
