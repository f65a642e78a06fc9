"""Readers of pictures (size, and the text in them by OCR) and sound files (length, from their headers).

    read_picture(Source("sign.png", data)).summary     # "picture, PNG, 640 x 200 pixels, colour mode RGB"
    read_wav(Source("memo.wav", data)).summary         # "sound, WAV, 3.0 seconds, 8000 Hz, 1 channel"

Models listen to sound: mas/agents/media.py.
"""

import struct
import warnings

from mas.tools.files import ocr
from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import split_lines
from mas.tools.results import ToolError

MAX_PIXELS = 50_000_000  # 200 MB once unpacked
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")  # no others: some of Pillow's readers run programs


def read_picture(source: Source) -> Document:
    """Return size and text of a picture."""
    from PIL import Image

    with warnings.catch_warnings(action="ignore"), Image.open(source.open(), formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ToolError(
                f"{source.name} has {width} x {height} pixels; read_file opens pictures up to {MAX_PIXELS}."
            )
        frames = getattr(image, "n_frames", 1)
        summary = f"picture, {image.format}, {width} x {height} pixels, colour mode {image.mode}"
        summary += f", {frames} frames of which the first is read" if frames > 1 else ""
        image.load()
        text = ocr.read_text(image)
    if text is None:
        return Document(summary, [Part([])], [ocr.MISSING])
    note = (
        "What follows is the text that OCR found in it; letters may be misread, shapes and colours are not described."
    )
    return Document(summary, [Part(split_lines(text))], [note] if text else ["OCR found no text in it."])


CANNOT_LISTEN = "read_file does not listen to it: only a model that takes audio can say what is said or played in it."
_BITRATES = {  # kbit/s by the index in a frame's header; ISO 11172-3 and 13818-3, layer III
    1: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {1: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 2.5: (11_025, 12_000, 8_000)}
_VERSIONS = {3: 1, 2: 2, 0: 2.5}


def read_wav(source: Source) -> Document:
    """Return format and length of a WAV file: the chunk `fmt ` has its rates, the chunk `data` its samples."""
    start, samples = source.data.find(b"fmt "), source.data.find(b"data")
    try:
        _, channels, rate, bytes_a_second = struct.unpack_from("<HHII", source.data, start + 8)
        size = min(struct.unpack_from("<I", source.data, samples + 4)[0], len(source.data) - samples - 8)
        if min(start, samples) < 0:
            raise _damage_error(source, "WAV")
        return _build_document("WAV", size / bytes_a_second, rate, channels)
    except (struct.error, ZeroDivisionError) as error:
        raise _damage_error(source, "WAV") from error


def read_mp3(source: Source) -> Document:
    """Return format and length of an MP3 file."""
    data = source.data
    start = _skip_tag(data)
    for place in range(start, min(len(data) - 4, start + 65_536)):
        if frame := _parse_frame(data[place : place + 4]):
            version, bitrate, rate, channels = frame
            count = _count_frames(data[place : place + 200])
            samples = 1152 if version == 1 else 576
            seconds = count * samples / rate if count else (len(data) - place) * 8 / (bitrate * 1000)
            return _build_document("MP3", seconds, rate, channels)
    raise _damage_error(source, "MP3")


def _skip_tag(data: bytes) -> int:
    """Return the end of the ID3v2 tag, whose size is four bytes of seven bits each."""
    if data[:3] != b"ID3" or len(data) < 10:
        return 0
    size = 0
    for byte in data[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size


def _parse_frame(header: bytes) -> tuple[float, int, int, int] | None:
    """Return version, kbit/s, Hz and channels of a layer III frame."""
    sync, second, third, fourth = header
    version, layer = _VERSIONS.get(second >> 3 & 3), second >> 1 & 3
    bits, rate = third >> 4, third >> 2 & 3
    if sync != 0xFF or second >> 5 != 7 or version is None or layer != 1 or not 0 < bits < 15 or rate == 3:
        return None
    return version, _BITRATES[1 if version == 1 else 2][bits], _RATES[version][rate], 1 if fourth >> 6 == 3 else 2


def _count_frames(frame: bytes) -> int:
    """Return the number of frames, which the first frame of a variable bit rate may contain; else 0."""
    for mark in (b"Xing", b"Info"):
        place = frame.find(mark)
        if place > 0 and len(frame) >= place + 12 and frame[place + 7] & 1:
            return int.from_bytes(frame[place + 8 : place + 12], "big")
    return 0


def read_m4a(source: Source) -> Document:
    """Return the length of an MPEG-4 file: the box `mvhd` inside `moov` has a time scale and a duration."""
    place = source.data.find(b"mvhd")
    try:
        long = source.data[place + 4] == 1
        scale, duration = struct.unpack_from(">IQ" if long else ">II", source.data, place + (24 if long else 16))
        return _build_document("MPEG-4 audio", duration / scale)
    except (IndexError, struct.error, ZeroDivisionError) as error:
        raise _damage_error(source, "MPEG-4") from error


def _build_document(kind: str, seconds: float, rate: int = 0, channels: int = 0) -> Document:
    facts = [f"{rate} Hz"] * bool(rate) + [f"{channels} channel{'s' * (channels != 1)}"] * bool(channels)
    return Document(", ".join(["sound", kind, f"{seconds:.1f} seconds", *facts]), [Part([Line(1, CANNOT_LISTEN)])])


def _damage_error(source: Source, kind: str) -> ToolError:
    return ToolError(f"{source.name} is damaged: it has no {kind} header that says what it holds.")
