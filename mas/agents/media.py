"""Pictures and sounds for models that take them: an attachment as a part of the message that names it.

Signatures, traces, records and worked examples hold the attachment's bare name and nothing else; the file itself is put
beside the name while a request is written (`mas/agents/chat_adapter.py`). Formats and size are those of OpenAI's guides
"Images and vision" (png, jpeg, webp, gif that is not animated; up to 20 MB each) and "Audio" (`input_audio`: wav, mp3);
other servers may take less.

    with attached([Path("/data/map.png")]):
        media = (await read_media(lm))["map.png"]
        media.parts      # [{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}]
        media.remark     # "The picture itself is shown to you beside the request that names it."
"""

import asyncio
import base64
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy

from mas.runtime.event_loop import model_call
from mas.tools.attachments import list_attachments
from mas.tools.files.document import Source
from mas.tools.files.kinds import detect_kind
from mas.tools.files.readers import audio
from mas.tools.results import ToolError

MAX_BYTES = 20_000_000  # of one file, before base64 makes it a third longer
PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
SOUNDS = {".wav": "wav", ".mp3": "mp3"}
OTHER_PICTURES = (".bmp", ".tif", ".tiff", ".heic")
OTHER_SOUNDS = (".m4a", ".flac", ".ogg", ".aac")

_HEAD_BYTES = 64  # what a file is, its first bytes say
# The extension that comes before a frame, and the beginning of what follows it; more than one: it is animated.
_GIF_FRAME = re.compile(rb"\x21\xf9\x04.{4}\x00[\x21\x2c]", re.DOTALL)
_KEPT = 8  # files at once, for the agents' next requests


@dataclass(frozen=True)
class Media:
    """One picture or sound of the question, for a model that takes its like."""

    is_picture: bool
    parts: list[dict[str, Any]] = field(default_factory=list)  # of the message; empty: it is not sent
    why_not: str = ""

    @property
    def remark(self) -> str:
        """For the model: where the file itself is, or why it is not there."""
        what, given = ("picture", "shown") if self.is_picture else ("sound", "given")
        if self.parts:
            return f"The {what} itself is {given} to you beside the request that names it."
        return f"The {what} itself is not {given} to you: {self.why_not}."


async def read_media(lm: Any) -> dict[str, Media]:
    """The question's pictures, if the model takes pictures, and its sounds, if it takes sounds, by bare name.

    `lm`: an `AgentLM`; one that does not say what it takes, takes neither.
    """
    pictures, sounds = getattr(lm, "takes_images", False), getattr(lm, "takes_audio", False)
    files = list_attachments()
    if not files or not (pictures or sounds):
        return {}
    with model_call():  # megabytes to be read: not on the event loop, nor behind tools that wait in its threads
        found = await asyncio.to_thread(lambda: {name: _media(path) for name, path in files.items()})
    return {name: media for name, media in found.items() if media and (pictures if media.is_picture else sounds)}


def describe_media(called_with: dict[str, Any], media: dict[str, Media]) -> str:
    """What is added to the result of a tool that was asked for a file, where the file is a picture or sound.

    It is no part of what the tool returns, which must not depend on the model: it is kept and used again.
    """
    named = called_with.get("file")
    if not isinstance(named, str) or named not in media or called_with.get("member"):
        return ""
    return f"\n\n[{media[named].remark}]"


def _media(path: Path) -> Media | None:
    try:
        status = path.stat()
        return _made(path, status.st_mtime_ns, status.st_size)
    except OSError:  # gone: the tool that is asked to read it says so
        return None


@functools.lru_cache(_KEPT)
def _made(path: Path, _modified_ns: int, size: int) -> Media | None:
    """Time and size are there to notice that the file has changed."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        kind = detect_kind(Source(path.name, head))
        is_picture = kind in PICTURES or kind in OTHER_PICTURES
        if not is_picture and kind not in SOUNDS and kind not in OTHER_SOUNDS:
            return None
        if why_not := _unfit(kind, size, is_picture):
            return Media(is_picture, why_not=why_not)
        data = head + file.read()
    return _picture(kind, data) if is_picture else _sound(kind, Source(path.name, data))


def _unfit(kind: str, size: int, is_picture: bool) -> str:
    sent = PICTURES if is_picture else SOUNDS
    if kind not in sent:
        *names, last = (each.removeprefix(".") for each in sent)
        return f"{', '.join(names)} and {last} are sent to models, {kind.removeprefix('.')} is not"
    return f"it has {size} bytes, and at most {MAX_BYTES} are sent" if size > MAX_BYTES else ""


def _picture(kind: str, data: bytes) -> Media:
    if kind == ".gif" and len(_GIF_FRAME.findall(data)) > 1:
        return Media(True, why_not="it is animated, and models take still pictures alone")
    shown = dspy.Image(f"data:{PICTURES[kind]};base64,{_base64(data)}")
    return Media(True, list(shown.format()))


def _sound(kind: str, source: Source) -> Media | None:
    read = audio.read_wav if kind == ".wav" else audio.read_mp3
    try:
        read(source)  # most mp3 files have no signature: it is one if it can be read as one
    except ToolError:  # damaged, or it has the name of a sound and is none: the tool that is asked to read it says so
        return None
    return Media(False, list(dspy.Audio(data=_base64(source.data), audio_format=SOUNDS[kind]).format()))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
