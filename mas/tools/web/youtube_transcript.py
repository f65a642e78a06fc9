"""Tool that reads the transcript of a YouTube video.

await youtube_transcript_tool("https://www.youtube.com/watch?v=dQw4w9WgXcQ", search="never")
"""

from mas.runtime.untrusted import mark_untrusted
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolResult
from mas.tools.settings import WebSettings
from mas.tools.tool_context import get_settings
from mas.tools.web.page_view import get_or_fetch, show_page


@mark_untrusted
@mark_read_only
async def youtube_transcript_tool(
    url: str, language: str | None = None, page: int = 1, search: str | None = None
) -> ToolResult:
    """Read the transcript (subtitles) of a YouTube video, each line with its time. It says nothing of the pictures.

    url: the address of the video, or its id of 11 characters.
    language: a code such as "en" or "de"; without it English, or else the first language that there is.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines that contain this text (upper or lower case), with two lines around each.
    """
    from mas.tools.web.youtube import fetch_transcript, parse_video_id

    video, wanted, settings = parse_video_id(url), (language or "").strip(), get_settings(WebSettings)
    key = ("youtube", settings.youtube_url, video, wanted)
    return show_page(await get_or_fetch(key, lambda: fetch_transcript(video, wanted, settings)), page, search)
