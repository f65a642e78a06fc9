"""Tool that reads the transcript of a YouTube video, by `youtube-transcript-api` and our guarded client."""

import asyncio
import json
import re
from contextlib import suppress
from io import BytesIO
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

import requests
import youtube_transcript_api as api
from requests.adapters import BaseAdapter

from mas.runtime.safe_call import run_in_thread
from mas.runtime.untrusted import mark_untrusted
from mas.tools.files.document import Document, Part, clip, number_lines
from mas.tools.http.client import Reply, Rules, limit_time, send_request
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import WebSettings, get_settings
from mas.tools.web.page_view import FetchedPage, get_or_fetch, show_page

MAX_REPLY_BYTES = 5_000_000  # the package parses it in this process; ten hours of subtitles have 1,400,000
_ORIGIN = "https://www.youtube.com"  # where the package asks
_PLAYER = "/youtubei/v1/player"  # its reply describes the video, too; the package does not pass that on
_SENT_HEADERS = ("accept-language", "content-type", "cookie")
_MAX_NAME_CHARS = 200
_UNKNOWN = "Unknown"
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


@mark_untrusted
@mark_read_only
async def youtube_transcript_tool(url: str, page: int = 1, search: str | None = None) -> ToolResult:
    """Read the transcript (subtitles) of a YouTube video, each line with its time. It says nothing of the pictures.

    url: the address of the video, or its id of 11 characters.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines that contain this text (upper or lower case), with two lines around each.
    """
    video, settings = parse_video_id(url), get_settings(WebSettings)
    key = ("youtube", settings.youtube_url, video)
    return show_page(await get_or_fetch(key, lambda: _fetch_transcript(video, settings)), page, search)


def parse_video_id(url_or_id: str) -> str:
    """Return the id of a video from its address or the id itself."""
    text = url_or_id.strip()
    found = _ID.fullmatch(text) or _ADDRESS.match(text)
    if found is None:
        raise ToolError(f"{clip(text, 200)!r} is no video of YouTube; give its address or its id of 11 characters.")
    return found[1]


async def _fetch_transcript(video: str, settings: WebSettings) -> FetchedPage:
    """Return the transcript in English, or else the first one."""
    adapter = _GuardedAdapter(asyncio.get_running_loop(), settings)
    http = requests.Session()
    http.trust_env = False
    for scheme in ("https://", "http://"):
        http.mount(scheme, adapter)
    async with limit_time(2 * settings.seconds, "YouTube"):  # three or four requests
        try:
            described, lines = await run_in_thread(
                lambda: _fetch(video, http), lambda how: ToolError(f"The request {how}; try again.")
            )
        except api.CouldNotRetrieveTranscript as error:
            unknown = f"The transcript cannot be had ({type(error).__name__}); search for its text elsewhere."
            known = (sentence for kind, sentence in _SENTENCES if isinstance(error, kind))
            raise ToolError(next(known, unknown)) from error
        except (requests.RequestException, ParseError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ToolError("YouTube answered with something that cannot be read; try again later.") from error
    notes = [f"{name}: {value}" for name, value in adapter.about.items()]
    title, url, named = f"YouTube video {video}", f"{_ORIGIN}/watch?v={video}", adapter.about["Video Title"]
    document = Document("", [Part(number_lines(lines))], notes)
    return FetchedPage(f"{title}; {described}, {url}", url, title if named == _UNKNOWN else named, document)


def _fetch(video: str, http: requests.Session) -> tuple[str, list[str]]:
    """Return a description of the transcript, and its lines."""
    available = list(api.YouTubeTranscriptApi(http_client=http).list(video))  # those written by people come first
    english = [each for each in available if str(each.language_code).lower().startswith("en")]
    chosen = [*english, *available][0]
    fetched = chosen.fetch()
    lines = [f"[{_format_time(each.start)}] {' '.join(each.text.split())}" for each in fetched]
    end = _format_time(max((each.start + each.duration for each in fetched), default=0.0))
    how = "generated by speech recognition" if chosen.is_generated else "written by people"
    return f"transcript in {chosen.language} ({chosen.language_code}), {how}, until {end}", lines


def _format_time(seconds: float) -> str:
    """Return a time such as "1:02:03", below an hour "2:03"."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _GuardedAdapter(BaseAdapter):
    """Adapter that sends the package's requests by our client, on the tool's loop, to the host of the settings."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: WebSettings) -> None:
        super().__init__()
        self.about = _read_about(b"")  # facts about the video, as its player shows them
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


def _read_about(body: bytes) -> dict[str, str]:
    """Return the facts in a reply of the player; what is missing or of another type is unknown."""
    details: dict[str, object] = {}
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        details = dict(json.loads(body)["videoDetails"])
    title, channel, seconds = (str(details.get(key) or "") for key in ("title", "author", "lengthSeconds"))
    length = seconds if re.fullmatch(r"[0-9]{1,9}", seconds) else _UNKNOWN
    title, channel = (clip(" ".join(text.split()), _MAX_NAME_CHARS) or _UNKNOWN for text in (title, channel))
    return {"Video Title": title, "Channel": channel, "Duration": f"{length} seconds"}
