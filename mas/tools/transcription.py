"""Transcripts of attached sounds, by the `openai` client and any server with OpenAI's transcription endpoint.

settings = TranscriptionSettings(model="whisper-1")          # tools.transcription.model=whisper-1
transcribe(Path("/data/memo.mp3"), "memo.mp3", settings)     # "Buy three pounds of flour."

Off by default: it sends the sound to a server and costs money, which the run's cost does not include.
"""

import asyncio
from pathlib import Path

from mas.runtime.sample_context import current_context
from mas.tools.results import ToolError
from mas.tools.settings import TranscriptionSettings

FORMATS = (".mp3", ".wav", ".m4a", ".flac", ".ogg", ".mp4", ".webm")  # that the endpoint takes
MAX_BYTES = 25_000_000  # of one file at OpenAI; https://platform.openai.com/docs/guides/speech-to-text
MAX_SECONDS = 120.0  # for one sound, retries and all
MAX_TRANSCRIPT_CHARS = 1_000_000


def describe_missing_key(settings: TranscriptionSettings) -> str | None:
    """Return a sentence for the user if a model is named and its key is missing."""
    if settings.model is None or settings.is_on:
        return None
    return (
        f"sounds are not transcribed: tools.transcription.model={settings.model} needs a key in {settings.api_key_env}."
    )


def transcribe(path: Path, name: str, settings: TranscriptionSettings) -> str:
    """Return what is said in a sound.

    Args:
        path: of the sound.
        name: under which the server and messages know it.
        settings: of the run, switched on.

    Raises:
        ToolError: the file is too large or unreadable, or the server did not answer, or refused.
    """
    import openai  # half a second

    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        raise ToolError(f"{name} has {len(data)} bytes, and at most {MAX_BYTES} are sent to be transcribed.")
    try:
        # In a loop of its own, in the tool's thread: the client's own limits do not end a reply that drips.
        return asyncio.run(_request(name, data, settings))[:MAX_TRANSCRIPT_CHARS]
    except (openai.OpenAIError, TimeoutError, ValueError, TypeError, AttributeError) as error:
        status = getattr(error, "status_code", None)  # not the server's own words, which may repeat the key
        why = f"the server refuses it (HTTP {status})" if status else f"no answer of use ({type(error).__name__})"
        raise ToolError(
            f"{name} cannot be transcribed: {why}; check tools.transcription, its model, base_url and the key in "
            f"{settings.api_key_env}."
        ) from error


async def _request(name: str, data: bytes, settings: TranscriptionSettings) -> str:
    import openai

    client = openai.AsyncOpenAI(
        api_key=settings.api_key or "none",
        base_url=settings.base_url or "https://api.openai.com/v1",  # never from OPENAI_BASE_URL
        timeout=MAX_SECONDS,
        max_retries=1,
    )
    context = current_context()
    async with asyncio.timeout(min(MAX_SECONDS, context.seconds_left if context else MAX_SECONDS)), client:
        reply = await client.audio.transcriptions.create(model=settings.model or "", file=(name, data))
    if not isinstance(reply.text, str):
        raise TypeError("no text")
    return reply.text
