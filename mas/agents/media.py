"""Pictures and sounds for models that take them: an attachment as a part of the message that names it.

Signatures, traces, records and worked examples have the attachment's bare name alone. Formats and size are those of
OpenAI's guides "Images and vision" and "Audio"; other servers may take less.
"""

import asyncio
import base64
import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dspy

from mas.agents.tool_adapter import Parts
from mas.tools.attachments import list_attachments
from mas.tools.files.document import Source
from mas.tools.files.kinds import detect_kind

MAX_BYTES = 20_000_000  # of one file, before base64 makes it a third longer
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic")
_SOUNDS = (".wav", ".mp3", ".m4a", ".flac", ".ogg", ".aac")
_SENT = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".wav", ".mp3")

_HEAD_BYTES = 64  # enough to detect the kind of a file
# Extension block before a frame, and the beginning of the next block; with more than one it is animated.
_GIF_FRAME = re.compile(rb"\x21\xf9\x04.{4}\x00[\x21\x2c]", re.DOTALL)
_MAX_CACHED = 8  # files, for the agents' next requests


@dataclass(frozen=True)
class Media:
    """One picture or sound of the question, for a model that takes such files."""

    is_picture: bool
    parts: Parts = field(default_factory=list)  # of the message; empty: it is not sent
    why_not: str = ""  # the reason why it is not sent

    @property
    def remark(self) -> str:
        """Sentence for the model that says where the file itself is, or why it is missing."""
        what, given = ("picture", "shown") if self.is_picture else ("sound", "given")
        if self.parts:
            return f"The {what} itself is {given} to you beside the request that names it."
        return f"The {what} itself is not {given} to you: {self.why_not}."


async def read_media(lm: dspy.BaseLM) -> dict[str, Media]:
    """Return the pictures and sounds of the question that an `AgentLM` takes, by bare name."""
    pictures, sounds = getattr(lm, "takes_images", False), getattr(lm, "takes_audio", False)
    files = list_attachments()
    if not files or not (pictures or sounds):
        return {}
    # Megabytes to be read: not on the event loop.
    found = await asyncio.to_thread(lambda: {name: _read_file(path) for name, path in files.items()})
    return {name: media for name, media in found.items() if media and (pictures if media.is_picture else sounds)}


def describe_media(arguments: Mapping[str, object], media: Mapping[str, Media]) -> str:
    """Return the remark to add to a tool's result if its arguments name a picture or sound.

    The result itself must not depend on the model, since it is cached.
    """
    named = arguments.get("file")
    if not isinstance(named, str) or named not in media or arguments.get("member"):
        return ""
    return f"\n\n[{media[named].remark}]"


def _read_file(path: Path) -> Media | None:
    try:
        status = path.stat()
        return _read_version(path, status.st_mtime_ns, status.st_size)
    except OSError:  # it is gone: the tool that reads it reports that
        return None


@functools.lru_cache(_MAX_CACHED)
def _read_version(path: Path, _modified_ns: int, size: int) -> Media | None:
    """Read a file; time and size are part of the cache key, so that a changed file is read again."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        kind = detect_kind(Source(path.name, head))
        form, is_picture = kind.removeprefix("."), kind in _PICTURES
        if not is_picture and kind not in _SOUNDS:
            return None
        if kind not in _SENT:
            sent = "png, jpg, gif and webp" if is_picture else "wav and mp3"
            return Media(is_picture, why_not=f"{sent} are sent to models, {form} is not")
        if size > MAX_BYTES:
            return Media(is_picture, why_not=f"it has {size} bytes, and at most {MAX_BYTES} are sent")
        data = head + file.read()
    if form == "gif" and len(list(itertools.islice(_GIF_FRAME.finditer(data), 2))) > 1:
        return Media(True, why_not="it is animated, and models take still pictures alone")
    text = base64.b64encode(data).decode("ascii")
    if is_picture:
        image_type = form.replace("jpg", "jpeg")
        return Media(True, list(dspy.Image(f"data:image/{image_type};base64,{text}").format()))
    return Media(False, list(dspy.Audio(data=text, audio_format=form).format()))
